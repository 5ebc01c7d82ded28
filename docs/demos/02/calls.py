import sys

import torch
from heap import in_use

torch.ops.load_library(sys.argv[1])
for text in ("half", "h" * 100):
    before = in_use()
    for _ in range(1_000_000):
        torch.ops.demo.length(text)
    grown = round((in_use() - before) / 1e6, 1) + 0.0
    print(f"  1,000,000 calls, {len(text):3} characters: + {grown} MB")
