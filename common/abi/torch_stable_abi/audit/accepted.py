"""The findings that the owner of an extension accepts, each with a reason:

    [[tool.torch-stable-abi.accept]]
    rule = "gnu-unique"
    files = "dist/*"            # as on the command line, or from this file's folder;
                                # left out: all
    says = "27 gnu-unique"      # part of what is said; left out: whatever is said
    reason = "The registry of kernels is shared on purpose."
"""

import os
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from torch_stable_abi.audit.findings import NOTE, RULES, Report
from torch_stable_abi.audit.formats import Result
from torch_stable_abi.files import read_toml, refuse_special
from torch_stable_abi.programs import CannotRun

KEYS = {"rule", "files", "says", "reason"}


@dataclass
class Acceptance:
    rule: str
    reason: str
    files: str = "*"
    says: str = ""
    folder: Path = Path()  # of the file that it stands in
    used: bool = False

    def is_of(self, file: str) -> bool:
        """Return whether it is about a file, by the name that was given or by the path
        from its own folder."""
        return fnmatch(file, self.files) or fnmatch(
            os.path.relpath(file, self.folder), self.files)


def read_acceptances(config: str | None) -> list[Acceptance]:
    """Return those of a file, by default of the pyproject.toml in this folder or above
    it."""
    path = Path(config) if config else next(
        (folder / "pyproject.toml" for folder in [Path.cwd(), *Path.cwd().parents]
         if (folder / "pyproject.toml").is_file()), None)
    if path is None:
        return []
    refuse_special(path)
    if not path.is_file():
        raise CannotRun(f"--config: there is no file {path}")
    try:
        table: object = read_toml(path)
    except (ValueError, RecursionError) as error:
        raise CannotRun(f"{path} is no TOML: {error}") from None
    for key in ("tool", "torch-stable-abi"):
        table = table.get(key, {}) if isinstance(table, dict) else table
    given = table.get("accept", []) if isinstance(table, dict) else None
    if not isinstance(given, list):
        raise CannotRun(f"{path}: tool.torch-stable-abi.accept must be an array of "
                        "tables, [[tool.torch-stable-abi.accept]]")
    return [_read(path, entry) for entry in given]


def _read(path: Path, entry) -> Acceptance:
    where = f"{path}: [[tool.torch-stable-abi.accept]]"
    if not isinstance(entry, dict) or not all(
            isinstance(value, str) for value in entry.values()):
        raise CannotRun(f"{where} must be a table of strings, got {entry!r}")
    if unknown := sorted(entry.keys() - KEYS):
        raise CannotRun(f"{where} has {unknown[0]}, which is none of "
                        f"{', '.join(sorted(KEYS))}")
    if "rule" not in entry:
        raise CannotRun(f"{where} names no rule")
    if entry["rule"] not in RULES:
        raise CannotRun(f"{where}: there is no rule {entry['rule']!r}")
    if not entry.get("reason", "").strip():
        raise CannotRun(f"{where} of {entry['rule']} gives no reason")
    return Acceptance(**entry, folder=path.parent.absolute())


def accept(results: list[Result], acceptances: list[Acceptance]) -> None:
    """Mark the findings that are accepted; note an acceptance that nothing needs."""
    for result in results:
        for finding in result.findings:
            for each in acceptances:
                if each.rule == finding.rule and each.says in finding.text and \
                        each.is_of(result.file):
                    finding.accepted, each.used = each.reason, True
    needless = [f"{a.rule} in {a.files}" + (f" that says {a.says!r}" if a.says else "")
                for a in acceptances if not a.used and
                any(a.is_of(result.file) for result in results)]
    if needless and results and not any(r.error for r in results):
        report = Report([])
        report.add("acceptance", NOTE, "accepted, and not found: "
                   f"{', '.join(needless)}")
        results[-1].reports.append(report)
