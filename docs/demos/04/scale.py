import sys

import torch

torch.ops.load_library(sys.argv[1])
for factor in (0.1, 1.0, 1 / 3):
    out = torch.ops.demo.scale(torch.ones(1), factor)
    print(f"  scale([1], {factor:.4g}) = [{out.item():.4g}]")
