"""An audit's results as text for people, JSON, annotations of GitHub, and SARIF."""

import json
import textwrap
from dataclasses import dataclass

from torch_stable_abi.audit.findings import (
    FAIL,
    LEVELS,
    NOTE,
    OK,
    RULES,
    WARN,
    Finding,
    Report,
    worst,
)
from torch_stable_abi.files import printable

SHAPE = 1  # of the JSON: a larger number, if a key is renamed or goes
PAGE = "docs/audit.md"  # a heading for each rule
SARIF_LEVELS = {OK: "none", NOTE: "note", WARN: "warning", FAIL: "error"}
GITHUB_LEVELS = {NOTE: "notice", WARN: "warning", FAIL: "error"}


@dataclass
class Result:
    """The result on one subject: its reports or, if it could not be read, the error."""
    name: str
    file: str  # as the user gave it
    reports: list[Report]
    error: str = ""

    @property
    def findings(self) -> list[Finding]:
        return [f for report in self.reports for f in report.findings]


def as_text(results: list[Result], verbose: bool = False) -> str:
    return "\n".join(line for result in results if not result.error
                     for line in _lines_of(result, verbose))


def _lines_of(result: Result, verbose: bool) -> list[str]:
    lines = [printable(result.name)]
    for report in result.reports:
        more = len(report.names) - 1
        lines.append("  all of it" if more < 0 else f"  {printable(report.names[0])}" +
                     (f" and {more} alike" if more else ""))
        for f in report.findings:
            rule = f"  [{f.rule}]" if f.level != OK else ""
            accepted = f" (accepted: {f.accepted})" if f.accepted else ""
            lines += textwrap.wrap(
                printable(f.text) + accepted + rule, 80,
                initial_indent=f"  {'-' if f.accepted else f.level:<5}{f.topic:<10}",
                subsequent_indent=" " * 17, break_long_words=False,
                break_on_hyphens=False)
            lines += [f"{'':<17}{printable(more)}" for more in f.more if verbose]
    return lines


def as_json(results: list[Result]) -> str:
    return json.dumps({
        "schema": SHAPE, "tool": "torch-stable-abi audit",
        "results": [{
            "name": r.name, "file": r.file,
            "level": None if r.error else worst(r.findings),
            "error": r.error or None, "reports": [{
                "names": report.names, "level": report.level,
                "oldest_libtorch": report.floor, "bound": report.bound,
                "findings": [{
                    "rule": f.rule, "topic": f.topic, "level": f.level, "text": f.text,
                    "more": f.more, "accepted": f.accepted or None}
                    for f in report.findings]} for report in r.reports]}
            for r in results]}, indent=1)


def as_github(results: list[Result]) -> str:
    """Return the commands of a workflow that annotate a file, a line each."""
    lines = []
    for result in results:
        if result.error:
            lines.append(_annotate("error", result.file, "audit", result.error))
        several = sum(bool(report.names) for report in result.reports) > 1
        for report in result.reports:
            about = f"{', '.join(report.names)}: " if several and report.names else ""
            lines += [_annotate(GITHUB_LEVELS[f.level], result.file, f.rule,
                                f"{about}{f.topic}: {f.text}")
                      for f in report.findings if f.level != OK and not f.accepted]
    return "\n".join(lines)


def _annotate(level: str, file: str, title: str, text: str) -> str:
    """Return an annotation. By GitHub's page "Workflow commands", %, line ends and, in
    properties, : and , are escaped."""
    def escape(given: str) -> str:
        return printable(given.replace("%", "%25").replace("\r", "%0D")
                         .replace("\n", "%0A"))

    where = escape(file).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} file={where},title={title}::{escape(text)}"


def as_sarif(results: list[Result]) -> str:
    """Return SARIF 2.1.0, which code-scanning services read."""
    return json.dumps({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "torch-stable-abi audit",
                "rules": [{"id": rule, "name": rule,
                           "shortDescription": {"text": f"{topic}: {rule}"},
                           "help": {"text": f"{PAGE}#{rule}"}}
                          for rule, topic in RULES.items()]}},
            "invocations": [{
                "executionSuccessful": not any(r.error for r in results),
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": r.error}}
                    for r in results if r.error]}],
            "results": [_as_sarif(result, report, f) for result in results
                        for report in result.reports for f in report.findings
                        if f.level != OK]}]}, indent=1)


def _as_sarif(result: Result, report: Report, f: Finding) -> dict:
    from urllib.parse import quote
    return {
        "ruleId": f.rule, "level": SARIF_LEVELS[f.level],
        "message": {"text": f"{f.topic}: {f.text}"},
        "locations": [{
            "physicalLocation": {"artifactLocation": {"uri": quote(result.file)}},
            "logicalLocations": [{"name": name} for name in report.names]}],
        **({"suppressions": [{"kind": "external", "justification": f.accepted}]}
           if f.accepted else {})}


FORMATS = {"json": as_json, "github": as_github, "sarif": as_sarif}


def is_at_least(finding: Finding, level: str) -> bool:
    """Return whether a finding is of a level such as "warn", or of a worse one."""
    return not finding.accepted and LEVELS.index(finding.level) >= \
        [each.lower() for each in LEVELS].index(level)
