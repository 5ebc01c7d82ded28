"""What the tests of chapter 08 share: the rules of manylinux, and a Python that
sees torch and the Hub's loader, but no network."""

import multiprocessing
import os
import subprocess
import sys
import sysconfig
import tempfile
import traceback

import pytest

from torch_stable_abi.libtorch.installed import torch_root

# manylinux_2_28: the newest version of each that AlmaLinux 8 has.
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11),
          "GCC": (7, 0, 0)}
NEEDED = r"libtorch(_cpu|_cuda)?\.so|libc10(_cuda)?\.so|libcudart\.so\.\d+|" \
         r"libstdc\+\+\.so\.6|libgcc_s\.so\.1|libc\.so\.6|libm\.so\.6|ld-linux"


ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(
        [sysconfig.get_path("purelib"), str(torch_root().parent)]),
    "HF_HUB_OFFLINE": "1", "DISABLE_TELEMETRY": "1",
    "PYTHONDONTWRITEBYTECODE": "1"}


def python(code, *arguments, check=True, **environment):
    """Run code that sees torch and the Hub's loader, but no network."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=100, env={
            **os.environ, **ENVIRONMENT, **environment})
    if check and done.returncode != 0:
        lines = done.stdout.strip().splitlines()
        pytest.fail(lines[-1] if lines and done.returncode > 0 else
                    f"the process was ended by signal {-done.returncode}")
    return done


def told(code, *arguments, **environment):
    """Return the exit status of python(), and what is printed."""
    done = python(code, *arguments, check=False, **environment)
    return done.returncode, done.stdout


def forked(code, *arguments, **environment):
    """As told(), in a process that is forked from this one, which may have
    imported torch already, but not computed with it."""
    with tempfile.TemporaryFile() as printed:
        process = multiprocessing.get_context("fork").Process(
            target=_run_in_child, args=(code, arguments, environment, printed))
        process.start()
        process.join(60)
        if process.exitcode is None:
            process.kill()
            process.join()
            pytest.fail("it did not end within 60 seconds")
        printed.seek(0)
        return process.exitcode, printed.read().decode(errors="replace")


def _run_in_child(code, arguments, environment, printed):
    for number in (1, 2):
        os.dup2(printed.fileno(), number)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))
    os.environ.update(ENVIRONMENT)
    os.environ.update(environment)
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    sys.argv = ["-c", *map(str, arguments)]
    status = 0
    try:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
