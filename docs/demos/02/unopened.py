import sys

import torch

torch.ops.load_library(sys.argv[1])
for name, value in {
        "device": torch.device("cuda:3"), "tensor": torch.ones(2),
        "names": ["a", "b"], "generator": torch.Generator(), "scalar": 1,
        "maybe_scalar": None, "complex": 1j}.items():
    try:
        back = getattr(torch.ops.pass_on, name)(value)
        print(f"{name:12} {type(back).__name__}")
    except RuntimeError as error:
        print(f"{name:12} {str(error).splitlines()[0]}")
