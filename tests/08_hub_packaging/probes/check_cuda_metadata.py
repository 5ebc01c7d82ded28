"""Lets the loader judge a variant for CUDA, as on a machine that has CUDA 13.2.

    python check_cuda_metadata.py VARIANT"""

import sys
from pathlib import Path

from kernels._rust import Digest, Metadata
from kernels.backends import CUDA
from kernels.variants import _resolve_variant_for_system, parse_variant
from packaging.version import Version

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    metadata = Metadata.read_from_file(folder / "metadata.json")
    metadata.digest.validate(Digest.hash_variant(metadata.digest.algorithm, folder))
    for torch_version in ("2.10", "2.15"):
        found, trace = _resolve_variant_for_system(
            variants=[parse_variant(folder.name)],
            selected_backend=CUDA(Version("13.2")), cpu=folder.name.split("-")[-2],
            os="linux", torch_version=Version(torch_version), torch_cxx11_abi=True,
            tvm_ffi_version=None)
        assert found, trace
