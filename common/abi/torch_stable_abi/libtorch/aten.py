"""The schemas of PyTorch's ops that have tensors, as recorded in aten.txt: in C++ they
are at::NAME or methods of a tensor. They are those of the version that recorded them:

    python -m torch_stable_abi.libtorch.aten"""

from functools import cache
from pathlib import Path

RECORDED = Path(__file__).with_name("aten.txt")
SCRIPT = "# Of TorchScript alone: no call by name finds them."


@cache
def read_schemas() -> dict[str, tuple[str, ...]]:
    """Return {"sum": ("sum(Tensor self, ...) -> Tensor", ...)}; last those of
    TorchScript alone."""
    found: dict[str, list[str]] = {}
    for line in RECORDED.read_text().splitlines():
        if not line.startswith("#"):
            found.setdefault(line[:line.index("(")].partition(".")[0], []).append(line)
    return {name: tuple(lines) for name, lines in found.items()}


def schemas_of(name: str) -> tuple[str, ...]:
    return read_schemas().get(name, ())


@cache
def _of_script() -> frozenset[str]:
    return frozenset(RECORDED.read_text().partition(SCRIPT)[2].splitlines())


def is_callable(schema: str) -> bool:
    """Return whether a call by name finds the op."""
    return schema not in _of_script()


def list_schemas() -> str:
    """Return what aten.txt has for the torch that is installed: the public ops without
    their derivatives, and without the overloads that write into `out`."""
    import torch
    schemas = {str(schema).removeprefix("aten::")
               for schema in torch._C._jit_get_all_schemas()
               if schema.name.startswith("aten::")
               and not schema.name.startswith("aten::_")
               and "backward" not in schema.name
               and "out" not in schema.overload_name
               and "Tensor" in str(schema)}  # others are of TorchScript
    version = torch.__version__.partition("+")[0]
    ops = set(torch._C._dispatch_get_all_op_names())
    script = {one for one in schemas if f"aten::{one[:one.index('(')]}" not in ops}
    return "\n".join([f"# aten:: of PyTorch {version}", *sorted(schemas - script),
                      SCRIPT, *sorted(script)]) + "\n"


if __name__ == "__main__":
    RECORDED.write_text(list_schemas())
