"""Runs chapter 08's package on a GPU: every op, dtype and layout of rows beside
double; a row beyond 2^31; a graph capture that makes the first launch; a small
model that torch.compile takes, and that `kernelize` does where the Hub's loader
is installed.

    device_package.py FOLDER      of build.sh

Exit status 77: there is no GPU, so the kernels were compiled, not run.
"""

import importlib.util
import sys
from pathlib import Path

from device import bound, gates, has_gpu, ulps


def load(folder: Path):
    """The package as the Hub's loader imports it: by its id."""
    variant, = (folder / "activation/build").glob("torch*-cu*")
    id = next(variant.glob("*.abi3.so")).name.removesuffix(".abi3.so")
    spec = importlib.util.spec_from_file_location(id, variant / "__init__.py")
    package = importlib.util.module_from_spec(spec)
    sys.modules[id] = package
    spec.loader.exec_module(package)
    return package


def compute(package, name: str, x):
    import torch
    from reference import NUMBERS, has_halves
    shape = list(x.shape)
    shape[-1] //= 2 if has_halves(name) else 1
    out = torch.empty(shape, dtype=x.dtype, device="cuda")
    getattr(package, name)(out, x, *NUMBERS.get(name, ()))
    return out


def check_first_capture(package) -> None:
    import torch
    x = torch.zeros(64, 256, device="cuda")
    out = torch.empty(64, 128, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        package.silu_and_mul(out, x)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(
        out, torch.nn.functional.silu(x[:, :128]) * x[:, 128:])


def check_ops(package) -> int:
    import torch
    from reference import REFERENCE, exact, has_halves
    count = 0
    for name in REFERENCE:
        for dtype in (torch.float, torch.half, torch.bfloat16):
            gate = gates(dtype)
            gate = gate[gate.isfinite()]
            up = torch.randn_like(gate)
            if name == "swigluoai_and_mul":
                row = torch.stack((gate, up), -1).flatten()
            elif name == "mul_and_silu":
                row = torch.cat((up, gate))
            else:
                row = torch.cat((gate, up)) if has_halves(name) else gate
            wide = 3 * torch.randn(33, 2 * 515 + 8, device="cuda", dtype=dtype)
            for x in (row, wide[:, :1024], wide[:, 8:1032], wide[:, 4:1028],
                      wide[:, 2:1026], wide[:, 1:1031]):
                off = ulps(compute(package, name, x), exact(name, x))
                assert off <= bound(name, dtype), (
                    name, dtype, tuple(x.shape), x.stride(), f"{off} ulp")
                count += 1
    return count


def check_long_row(package) -> None:
    """Check a row of more elements than the kernel for vectors takes."""
    import torch
    from reference import exact
    d = (1 << 31) + 1000
    free, _ = torch.cuda.mem_get_info()
    if free < 3 * 2 * d + (1 << 30):
        print("not run: a row beyond 2^31, for want of memory")
        return
    memory = torch.randn(2 * d + 1, device="cuda", dtype=torch.bfloat16)
    for name in ("swigluoai_and_mul", "silu_and_mul"):
        got = compute(package, name, memory[1:])
        for begin in (0, (1 << 31) - 500, d - 500):  # 500 of each half
            ends = begin, begin + 500
            x = memory[1:][2 * ends[0]:2 * ends[1]] if "oai" in name else \
                torch.cat((memory[1:][slice(*ends)],
                           memory[1 + d:][slice(*ends)]))
            assert ulps(got[slice(*ends)], exact(name, x)) <= 0.51, (name, begin)


def check_model(package) -> None:
    import torch

    class Feedforward(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.widen = torch.nn.Linear(64, 256)
            self.act = package.layers.SiluAndMul()
            self.narrow = torch.nn.Linear(128, 64)

        def forward(self, x):
            return self.narrow(self.act(self.widen(x)))

    model = Feedforward().cuda().bfloat16()
    x = torch.randn(8, 64, device="cuda", dtype=torch.bfloat16)
    gate, up = model.widen(x).float().chunk(2, -1)  # rounded once, as the op is
    wanted = model.narrow((torch.nn.functional.silu(gate) * up).bfloat16())
    torch.testing.assert_close(model(x), wanted, rtol=0.02, atol=0.002)
    compiled = torch.compile(model, fullgraph=True)
    torch.testing.assert_close(compiled(x), wanted, rtol=0.02, atol=0.002)


def check_kernelize(package) -> bool:
    import torch
    try:
        from kernels import (
            LocalLayerRepository,
            Mode,
            kernelize,
            use_kernel_forward_from_hub,
            use_kernel_mapping,
        )
    except ImportError:
        return False

    @use_kernel_forward_from_hub("SiluAndMul")
    class Layer(torch.nn.Module):
        def forward(self, x):
            raise AssertionError("it was not replaced")

    repo = LocalLayerRepository(
        Path(package.__file__).parent, layer_name="SiluAndMul")
    mode = Mode.INFERENCE | Mode.TORCH_COMPILE
    with use_kernel_mapping({"SiluAndMul": {"cuda": {mode: repo}}},
                            inherit_mapping=False):
        model = kernelize(torch.nn.Sequential(Layer()), mode=mode,
                          device="cuda", use_fallback=False)
    x = torch.randn(4, 32, device="cuda")
    torch.testing.assert_close(
        torch.compile(model, fullgraph=True)(x),
        torch.nn.functional.silu(x[:, :16]) * x[:, 16:])
    return True


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    if not has_gpu():
        return 77
    import torch
    torch.manual_seed(1)
    package = load(folder)
    check_first_capture(package)
    count = check_ops(package)
    print(f"{count} calls are right", flush=True)
    check_long_row(package)
    check_model(package)
    print("a model, compiled, is right", flush=True)
    print("kernelize puts the layer in" if check_kernelize(package) else
          "kernelize: not run: no kernels package")
    return 0


if __name__ == "__main__":
    sys.exit(main())
