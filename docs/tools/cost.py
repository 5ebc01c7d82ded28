"""What the boundary of the stable ABI costs: builds docs/cost, and measures each
crossing against an empty boxed op in the same run. It writes docs/results/cost.json.

    PYTHONPATH=common docs/tools/cost.py    by the Python that has torch

    --quick          a run of seconds, which shows that all of it works
    --json FILE      writes FILE instead
    --build FOLDER   builds there, and leaves what it built

A member is one way to do one thing. In each round, each member has a turn, in an order
that changes: as many calls as take a millisecond, between two shorter turns of the
empty op, which C++ calls without its name. Recorded is the median of the ratios, with
the quartiles.
"""

import argparse
import datetime
import importlib.util
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from base import stamp
from base.project import ROOT
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.installed import torch_root, torch_version
from torch_stable_abi.libtorch.versions import supported

SOURCES = ROOT / "docs/cost"
LIBRARIES = ("stable", "unstable")
# What an op takes or returns, by the name of the op in docs/cost/crossing.h.
ARGUMENTS = {
    "nothing": "empty", "a tensor": "tensor", "two tensors": "two_tensors",
    "a tensor, `Tensor?`": "optional", "a tensor, `Tensor?` that is None": "none",
    "a tensor, `Tensor[]` of two": "tensors", "a tensor, `int[]` of four": "integers",
    "a tensor, `int`": "integer", "a tensor, `float`": "number",
    "a tensor, `str`": "string", "a tensor, `Device`": "device",
    "a tensor, `ScalarType`": "dtype", "a tensor, and returns one": "returned"}
INSIDE = ("x.sizes()", "x.size(1)", "x.strides()", "x.numel()", "x.scalar_type()",
          "x.device()", "x.const_data_ptr()", "x.const_data_ptr<int64_t>()",
          "x.is_contiguous()", "copy of a Tensor", "parallel_for, one thread",
          "empty({4, 4})", "new_empty(x, {4, 4})", "empty_like(x)", "contiguous(x)",
          "narrow(x, 0, 1, 2)", "select(x, 0, 1)", "sum(x, 0)", "mul(x, x) by name",
          "neg(x) by name", "index_select(x, 0, i) by name")
DEVICE = ("DeviceGuard(0)", "getCurrentStream(0)")
SMALL, LARGE = "16 elements", "65536 elements"
# {what is to be done: {how: (library, name of the crossing)}}; `s` and `l` are
# integers, few and many, `f` are floats.
WAYS: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    (f"`a + b` of int64, {SMALL}", "s"): {
        "ATen": ("unstable", "add"), "stack, then sum": ("stable", "integers by stack"),
        "a loop, into `empty_like(a)`": ("stable", "integers by loop"),
        "a loop, into `aoti_torch_empty_strided`": (
            "stable", "integers by loop, empty_strided")},
    (f"`a + b` of int64, {LARGE}", "l"): {
        "ATen": ("unstable", "add"), "stack, then sum": ("stable", "integers by stack"),
        "a loop, into `empty_like(a)`": ("stable", "integers by loop"),
        "a loop, into `aoti_torch_empty_strided`": (
            "stable", "integers by loop, empty_strided")},
    (f"`a + b` of float, {SMALL}", "f"): {
        "ATen": ("unstable", "add"),
        "`subtract(a, b, -1)`": ("stable", "floats by subtract")},
    ("16 elements summed, by sizes and strides", "s"): {
        "asked at each element": ("stable", "sizes in the loop"),
        "asked once": ("stable", "sizes once")},
    ("a contiguous tensor of one that is", "s"): {
        "ATen": ("unstable", "contiguous(x)"),
        "`contiguous(x)`": ("stable", "contiguous(x)"),
        "if `is_contiguous()` says no": ("stable", "contiguous if not")},
    ("zeros in a tensor", "s"): {
        "ATen": ("unstable", "zero_"), "`zero_(x)`": ("stable", "zero_"),
        "`fill_(x, 0)`": ("stable", "fill_"),
        "`std::fill_n` of a pointer": ("stable", "fill_n")},
    ("a new tensor", "s"): {
        "ATen": ("unstable", "new_empty(x, {4, 4})"),
        "`new_empty(x, sizes)`": ("stable", "new_empty(x, {4, 4})"),
        "`aoti_torch_empty_strided`": ("stable", "empty_strided")},
    ("scratch memory for 16 integers", "s"): {
        "`new_empty(x, sizes)`": ("stable", "new_empty(x, {4, 4})"),
        "`std::vector`": ("stable", "vector")},
    ("`narrow`", "s"): {
        "ATen": ("unstable", "narrow(x, 0, 1, 2)"),
        "by its name": ("stable", "narrow by name"),
        "the wrapper": ("stable", "narrow(x, 0, 1, 2)")}}
