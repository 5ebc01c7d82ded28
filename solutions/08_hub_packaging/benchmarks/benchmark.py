"""What `kernels benchmark .` runs: the kernel against PyTorch's own ops."""

import torch
from kernels.benchmark import Benchmark
from torch.nn import functional as F


def _gated(activation, x):
    """Compute in float, and round once, as the kernel does."""
    gate, up = x.float().chunk(2, -1)
    return (activation(gate) * up).to(x.dtype)


class SiluAndMul(Benchmark):
    """The shapes that the Hub compares activations with."""

    seed = 42

    def _setup(self, tokens, d, dtype):
        # Small results: the Hub compares with an absolute tolerance of 1e-2.
        x = torch.randn(8, tokens, 2 * d, device=self.device) / 5
        self.x = x.to(dtype)
        self.out = torch.empty(8, tokens, d, device=self.device, dtype=dtype)

    def _benchmark(self):
        self.kernel.silu_and_mul(self.out, self.x)

    def _verify(self):
        return _gated(F.silu, self.x)

    def setup_small(self):
        self._setup(64, 512, torch.float16)

    def setup_medium(self):
        self._setup(256, 1024, torch.bfloat16)

    def setup_large(self):
        self._setup(1024, 4096, torch.bfloat16)

    benchmark_small = benchmark_medium = benchmark_large = _benchmark
    verify_small = verify_medium = verify_large = _verify


class GeluAndMul(SiluAndMul):
    def _benchmark(self):
        self.kernel.gelu_and_mul(self.out, self.x)

    def _verify(self):
        return _gated(F.gelu, self.x)

    benchmark_small = benchmark_medium = benchmark_large = _benchmark
    verify_small = verify_medium = verify_large = _verify
