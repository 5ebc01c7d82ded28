"""The migration table: code of the unstable API, and the code of the stable ABI that
stands for it. rows.toml has constructs of C++ and CUDA, ops.toml ops of PyTorch. Each
file says at its head what its fields mean."""

from pathlib import Path

from torch_stable_abi.files import read_toml

ROWS = read_toml(Path(__file__).with_name("rows.toml"))["row"]
OPS = read_toml(Path(__file__).with_name("ops.toml"))["op"]
for row in ROWS:
    row.setdefault("headers", "2.10")
    row.setdefault("target", "2.10")
