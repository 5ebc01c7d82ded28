"""Loads the kernel as its users do: by the Hub's loader, from this folder, or
from where LOCAL_KERNELS says that it lies."""

import os
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1]
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("LOCAL_KERNELS", f"your-name/activation={FOLDER}")
# Inductor's cache on disk would outlive a change of a schema.
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"


FOR_CUDA = '"cuda"' in (FOLDER / "build.toml").read_text()
NEEDS_GPU = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU: compiled, not run")


def pytest_configure(config):
    config.addinivalue_line("markers", "kernels_ci: the Hub's short run")


@pytest.fixture(scope="session")
def activation():
    """Return the package. The variant for the GPU computes on CPU too; without one
    torch may still be a CUDA build, for which the loader would not choose the CPU
    variant."""
    from kernels import get_kernel
    backend = None if FOR_CUDA and torch.cuda.is_available() else "cpu"
    return get_kernel("your-name/activation", version=1, backend=backend)


@pytest.fixture(scope="session")
def ops(activation):
    return getattr(torch.ops, activation.__name__)


@pytest.fixture(
    params=["cpu"] + [pytest.param("cuda", marks=NEEDS_GPU)] * FOR_CUDA)
def device(request):
    return request.param