# {what a user calls: {how: statement}}
CALLS = {
    "an op without arguments": {
        "stable op": "stable.empty()", "unstable op": "unstable.empty()",
        "pybind11": "pybind11.empty()"},
    "an op of a tensor": {
        "stable op": "stable.tensor(x)", "unstable op": "unstable.tensor(x)",
        "pybind11": "pybind11.tensor(x)"},
    "an op that returns a new tensor": {
        "stable op": "stable.fresh(x)", "unstable op": "unstable.fresh(x)"},
    "the op of a tensor, its overload kept": {
        "stable op": "stable_tensor(x)", "unstable op": "unstable_tensor(x)"},
    "a custom_op that calls it": {"stable op": "custom(x)"},
    "one that names what it writes": {"stable op": "custom_that_writes(x)"}}
GRADIENTS = {
    "C++, unstable kernel": "unstable.product", "none": "stable.product",
    "C++, stable kernel": "stable.product_cpp",
    "`register_autograd`": "stable.product_python",
    "`autograd.Function` where needed": "product"}
ROWS = {"no gradient needed": "{}(x, y)", "the same, inference mode": "{}(x, y)",
        "a gradient needed": "{}(v, y)",
        "forward and backward": "grad({}(v, y), v, y)"}
PORTED = {"ATen": "unstable.difference", "each op by name": "stable.difference_by_name",
          "a loop": "stable.difference"}


@dataclass
class Member:
    group: str
    what: str
    how: str
    seconds: Callable[[int], float]  # that so many calls take


