#!/bin/sh
# Runs chapter 07 on a GPU: its ops, the same under compute-sanitizer, then the
# benchmark, whose JSON goes to docs/results. The two libraries are built first,
# or are those in FOLDER, built elsewhere: they need no network and no nvcc here.
#
#   common/cuda/measure.sh [FOLDER [JSON]]
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
folder=${1:-$root/build/gpu}
json=${2:-$root/docs/results/07_cuda_activation_kernel.json}
python=${PYTHON:-python3}
library=$folder/libcuda_activation_kernel.so
versions=$folder/libversions.so

if [ ! -f "$library" ] || [ ! -f "$versions" ]; then
  "$root/common/cuda/build.sh" "$folder"
fi
"$python" "$root/common/cuda/device.py" --library "$library"
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck; do
    echo "== compute-sanitizer --tool $tool"
    compute-sanitizer --tool "$tool" --error-exitcode 1 --print-limit 5 \
      "$python" "$root/common/cuda/device.py" --library "$library" --small
  done
else
  echo "compute-sanitizer is not installed: not run"
fi
"$python" "$root/common/cuda/bench.py" --library "$library" \
  --versions "$versions" --json "$json"
