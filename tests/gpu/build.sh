#!/bin/sh
# Builds what measure.py runs, for GPUs of 9.0 and newer: chapter 07's solution,
# the versions that it is compared with, chapter 08's package, and each chapter's
# test program. FOLDER can then be carried to a machine that has no nvcc and no
# network.
#
#   tests/gpu/build.sh FOLDER [--wheels]
#
# --wheels also downloads `kernels` and pytest for Python 3.12 into FOLDER/wheels,
# for the solutions' own tests. TORCH_ROOT is the folder of torch.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
mkdir -p "$1"
folder=$(CDPATH='' cd -- "$1" && pwd)
nvcc=$("$root/workbook" nvcc)
: "${TORCH_ROOT:=$(cat "$root/.venv/torch-root" 2>/dev/null || python3 -c \
  'import torch; print(torch.__path__[0])')}"
made=$root/build/gpu-made

build() { # SOLUTION: into $made/SOLUTION
  cmake -G Ninja -S "$root/solutions/$1" -B "$made/$1" \
    -DCMAKE_BUILD_TYPE=Release -DTORCH_ROOT="$TORCH_ROOT" \
    -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES=90 >/dev/null
  cmake --build "$made/$1"
}

solution=07_cuda_activation_kernel
build $solution
library=libcuda_activation_kernel.so
rm -rf "$folder/python" "$folder/tests"
cp -r "$root/solutions/$solution/python" "$root/solutions/$solution/tests" "$folder"
cp "$made/$solution/$library" "$folder/python/cuda_activation_kernel"
for name in versions variants; do
  "$nvcc" -std=c++17 -O3 -DNDEBUG -shared -Xcompiler -fPIC,-Wall,-Wextra \
    -I "$root/solutions/$solution" -I "$root/solutions/$solution/core" \
    -gencode arch=compute_90,code=sm_90 \
    "$root/tests/gpu/$name.cu" -o "$folder/lib$name.so"
done

TORCH_ROOT=$TORCH_ROOT PYTHONPATH=$root/common \
  "$root/.venv/bin/python" "$root/tests/gpu/programs.py" \
  "$folder/programs"

package=08_hub_packaging
build $package
rm -rf "$folder/activation"
mkdir -p "$folder/activation/build"
cp -r "$made/$package"/torch*-cu[0-9]* "$folder/activation/build"
cp -r "$root/solutions/$package/build.toml" "$root/solutions/$package/tests" \
  "$folder/activation"
find "$folder/activation" -name __pycache__ -prune -exec rm -rf {} +
PYTHONPATH=$root/common:$root/common/abi:$root/tests "$root/.venv/bin/python" \
  "$root/tests/gpu/machine_code.py" "$folder/machine_code.json"

if [ "${2:-}" = --wheels ]; then
  rm -rf "$folder/wheels"
  set -- # pip takes each platform by its exact name
  for n in 39 38 35 34 31 28 27 24 17; do
    set -- "$@" --platform "manylinux_2_${n}_x86_64"
  done
  "$root/.venv/bin/python" -m pip download -q --only-binary=:all: \
    --python-version 3.12 --implementation cp --abi cp312 --abi abi3 \
    --abi none --platform any --platform manylinux2014_x86_64 "$@" \
    -d "$folder/wheels" --require-hashes -r "$root/requirements/hub.txt" \
    -r "$root/common/abi/torch_stable_abi/requirements/pytest.txt"
fi
du -sh "$folder"
