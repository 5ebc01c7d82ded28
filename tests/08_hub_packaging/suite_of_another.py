import kernels
import pytest
import torch

activation = kernels.get_kernel("kernels-community/activation", version=1)
CUDA_DEVICES = [f"cuda:{i}" for i in range(2)]


def gelu_fast(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x)))


def gelu_new(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


@pytest.mark.parametrize("device", CUDA_DEVICES)
@pytest.mark.parametrize("dtype", [torch.half, torch.float])
def test_gated(dtype, device):
    x = torch.randn(7, 64, dtype=dtype, device=device)
    gate, up = x.chunk(2, -1)
    ref_out = torch.nn.functional.silu(gate) * up
    mod_out = activation.layers.SiluAndMul()(x)
    out = activation.silu_and_mul(torch.empty_like(ref_out), x)
    torch.testing.assert_close(out, ref_out, atol=0.0, rtol=0.0)
    torch.testing.assert_close(mod_out, ref_out, atol=0.0, rtol=0.0)
    torch.library.opcheck(activation.ops.silu_and_mul, (out, x))


@pytest.mark.parametrize("device", CUDA_DEVICES)
@pytest.mark.parametrize("torch_fn", [gelu_fast, gelu_new])
def test_alone(torch_fn, device):
    x = torch.randn(50, 512, dtype=torch.bfloat16, device=device)
    out = getattr(activation, torch_fn.__name__)(torch.empty_like(x), x)
    torch.testing.assert_close(out, torch_fn(x), atol=1e-3, rtol=1.6e-2)
