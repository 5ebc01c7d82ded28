#!/bin/sh
# Builds what measure.sh runs: the solution of chapter 07, for 8.0 and 9.0 and
# newer GPUs, and the versions that it is compared with.
#
#   common/cuda/build.sh FOLDER      (TORCH_ROOT: the folder of torch)
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
folder=$1
source=$root/solutions/07_cuda_activation_kernel
nvcc=$(python3 "$root/common/cuda/nvcc.py") || { echo "$nvcc" >&2; exit 1; }
: "${TORCH_ROOT:=$(cat "$root/.venv/torch-root" 2>/dev/null || python3 -c \
  'import torch; print(torch.__path__[0])')}"

cmake -G Ninja -S "$source" -B "$folder/cmake" -DCMAKE_BUILD_TYPE=Release \
  -DTORCH_ROOT="$TORCH_ROOT" -DCMAKE_CUDA_COMPILER="$nvcc" \
  -DCMAKE_CUDA_ARCHITECTURES="80-real;90" >/dev/null
cmake --build "$folder/cmake"
cp "$folder/cmake/libcuda_activation_kernel.so" "$folder"
"$nvcc" -std=c++17 -O3 -shared -Xcompiler -fPIC,-Wall,-Wextra -I "$source" \
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
  -gencode arch=compute_90,code=compute_90 \
  "$root/common/cuda/versions.cu" -o "$folder/libversions.so"
