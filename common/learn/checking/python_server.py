"""The tests of a chapter in Python, served as common/testing/main.cpp serves those
in C++: torch and the tests are imported once, and each request is answered by a
process that is forked from this one.

    python -m learn.checking.python_server TEST BUILD REPORT

A line of stdin is a library, the cases to run ("08.1 *,08.2 *") and a KEY, with tabs
between. After each come the lines "\\0ran KEY STATUS" and "\\0ended STATUS KEY"."""

import contextlib
import gc
import io
import os
import select
import sys

from base.project import ROOT

gc.disable()  # nothing that torch makes is garbage, but there is much of it
import kernels.layer.layer  # noqa: E402, F401  (imported for the processes to come)
import pytest  # noqa: E402
import torch  # noqa: E402, F401

gc.freeze()  # pytest collects several times as it ends: not all of torch
gc.enable()


def run(test: str, build: str, *words: str) -> int:
    return pytest.main([
        "-qx", f"--rootdir={ROOT}", test, f"--implementation={build}", *words])


def run_cases(test: str, build: str, report: str, cases: str) -> int:
    names = " or ".join(f"test_{case.split()[0].replace('.', '_')}_"
                        for case in cases.split(","))
    return run(test, build, f"--steps-report={report}", "-k", names)


def main() -> None:
    test, build, report = sys.argv[1:]
    os.environ.pop("PYTEST_ADDOPTS", None)  # are for the learner's own tests
    with contextlib.redirect_stdout(io.StringIO()):
        run(test, build, "--collect-only")
    if not select.select([sys.stdin], [], [], 0)[0]:
        # There is time for what torch imports in its first assert_close() and
        # backward(): sympy, which takes each process a second.
        import torch.distributed.tensor  # noqa: F401
    gc.freeze()
    for line in sys.stdin:
        cases, key = line.rstrip("\n").split("\t")[-2:]
        child = os.fork()
        if child == 0:
            status = run_cases(test, build, report, cases)
            print(f"\n\0ran {key} {status}", flush=True)
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(f"\n\0ended {status} {key}", flush=True)


if __name__ == "__main__":
    main()
