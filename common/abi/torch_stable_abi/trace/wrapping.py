"""Functions that stand before those of the C shim, written from the headers."""

import re
from pathlib import Path

from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.versions import OLDEST, numbers

HEADERS = ("inductor/aoti_torch/c/shim.h", "stable/c/shim.h",
           "inductor/aoti_torch/generated/c_shim_aten.h",
           "inductor/aoti_torch/generated/c_shim_cpu.h")
# Of what a program makes and releases.
HANDLES = {"AtenTensorHandle", "StringHandle", "StableListHandle", "StreamHandle",
           "DeviceGuardHandle", "C10IValueHandle"}
BY_HAND = {"torch_string_c_str", "torch_delete_string", "torch_parallel_for"}
DECLARED = re.compile(r"AOTI_TORCH_EXPORT\s+AOTITorchError\s+(\w+)\(([^;]*?)\);")


def declarations(include: Path) -> dict[str, list[tuple[str, str]]]:
    """Return {function: [(type, name of the argument)]}: those that each libtorch since
    the oldest has, so that none is there only because of the tracer."""
    found = {}
    for header in HEADERS:
        text = re.sub(r"//[^\n]*", "", (include / "torch/csrc" / header).read_text())
        for name, arguments in DECLARED.findall(text):
            since = surface.since(name)
            if name in BY_HAND or "_cuda_" in name or "(" in arguments or \
                    since is None or numbers(since) > OLDEST:
                continue
            found[name] = [
                (type.strip(), variable) for type, variable in
                re.findall(r"([^,]*?)(\w+) *(?:,|$)", " ".join(arguments.split()))]
    return found


def wrapper(name: str, arguments: list[tuple[str, str]]) -> str:
    """Return the function in C++; "" if no handle passes."""
    used = [n for t, n in arguments if t in HANDLES]
    made = [n for t, n in arguments if t.removesuffix("*") in HANDLES and
            t.endswith("*") and
            re.match(r"ret|out$|new_handle|handle$|guard$|ivalue$", n)]
    if not used and not made:
        return ""
    names = ", ".join(n for _, n in arguments)
    said = f'"{name}", CALLER'
    if "_delete_" in name:
        body = f"  return release_by_shim({said}, real, {used[0]});\n"
    else:
        body = f"  check_uses({', '.join([said, *used])});\n" \
            f"  return follow_made({', '.join([said, f'real({names})', *made])});\n"
    return f"AOTITorchError {name}(" + ", ".join(f"{t} {n}" for t, n in arguments) + \
        f") {{\n  REAL({name});\n{body}}}\n"


def write(include: Path, file: Path) -> None:
    file.write_text("\n".join(filter(None, (
        wrapper(*item) for item in declarations(include).items()))))
