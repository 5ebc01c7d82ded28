"""Does a compiled call write to `out`?

    python compiled.py LIBRARY
"""

import os
import sys

# Inductor keeps compiled graphs on disk, and does not see that a schema changed.
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"

import torch

torch.ops.load_library(sys.argv[1])


def f(out, x):
    torch.ops.wb04.silu_and_mul.out(out, x)
    return out + 0


for backend in ("eager", "aot_eager", "inductor"):
    result = torch.compile(f, backend=backend)(torch.full((1,), 7.0), torch.ones(2))
    print(f"{backend:9} {result.item():.4f}")
