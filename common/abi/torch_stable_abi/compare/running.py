"""Runs the cases of a file with one library, each in a process of its own:

    running.py LIBRARY CASES FOLDER SECONDS

FOLDER gets a file "loaded" before the first case, and CASE.pt for each case, with what
was seen: {"error": [type, text]}, or values, arguments after the call, their versions,
gradients, warnings. A library is an .so, or a module that Python finds."""

import importlib
import importlib.util
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch

from torch_stable_abi.programs import name_signal


def load(library: str) -> object:
    """Return what the cases call: torch.ops for an .so, or else the module."""
    if library.endswith(".so"):
        torch.ops.load_library(library)
        return torch.ops
    return importlib.import_module(library)


def read_cases(path: str) -> dict:
    """Return {name: function} of the functions case_NAME, in their order."""
    spec = importlib.util.spec_from_file_location("cases", path)
    assert spec and spec.loader
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name.removeprefix("case_"): function
            for name, function in vars(module).items()
            if name.startswith("case_") and callable(function)}


def find_tensors(value: object, place: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in a value, each with where it is."""
    if isinstance(value, torch.Tensor):
        yield place, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from find_tensors(one, f"{place}[{key!r}]")
    elif isinstance(value, (tuple, list)):
        for i, one in enumerate(value):
            yield from find_tensors(one, f"{place}[{i}]")


def describe(value: object) -> object:
    """Return a value as it is saved: tensors as dense copies, with their strides, or
    the layout that has none."""
    if isinstance(value, torch.Tensor):
        copy = torch.zeros((), dtype=value.dtype).expand(value.shape) if value.is_meta \
            else value.detach().to_dense().cpu().clone()
        return {"tensor": copy, "device": value.device.type, "strides": value.stride()
                if value.layout == torch.strided else str(value.layout)}
    if isinstance(value, dict):
        return {key: describe(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *map(describe, value)]
    return repr(value)


def run_case(function, library: object) -> dict:
    """Call what a case names, with its arguments, and return what was seen."""
    torch.manual_seed(0)
    called, *arguments = function(library)
    keywords = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
    given = dict(find_tensors([arguments, keywords], "arguments"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = called(*arguments, **keywords)
            gradients = differentiate(value, given)
        except Exception as error:
            return {"error": [type(error).__name__, str(error)],
                    "arguments": describe([arguments, keywords])}
    results = dict(find_tensors(value, "result"))
    return {
        "value": describe(value), "arguments": describe([arguments, keywords]),
        "versions": [one._version for one in given.values()],
        "aliases": [[i for i, one in enumerate(given.values())
                     if one.layout == result.layout == torch.strided and one.numel()
                     and one.data_ptr() == result.data_ptr()]
                    for result in results.values()],
        "gradients": describe(gradients),
        "warnings": sorted({f"{w.category.__name__}: {w.message}" for w in caught})}


def differentiate(value: object, given: dict) -> list:
    """Return the gradients of what has one, for ones."""
    outputs = [t for _, t in find_tensors(value, "") if t.requires_grad]
    inputs = [t for t in given.values() if t.requires_grad]
    if not outputs or not inputs:
        return []
    return list(torch.autograd.grad(outputs, inputs, [torch.ones_like(t)
                                                      for t in outputs],
                                    allow_unused=True))


def run_apart(function, library: object, file: Path, seconds: float) -> str:
    """Run a case in a process of its own; return how it ended, "" if well."""
    process = os.fork()
    if process == 0:
        os.setsid()
        try:
            torch.save(run_case(function, library), file)
        except BaseException as error:  # of the case itself, before its call
            torch.save({"case": f"{type(error).__name__}: {error}"}, file)
        sys.stdout.flush()
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            if code == 0 and file.exists():
                return ""
            return f"was ended by {name_signal(-code)}" if code < 0 else \
                f"exited with {code}"
        time.sleep(0.005)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return f"took more than {seconds:g} s"


def main() -> None:
    library, cases, folder, seconds, *names = sys.argv[1:]
    torch.set_num_threads(1)  # no threads that a fork would lose
    loaded = load(library)
    functions = read_cases(cases)
    Path(folder, "loaded").touch()
    for name in names or functions:
        function = functions[name]
        file = Path(folder, f"{name}.pt")
        if ended := run_apart(function, loaded, file, float(seconds)):
            torch.save({"ended": ended}, file)


if __name__ == "__main__":
    main()