def build(folder: Path) -> None:
    """Build the libraries of docs/cost into a folder."""
    for command in (
            ["cmake", "-G", "Ninja", "-S", SOURCES, "-B", folder,
             f"-DTORCH_ROOT={torch_root()}",
             f"-DPYTHON_INCLUDE={sysconfig.get_path('include')}"],
            ["cmake", "--build", folder]):
        done = subprocess.run(list(map(str, command)), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(done.stdout)


def load_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(folder: Path) -> dict:
    """Load what build() made. Return the names that statements of members have."""
    import torch
    torch.set_num_threads(1)
    for library in LIBRARIES:
        torch.ops.load_library(folder / f"cost_{library}.so")
    ops = load_module(SOURCES / "ops.py")
    stable, unstable = torch.ops.cost_stable, torch.ops.cost_unstable
    torch.manual_seed(0)
    y = torch.randn(4, 4)

    def grad(result, x, _):
        return torch.autograd.grad(result, x, y)
    return {
        "torch": torch, "stable": stable, "unstable": unstable, "grad": grad,
        "pybind11": load_module(folder / "cost_pybind11.so"),
        "stable_tensor": stable.tensor.default,
        "unstable_tensor": unstable.tensor.default,
        "custom": ops.custom, "custom_that_writes": ops.custom_that_writes,
        "product": ops.product, "x": torch.randn(4, 4), "y": y,
        "v": torch.randn(4, 4, requires_grad=True),
        "s": torch.arange(16).view(4, 4), "l": torch.arange(1 << 16).view(256, 256),
        "f": torch.randn(4, 4), "index": torch.tensor([3, 0, 2, 2])}


def call_op(names: dict, library: str, op: str) -> Callable[[int], float]:
    return lambda times: names["unstable"].calls(
        names["s"], f"cost_{library}", op, times)


def cross(names: dict, library: str, name: str, x: str = "s"
          ) -> Callable[[int], float]:
    return lambda times: names[library].crossing(names[x], name, times)


def execute(names: dict, statement: str, inference: bool = False
            ) -> Callable[[int], float]:
    timer = timeit.Timer(statement, globals=names)

    def in_inference_mode(times):
        with names["torch"].inference_mode():
            return timer.timeit(times)
    return in_inference_mode if inference else timer.timeit


def list_members(names: dict) -> list[Member]:
    found = []
    for what, op in ARGUMENTS.items():
        found += [Member("arguments", what, library, call_op(names, library, op))
                  for library in LIBRARIES]
    found += [Member("arguments", what, "stable", call_op(names, "stable", op))
              for what, op in (("a tensor, by value", "tensor_by_value"),
                               ("a tensor, boxed by hand", "tensor_by_hand"))]
    found += [Member("inside", name, library, cross(names, library, name))
              for name in INSIDE for library in LIBRARIES]
    found += [Member("ways", what, how, cross(names, *way, x))
              for (what, x), ways in WAYS.items() for how, way in ways.items()]
    found += [Member("calls", what, how, execute(names, statement))
              for what, ways in CALLS.items() for how, statement in ways.items()]
    found += [Member("gradients", what, how, execute(
                  names, row.format(function), "inference" in what))
              for what, row in ROWS.items() for how, function in GRADIENTS.items()
              if how != "none" or "{}(x" in row]
    found += [Member("ported", what, how, execute(names, f"{op}(s, s, {index})"))
              for what, index in (("with an index", "index"), ("without", "None"))
              for how, op in PORTED.items()]
    return found


def list_device_members(names: dict) -> list[Member]:
    """Make the device that does nothing. From then on autograd counts on one, so these
    come last."""
    names["unstable"].make_device()
    return [Member("inside", name, library, cross(names, library, name))
            for name in DEVICE for library in LIBRARIES]


def find_times(seconds: Callable[[int], float], wanted: float) -> int:
    """Return how many calls take about so many seconds. First calls take longer."""
    times = 1
    while min(seconds(times) for _ in range(3)) < wanted / 4:
        times *= 4
    took = min(seconds(times) for _ in range(3))
    return max(1, round(times * wanted / took))


def measure(members: list[Member], floor: Callable[[int], float], rounds: int,
            turn: float) -> dict:
    """Return {group: {what: {how: ratio, low, high}}}."""
    of_floor = find_times(floor, turn / 5)
    times = [find_times(member.seconds, turn) for member in members]
    ratios: list[list[float]] = [[] for _ in members]
    order = list(range(len(members)))
    for _ in range(rounds):
        random.shuffle(order)
        for i in order:
            before = floor(of_floor)
            took = members[i].seconds(times[i]) / times[i]
            empty = (before + floor(of_floor)) / 2 / of_floor
            ratios[i].append(took / empty)
    result: dict[str, dict] = {}
    for member, found in zip(members, ratios):
        low, middle, high = statistics.quantiles(found, n=4)
        result.setdefault(member.group, {}).setdefault(member.what, {})[
            member.how] = {"ratio": round(middle, 3), "low": round(low, 3),
                           "high": round(high, 3)}
    return result


def read_wrappers(root: Path) -> dict[str, list[str]]:
    """Return the functions of torch/csrc/stable/ops.h that call an op by its name, and
    those that call a function of the C shim for it. At target 2.10 or newer."""
    text = (root / "include/torch/csrc/stable/ops.h").read_text()
    old = r"#if TORCH_FEATURE_VERSION < TORCH_VERSION_2_10_0\n.*?" \
        r"#endif // TORCH_FEATURE_VERSION < TORCH_VERSION_2_10_0\n"
    parts = re.split(r"^inline [\w:&<>, ]+? (\w+)\(", re.sub(old, "", text, flags=re.S),
                     flags=re.M)
    found: dict[str, list[str]] = {"by name": [], "C shim": []}
    for name, body in zip(parts[1::2], parts[2::2]):
        if "torch_call_dispatcher(" in body:
            found["by name"].append(name)
        elif "aoti_torch_aten_" in body:
            found["C shim"].append(name)
    return {how: sorted(set(functions)) for how, functions in found.items()}


def read_all_wrappers() -> dict[str, dict]:
    """Return {version: what read_wrappers() finds}, of the headers that are here."""
    return {version: read_wrappers(runtimes.root(version))
            for version in supported() if runtimes.whole(version)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, default=ROOT / "docs/results/cost.json")
    parser.add_argument("--build", type=Path)
    arguments = parser.parse_args()
    rounds, turn = (3, 5e-5) if arguments.quick else (100, 1e-3)
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.build or Path(scratch)
        build(folder)
        names = load(folder)
        floor = call_op(names, "stable", "empty")
        groups = measure(list_members(names), floor, rounds, turn)
        devices = measure(list_device_members(names), floor, rounds, turn)
    groups["inside"] |= devices["inside"]
    arguments.json.write_text(json.dumps({
        "schema": 1, "what": "cost", "date": datetime.date.today().isoformat(),
        "hardware": stamp.machine(), "load": round(before, 1),
        "software": {"compiler": stamp.compiler(), "os": stamp.system(),
                     "torch": torch_version().split("+")[0],
                     "python": platform.python_version()},
        "rounds": rounds, "groups": groups, "wrappers": read_all_wrappers()},
        indent=1) + "\n")


if __name__ == "__main__":
    main()
