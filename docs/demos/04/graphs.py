"""How often are three shapes compiled?

    python graphs.py LIBRARY
"""

import sys

import torch
from torch._dynamo.testing import CompileCounterWithBackend

torch.ops.load_library(sys.argv[1])
counter = CompileCounterWithBackend("aot_eager")
f = torch.compile(torch.ops.wb04.silu_and_mul, backend=counter, dynamic=True)
for rows in (3, 5, 7):
    f(torch.randn(rows, 8))
    print(f"{rows} rows: {counter.frame_count} compiled")
