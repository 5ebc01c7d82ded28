import sys

import torch
from heap import in_use

CALLS = 10_000

torch.ops.load_library(sys.argv[1])
for name, value in {
        "bool": True, "int": -2, "float": 0.5, "dtype": torch.half,
        "layout": torch.strided, "memory_format": torch.channels_last,
        "device": "cuda:3", "tensor": torch.ones(2), "str": "half",
        "maybe_int": 7, "maybe_tensor": torch.ones(2), "ints": [2, 3],
        "tensors": [torch.ones(2), torch.ones(2)]}.items():
    for _ in range(2):  # the first time makes what stays
        before = in_use()
        for _ in range(CALLS):
            getattr(torch.ops.wb02, f"echo_{name}")(value)
    print(f"echo_{name:12} {(in_use() - before) / CALLS:4.0f} bytes a call")
