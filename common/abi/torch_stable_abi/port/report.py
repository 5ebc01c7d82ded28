"""Says what a port did, and what is left: as text for people, or as JSON."""

import json
import re
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from torch_stable_abi.files import printable
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.versions import numbers
from torch_stable_abi.port.drafts import Draft
from torch_stable_abi.port.includes import names_in
from torch_stable_abi.port.naming import (
    DIFFERS,
    DONE,
    NONE,
    SLOWER,
    UNKNOWN,
    YOURS,
    Finding,
)
from torch_stable_abi.port.sources import is_source
from torch_stable_abi.port.syntax import UNITS

LEFT = (UNKNOWN, YOURS, NONE)
SCHEMA = 1  # the version of the JSON's shape


@dataclass
class Ported:
    """A file: what was in it, what becomes of it, and what is to be said."""
    path: Path
    old: str
    new: str
    findings: list[Finding] = field(default_factory=list)
    methods: set[str] = field(default_factory=set)  # torch::stable::Tensor::layout, ...

    def count(self, *kinds: str) -> int:
        return sum(one.kind in kinds for one in self.findings)


def as_text(files: list[Ported], drafts: list[Draft], verbose: bool) -> str:
    lines: list[str] = []
    for one in files:
        said = [f for f in one.findings if verbose or f.kind != DONE]
        if said or one.count(DONE):
            lines += ["", f"{printable(str(one.path))}: {_summary(one)}"]
        snippets: set[str] = set()
        for finding in sorted(said, key=lambda f: f.line):
            if finding.kind not in (DIFFERS, SLOWER):
                lines += describe(finding, snippets)
        lines += _describe_differences(one)
    if drafts:
        lines += ["", "Drafts of schemas (STABLE_TORCH_LIBRARY); you decide the marks:"]
        for draft in drafts:
            lines.append(f'  m.def("{draft.schema}");')
            lines += [f"      {mark}" for mark in draft.marks]
        lines += ["  and in STABLE_TORCH_LIBRARY_IMPL:"]
        lines += [f'  m.impl("{draft.name}", TORCH_BOX(&{draft.function}));'
                  for draft in drafts if draft.function]
    return "\n".join([*lines, "", *_close(files)]).lstrip("\n")


def _summary(one: Ported) -> str:
    parts = [f"{one.count(DONE)} done", f"{one.count(*LEFT)} left"]
    if one.count(DIFFERS):
        parts.append(f"{one.count(DIFFERS)} of the done ones behave differently")
    return ", ".join(parts)


def describe(finding: Finding, snippets: set[str]) -> list[str]:
    """Return a finding in lines of a report. `snippets` has the rows that were shown
    already, and gets this one's."""
    lines = [f"  {finding.line:>5}  {finding.kind}: {printable(finding.code)}"]
    row = finding.row or {}
    if finding.advice:
        for line in finding.advice.split("\n"):
            lines += _wrap(line) if " " not in line[:1] else [f"         {line}"]
    if row and finding.kind in (YOURS, NONE) and row["what"] not in snippets:
        snippets.add(row["what"])  # once a file
        headers = row.get("headers", "2.10")
        since = f" (headers {headers})" if numbers(headers) > numbers("2.10") else ""
        lines.append(f"         {row['group']}, {row['what']}{since}:")
        lines += [f"           + {line}" for line in
                  row.get("stable", "").strip().splitlines()]
        lines += _wrap(re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row.get("note", "")))
    return lines


def _wrap(text: str) -> list[str]:
    """Return a sentence in lines of a report; words and code are not torn."""
    return textwrap.wrap(text, 88, initial_indent=" " * 9, subsequent_indent=" " * 9,
                         break_long_words=False, break_on_hyphens=False)


def _describe_differences(one: Ported) -> list[str]:
    """Return what is done and differs or is slower: each thing once, with lines."""
    places: dict[tuple[str, str], list[int]] = {}
    for kind in (DIFFERS, SLOWER):
        for finding in one.findings:
            if finding.kind == kind and finding.row:
                text = finding.advice or finding.row["differs"]
                places.setdefault((kind, text), []).append(finding.line)
    lines = []
    for (kind, text), numbers_ in places.items():
        shown = ", ".join(map(str, sorted(set(numbers_))[:8]))
        more = len(set(numbers_)) - 8
        lines += [f"  {kind}, {'line' if len(set(numbers_)) == 1 else 'lines'} {shown}"
                  + (f" and {more} more" if more > 0 else ""), *_wrap(text)]
    return lines


def _close(files: list[Ported]) -> list[str]:
    done = sum(one.count(DONE) for one in files)
    left = sum(one.count(*LEFT) for one in files)
    whole = done + left or 1
    lines = [f"{done} done, {left} left ({100 * done // whole} % done)."]
    headers, target = find_floor(files)
    newest = f" (for {', '.join(_names_of(files, headers)[:4])})" \
        if headers != "2.10" else ""
    lines.append(f"What is done needs headers {headers}{newest}, and runs on PyTorch "
                 f"{target} and newer.")
    if any("torch::stable::" in one.new for one in files):
        lines.append("An error inside an op of PyTorch's keeps its text only with "
                     "headers 2.14 or newer.")
    if any(one.count(SLOWER) for one in files):
        lines.append("What is slower matters in small calls: the page \"What the "
                     "boundary costs\" has by how much.")
    first = [one for one in files if one.count(DONE) and one.path.suffix in UNITS]
    first.sort(key=lambda one: (one.count(*LEFT), str(one.path)))
    if len(first) > 1:
        lines.append("Port first: " + ", ".join(
            f"{printable(one.path.name)} ({one.count(*LEFT)})" for one in first[:5]))
    return lines


def find_floor(files: list[Ported]) -> tuple[str, str]:
    """Return the headers and the target that the names in the results need, 2.10 or
    newer."""
    used = _rows_used(files)
    return (max(["2.10", *(row["headers"] for row in used)], key=numbers),
            max(["2.10", *(row["target"] for row in used)], key=numbers))


def _rows_used(files: list[Ported]) -> list[dict]:
    known = {row["name"]: row for row in surface.names()}
    return [known[name] for file in files if is_source(file.path)
            for name in names_in(file.new) | file.methods if name in known]


def _names_of(files: list[Ported], headers: str) -> list[str]:
    """Return the names in the results that came with these headers."""
    return sorted({row["name"] for row in _rows_used(files)
                   if row["headers"] == headers})


def as_json(files: list[Ported], drafts: list[Draft]) -> str:
    headers, target = find_floor(files)
    counts = Counter(one.kind for file in files for one in file.findings)
    return json.dumps({
        "schema": SCHEMA, "headers": headers, "target": target,
        "counts": dict(counts),
        "files": [{"path": str(one.path), "findings": [
            {"line": f.line, "kind": f.kind, "code": f.code,
             "row": f.row["what"] if f.row else None,
             "advice": f.advice or (f.row or {}).get(
                 "differs" if f.kind == DIFFERS else "note", "")}
            for f in one.findings]} for one in files],
        "drafts": [vars(draft) for draft in drafts]}, indent=2)
