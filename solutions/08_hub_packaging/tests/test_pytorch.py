"""What PyTorch and the Hub's loader ask: opcheck, gradients, compilation, and
layers that kernelize puts into a model."""

from pathlib import Path

import pytest
import torch
from kernels import (LocalLayerRepository, Mode, kernelize,
                     use_kernel_forward_from_hub, use_kernel_mapping)
from reference import NUMBERS, REFERENCE, exact, has_halves
from torch._dynamo.testing import CompileCounterWithBackend

EACH_OP = pytest.mark.parametrize("name", REFERENCE)
LAYERS = {
    "SiluAndMul": "silu_and_mul", "MulAndSilu": "mul_and_silu",
    "GeluAndMul": "gelu_and_mul", "GeluTanhAndMul": "gelu_tanh_and_mul",
    "FatreluAndMul": "fatrelu_and_mul", "Silu": "silu", "Gelu": "gelu",
    "GeluTanh": "gelu_tanh", "FastGELU": "gelu_fast", "NewGELU": "gelu_new",
    "QuickGELU": "gelu_quick"}


def functional(ops, name):
    """Return the op that returns a new tensor."""
    return getattr(ops, f"{name}_functional")


@EACH_OP
def test_opcheck(ops, device, name):
    """It tests schema, autograd registration, fake tensors and dynamic shapes."""
    numbers = NUMBERS.get(name, ())
    x = torch.randn(2, 3, 8, device=device)
    for input in (x, x.transpose(0, 1), x.detach().clone().requires_grad_()):
        torch.library.opcheck(functional(ops, name), (input, *numbers))
    out = torch.empty_like(exact(name, x), dtype=x.dtype)
    torch.library.opcheck(getattr(ops, name), (out, x, *numbers))


@EACH_OP
def test_gradient(ops, device, name):
    x = (torch.randn(3, 10, device=device) * 2).requires_grad_()
    got = functional(ops, name)(x, *NUMBERS.get(name, ()))
    wide = x.detach().double().requires_grad_()
    want = exact(name, wide)
    for weight in (torch.randn_like(got), got.new_ones(()).expand_as(got)):
        mine, = torch.autograd.grad(got, x, weight, retain_graph=True)
        right, = torch.autograd.grad(want, wide, weight.double(),
                                     retain_graph=True)
        torch.testing.assert_close(mine, right.float())


@pytest.mark.parametrize("threshold", [0.1, -0.5])
def test_the_gradient_of_fatrelu(ops, device, threshold):
    """It is that of what forward keeps: 0, not NaN, for an infinite gate that it
    drops, and for one that equals the threshold."""
    inf = torch.inf
    gates = torch.tensor([-inf, threshold, 2.0, inf, torch.nan, -inf])
    x = torch.cat((gates, torch.tensor([3.0, 5.0, -1.0, 2.0, 1.0, -inf])))
    mine = x.clone().to(device).requires_grad_()
    theirs = x.clone().requires_grad_()
    got = ops.fatrelu_and_mul_functional(mine, threshold)
    gate, up = theirs.chunk(2)
    want = torch.where(gate > torch.tensor(threshold), gate, 0) * up
    torch.testing.assert_close(got.cpu(), want, equal_nan=True)
    got.sum().backward()
    want.sum().backward()
    torch.testing.assert_close(
        mine.grad.cpu(), theirs.grad, rtol=0, atol=0, equal_nan=True)


@EACH_OP
def test_three_shapes_compile_once(ops, device, name):
    numbers = NUMBERS.get(name, ())

    def call(x):
        return functional(ops, name)(x, *numbers) * 2

    torch._dynamo.reset()
    torch._dynamo.config.specialize_float = True  # a schema's float is a number
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(call, backend=counter, fullgraph=True,
                             dynamic=True)
    for rows, columns in ((3, 8), (5, 12), (7, 32)):
        x = torch.randn(2, rows, columns, device=device)
        torch.testing.assert_close(compiled(x), call(x))
    assert counter.frame_count == 1


def test_inductor_keeps_what_is_written(activation, device):
    def call(x):
        out = x.new_empty(x.shape[0], x.shape[1] // 2)
        activation.silu_and_mul(out, x)
        return out + 1

    x = torch.randn(4, 16, device=device)
    torch.testing.assert_close(
        torch.compile(call, fullgraph=True)(x), call(x))


def model_of(layer):
    @use_kernel_forward_from_hub(layer)
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.threshold = NUMBERS["fatrelu_and_mul"][0]

        def forward(self, x):
            raise AssertionError("it was not replaced")

    return torch.nn.Sequential(Layer())


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("mode", [
    Mode.INFERENCE, Mode.TRAINING, Mode.INFERENCE | Mode.TORCH_COMPILE,
    Mode.TRAINING | Mode.TORCH_COMPILE], ids=str)
def test_layers_replace_a_models_own(activation, layer, mode):
    variant = Path(activation.__file__).parent
    repo = LocalLayerRepository(variant, layer_name=layer)
    mapping = {layer: {"cpu": {mode: repo}}}
    with use_kernel_mapping(mapping, inherit_mapping=False):
        model = kernelize(model_of(layer), mode=mode, device="cpu",
                          use_fallback=False)
    if Mode.TORCH_COMPILE in mode:
        torch._dynamo.reset()
        model = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 5, 8)[:, ::2].requires_grad_()
    got = model(x)
    torch.testing.assert_close(
        got, exact(LAYERS[layer], x).float())
    if Mode.TRAINING in mode:
        gradient, = torch.autograd.grad(got.sum(), x)
        assert gradient.isfinite().all() and gradient.abs().sum() > 0


def test_a_layer_can_be_made_with_a_threshold(activation):
    """The original's can; and kernelize accepts it, as is tested above."""
    x = torch.tensor([[0.1, 0.4, 2.0, 2.0]])
    layer = activation.layers.FatreluAndMul
    for made, kept in ((layer(), [1, 1]), (layer(0.3), [0, 1]),
                       (layer(threshold=0.5), [0, 0])):
        want = x[:, :2] * 2 * torch.tensor(kept)
        assert torch.equal(made(x), want)
        torch._dynamo.reset()
        compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x), want)


def test_public_names(activation):
    assert set(activation.__all__) == {*REFERENCE, "layers"}
    assert {n for n in dir(activation.layers) if n[0].isupper()} == set(LAYERS)
    assert all(has_halves(n) == ("AndMul" in layer or "MulAnd" in layer)
               for layer, n in LAYERS.items())
