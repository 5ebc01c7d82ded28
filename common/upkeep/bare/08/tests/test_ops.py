"""The op, against PyTorch's own."""

from pathlib import Path

import pytest
import torch
from kernels import (
    LocalLayerRepository,
    Mode,
    kernelize,
    use_kernel_forward_from_hub,
    use_kernel_mapping,
)


@pytest.mark.kernels_ci
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_values(activation, dtype, device):
    x, y = torch.randn(2, 33, 7, device=device).to(dtype)
    for a, b in ((x, y), (x.T, y.T), (x[::2], y[::2]), (x[:0], y[:0])):
        torch.testing.assert_close(
            activation.add_scaled(a, b, 0.5), a + 0.5 * b)


@pytest.mark.kernels_ci
def test_an_error_says_what_came(activation):
    with pytest.raises(RuntimeError, match="other") as error:
        activation.add_scaled(torch.randn(2, 4), torch.randn(2, 5))
    assert "[2, 5]" in str(error.value)


def test_opcheck_and_gradient(activation, ops):
    x, y = torch.randn(2, 3, 4, dtype=torch.float64).requires_grad_()
    torch.library.opcheck(ops.add_scaled.default, (x, y, 0.5))
    assert torch.autograd.gradcheck(activation.add_scaled, (x, y, 0.5))


def test_it_compiles_to_one_graph(activation):
    compiled = torch.compile(activation.add_scaled, fullgraph=True,
                             backend="aot_eager")
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x, x), 2 * x)


def test_the_layer_replaces_a_models_own(activation):
    @use_kernel_forward_from_hub("AddScaled")
    class Layer(torch.nn.Module):
        alpha = 0.5

        def forward(self, x, y):
            raise AssertionError("it was not replaced")

    repository = LocalLayerRepository(
        Path(activation.__file__).parent, layer_name="AddScaled")
    mapping = {"AddScaled": {"cpu": {Mode.TRAINING: repository}}}
    with use_kernel_mapping(mapping, inherit_mapping=False):
        model = kernelize(Layer(), mode=Mode.TRAINING, device="cpu",
                          use_fallback=False)
    x = torch.randn(3, 4)
    torch.testing.assert_close(model(x, x), 1.5 * x)


def test_public_names(activation):
    assert activation.__all__ == ["add_scaled", "layers"]
