"""Whether a package loads, and whether its files are those of its digest."""

import sys
from pathlib import Path

from kernels import get_local_kernel
from kernels._rust import Digest, Metadata

repository = Path(sys.argv[1])
print("loaded:", get_local_kernel(repository, backend="cpu").__name__)
variant, = repository.glob("build/torch*-cpu-*")
digest = Metadata.read_from_file(variant / "metadata.json").digest
digest.validate(Digest.hash_variant(digest.algorithm, variant))
print("every file is what metadata.json says")
