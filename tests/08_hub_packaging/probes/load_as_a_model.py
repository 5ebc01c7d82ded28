"""Loads the variant as a model's code does."""

from pathlib import Path

import torch
from kernels import (
    LocalLayerRepository,
    Mode,
    get_kernel,
    get_local_kernel,
    kernelize,
    use_kernel_forward_from_hub,
    use_kernel_mapping,
)
from kernels.variants import parse_variant, resolve_variant

from places import point_at


@use_kernel_forward_from_hub("SiluAndMul")
class SiluAndMul(torch.nn.Module):
    """The layer of a model, which is to be replaced."""

    def forward(self, x):
        raise AssertionError("kernelize has not replaced the layer")


def check_loader_finds(name):
    found, trace = resolve_variant([parse_variant(name)], "cpu")
    assert found is not None, \
        f"the loader refuses {name}: {trace[0].reason}" + \
        point_at("package.py", "variant_name(")


def load_as_a_model(repository):
    # PyPI's PyTorch is for CUDA, with a GPU or without. Its users ask for the CPU's.
    torch.version.cuda = torch.version.cuda or "13.0"
    get_kernel("your-name/activation", version=1, backend="cpu")
    kernel = get_local_kernel(repository, backend="cpu")
    assert kernel.silu_and_mul
    # A LocalLayerRepository takes no backend: of a folder of variants it takes CUDA's.
    layer = LocalLayerRepository(
        Path(kernel.__file__).parent, layer_name="SiluAndMul")
    mapping = {"SiluAndMul": {"cpu": layer}}
    model, x = SiluAndMul(), torch.randn(3, 8)
    with use_kernel_mapping(mapping, inherit_mapping=False):
        model = kernelize(model, mode=Mode.INFERENCE, device="cpu",
                          use_fallback=False)
    assert hasattr(SiluAndMul, "kernel_layer_name")  # as the page asks a model
    assert model.forward.__func__.__module__.endswith(".layers")
    torch.testing.assert_close(
        model(x), torch.nn.functional.silu(x[:, :4]) * x[:, 4:])
