"""Runs the cases of a chapter's steps, and keeps how each step stands."""

from dataclasses import dataclass

from learn.checking.processes import LEAKED, NO_LEAKS, TIMED_OUT, Run, Tests
from learn.checking.report import Case
from learn.checking.verdict import FAIL, NOT_REACHED, PASS


@dataclass
class Outcome:
    """The case of a step that failed, and the run that it was part of."""
    case: Case
    run: Run


class StepRunner:
    def __init__(self, tests: Tests, steps: list[str]):
        self.tests = tests
        self.states = dict.fromkeys(steps, NOT_REACHED)
        self.failed: dict[str, Outcome] = {}
        self.notes: list[str] = []  # what was not checked
        self.remarks: list[str] = []  # of cases that passed

    def run(self, steps: list[str]) -> Run:
        """Run these steps in one process."""
        run = self.tests.run(steps)
        self._keep(steps, run)
        return run

    def run_all(self, steps: list[str]) -> None:
        """Run these steps in as few processes as possible: in another one what comes
        after a case that ended its process, and each step in its own if something
        leaks."""
        while steps:
            run = self.tests.run(steps)
            if run.status == LEAKED and len(steps) > 1:
                for step in steps:
                    self.run([step])
                return
            self._keep(steps, run)
            ran = {case.name.split()[0] for case in run.cases or []}
            left = [step for step in steps if step not in ran]
            if run.status == TIMED_OUT or len(left) == len(steps) or \
                    self.tests.stops_at_first:
                return
            steps = left

    def rerun_alone(self, step: str) -> Outcome | None:
        """Run a step that did not pass in a process of its own, so that it is blamed
        for its own output only. Return None if it passes: unless the time had ended
        it, what fails after others only is wrong too."""
        before = self.failed.pop(step, None)
        run = self.run([step])
        if step in self.failed:
            return self.failed[step]
        if self.states[step] != PASS:  # it did not begin
            return Outcome(Case(step), run)
        if before and before.run.status != TIMED_OUT:
            self.states[step] = FAIL
            return before
        return None

    def _keep(self, steps: list[str], run: Run) -> None:
        """Keep how these steps stand after a run. A leak is that of a single one."""
        if NO_LEAKS.decode() in run.text:
            self.notes[:] = ["leaks were not checked: no LeakSanitizer here"]
        for step in steps:
            cases = [c for c in run.cases or [] if c.name.startswith(step + " ")]
            bad = next((c for c in cases if c.failures or not c.ended), None)
            if bad is None and cases and run.status == LEAKED:
                bad = cases[-1]
            if cases:
                self.states[step] = FAIL if bad else PASS
            if bad:
                self.failed[step] = Outcome(bad, run)
            else:
                self.remarks += [note for case in cases for note in case.notes]
