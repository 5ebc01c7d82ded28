"""What an op makes of the number behind a stack that is too short.

    python behind.py LIBRARY OP NUMBER...
"""

import sys

import torch

torch.ops.load_library(sys.argv[1])
op = getattr(torch.ops.demo, sys.argv[2])
x = torch.tensor([[1, 2], [3, 4]])
for number in sys.argv[3:]:
    print(f"{sys.argv[2]}, behind it {number}: {op(x, int(number)).tolist()}",
          flush=True)
