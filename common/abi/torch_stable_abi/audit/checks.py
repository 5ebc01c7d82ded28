"""The audit of a subject: its libraries, each by itself, and what holds them all."""

from torch_stable_abi.audit import (
    hub,
    libtorch,
    links,
    ops,
    platforms,
    together,
    wheels,
)
from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.findings import FAIL, NOTE, OK, WARN, Report, join
from torch_stable_abi.audit.registrations import Registrations, read_registrations
from torch_stable_abi.audit.subject import Subject
from torch_stable_abi.libtorch.versions import numbers


def audit(subject: Subject) -> list[Report]:
    """Return what is found, a report for each group of libraries that are alike, and
    one without a name for what holds them all."""
    reports: list[Report] = []
    beside = []
    registered = [read_registrations(library) for library in subject.libraries]
    for library, found in zip(subject.libraries, registered):
        report = Report([library.name])
        if libtorch.uses_torch(library) or len(subject.libraries) == 1:
            _check_library(library, found, subject, report)
        else:
            _check_bystander(library, subject, report)
            if report.level not in (WARN, FAIL):
                beside.append(library.name)
                continue
        twin = next((r for r in reports if r.findings == report.findings), None)
        if twin:
            twin.names += report.names
        else:
            reports.append(report)
    whole = _check_whole(subject, registered, reports, beside)
    return [*reports, whole] if whole.findings else reports


def _check_library(library: Library, found: Registrations, subject: Subject,
                   report: Report) -> None:
    libtorch.check_libtorch(library, subject, report)
    ops.check_calls(library, report)
    ops.check_registrations(library, found, subject, report)
    platforms.check_platform(library, report)
    platforms.check_python(library, subject, report)
    platforms.check_cuda(library, subject, report)
    links.check_links(library, subject, report)
    links.check_exports(library, report)


def _check_bystander(library: Library, subject: Subject, report: Report) -> None:
    """Check a library that uses no libtorch, such as the module that Python
    imports."""
    libtorch.check_libtorch(library, subject, report)
    platforms.check_python(library, subject, report)
    links.check_links(library, subject, report)


def _check_whole(subject: Subject, registered: list[Registrations],
                 reports: list[Report], beside: list[str]) -> Report:
    report = Report([])
    floor = max((r.floor for r in reports if r.floor), key=numbers, default=None)
    if subject.wheel:
        bound = [name for r in reports if r.bound for name in r.names]
        wheels.check_wheel(subject, floor, bound, report)
    together.check_together(subject, registered, report)
    if subject.variant:
        hub.check_variant(subject, reports, floor, report)
    if beside:
        report.add("beside", OK, f"takes nothing of libtorch: {join(beside)}")
    if subject.damaged:
        report.add("damaged-library", FAIL, join(subject.damaged), subject.damaged)
    if subject.foreign:
        report.add("not-read", NOTE, join(subject.foreign), subject.foreign)
    if not (subject.libraries or subject.foreign or subject.damaged):
        report.add("not-read", NOTE, "holds no library: it is of Python alone")
    return report
