import os
import sys

import torch


def megabytes():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def numbers(tensor):
    return " ".join(f"{value:6g}" for value in tensor.flatten().tolist())


torch.ops.load_library(sys.argv[1])
quantise = torch.ops.demo.quantise
x = torch.tensor([[2.0, -20.0, 254.0]])
out = torch.empty_like(x)
try:
    scale = quantise(out, x)
except RuntimeError as error:
    print("  RuntimeError: ... " + str(error).splitlines()[0].rpartition(", ")[2])
    sys.exit()
print(f"  x          {numbers(x)}\n  out        {numbers(out)}\n"
      f"  scale      {numbers(scale)}\n  out * scale{numbers(out * scale)}")
x = torch.ones(250_000, 2)  # a scale for each row: 1 MB
out = torch.empty_like(x)
quantise(out, x)
before = megabytes()
for _ in range(200):
    quantise(out, x)
print(f"  200 calls more: {round((megabytes() - before) / 50) * 50} MB more")
