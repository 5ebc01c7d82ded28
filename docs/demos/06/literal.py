import sys

import torch

torch.ops.load_library(sys.argv[1])
for name in ("cpu", "cuda:1", "cuda:2"):
    print(f"{name:<7} by_table   {torch.ops.literal.by_table(name)}")
    print(f"{name:<7} by_literal {torch.ops.literal.by_literal(name)}")
