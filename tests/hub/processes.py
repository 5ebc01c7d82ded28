"""Programs in Python that see torch and the Hub's loader, but no network."""

import multiprocessing
import os
import runpy
import subprocess
import sys
import sysconfig
import tempfile
import traceback
from pathlib import Path

import pytest

from torch_stable_abi.libtorch.installed import torch_root

ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(
        [sysconfig.get_path("purelib"), str(torch_root().parent)]),
    "HF_HUB_OFFLINE": "1", "DISABLE_TELEMETRY": "1",
    "PYTHONDONTWRITEBYTECODE": "1"}


def run_python(*words, check=True, **environment):
    """Run Python with these words. With `check` a status that is not 0 fails the
    test, with the last line that was printed."""
    done = subprocess.run(
        [sys.executable, *map(str, words)], text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=100, env={
            **os.environ, **ENVIRONMENT, **environment})
    if check and done.returncode != 0:
        lines = done.stdout.strip().splitlines()
        pytest.fail(lines[-1] if lines and done.returncode > 0 else
                    f"the process was ended by signal {-done.returncode}")
    return done


def run_apart(program, *arguments, **environment):
    """Return the exit status of a program, and what it prints."""
    done = run_python(program, *arguments, check=False, **environment)
    return done.returncode, done.stdout


def run_forked(program, *arguments, **environment):
    """Do as run_apart(), in a process that is forked from this one, which may have
    imported torch already, but not computed with it."""
    with tempfile.TemporaryFile() as printed:
        process = multiprocessing.get_context("fork").Process(
            target=_run_in_child, args=(program, arguments, environment, printed))
        process.start()
        process.join(60)
        if process.exitcode is None:
            process.kill()
            process.join()
            pytest.fail("it did not end within 60 seconds")
        printed.seek(0)
        return process.exitcode, printed.read().decode(errors="replace")


def _run_in_child(program, arguments, environment, printed):
    for number in (1, 2):
        os.dup2(printed.fileno(), number)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))
    os.environ.update(ENVIRONMENT)
    os.environ.update(environment)
    sys.path[:0] = [str(Path(program).parent),
                    *os.environ["PYTHONPATH"].split(os.pathsep)]
    sys.argv = [str(program), *map(str, arguments)]
    status = 0
    try:
        runpy.run_path(str(program), run_name="__main__")
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
