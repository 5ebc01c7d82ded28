"""Loads the library beside another version of this kernel.

    python check_namespace.py LIBRARY"""

import sys
from pathlib import Path

import torch

from load_library import list_ops, load_library, read_id
from places import point_at


def check_opened(build_id, added):
    opened = {name.split("::")[0] for name in added}
    assert build_id in opened, \
        f"the ops are in {', '.join(opened)}, a name that every build has; " \
        "TORCH_EXTENSION_NAME is this build's own"
    shared = sorted(n for n in added if not n.startswith(f"{build_id}::"))
    assert not shared, \
        f"the library defines {shared[0]} too, as every build of it does: no two of " \
        "them can be in one process" + \
        point_at("torch-ext/torch_binding.cpp", shared[0].split("::")[0])


def check_kernels(build_id):
    out, x = torch.empty(2, 4), torch.randn(2, 8)
    getattr(torch.ops, build_id).silu_and_mul(out, x)
    torch.testing.assert_close(
        out, torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
    for name in sorted(n for n in list_ops() if n.startswith(f"{build_id}::")):
        for key in ("CPU", "Meta"):
            assert torch._C._dispatch_has_kernel_for_dispatch_key(name, key), \
                f"{name.replace(build_id, '<id>')} has no kernel for {key}: is it " \
                "registered in this build's namespace?"


if __name__ == "__main__":
    library = Path(sys.argv[1])
    other_version = torch.library.Library("activation", "DEF")
    other_version.define("silu_and_mul(Tensor! out, Tensor input) -> ()")
    before = list_ops()
    load_library(library)
    check_opened(read_id(library), list_ops() - before)
    check_kernels(read_id(library))
