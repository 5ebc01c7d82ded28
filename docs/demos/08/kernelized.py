"""Whether kernelize() takes a package's layer for one of a model."""

import sys
from pathlib import Path

import torch
from kernels import (
    LocalLayerRepository,
    Mode,
    get_local_kernel,
    kernelize,
    use_kernel_forward_from_hub,
    use_kernel_mapping,
)
from torch import nn


@use_kernel_forward_from_hub("FatreluAndMul")
class FatreluAndMul(nn.Module):
    """A model's own layer."""

    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, x):
        gate, up = x.chunk(2, -1)
        return torch.where(gate > self.threshold, gate, 0) * up


# A LocalLayerRepository takes no backend: in a folder of variants, a PyTorch for CUDA
# looks for one for CUDA.
variant = Path(get_local_kernel(Path(sys.argv[1]), backend="cpu").__file__).parent
layer = LocalLayerRepository(variant, layer_name="FatreluAndMul")
for mode in (Mode.INFERENCE, Mode.INFERENCE | Mode.TORCH_COMPILE):
    model = FatreluAndMul(0.3)
    own = model.forward
    try:
        with use_kernel_mapping({"FatreluAndMul": {"cpu": layer}},
                                inherit_mapping=False):
            model = kernelize(model, mode=mode, device="cpu")
    except TypeError as error:
        print(f"{mode.name}: TypeError: {error}")
        continue
    y = model(torch.tensor([[0.1, 0.4, 2.0, 2.0]]))
    who = "the model's" if model.forward == own else "the package's"
    print(f"{mode.name}: {who} forward, {y.tolist()}")
