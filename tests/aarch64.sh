#!/usr/bin/env bash
# The templates on aarch64: makes a package from each of 04, 07 and 08, builds it
# by a cross compiler, and runs its own tests in that machine's Python, in an
# emulator, with the oldest torch (its wheel for aarch64 needs no CUDA):
#
#     sudo tests/aarch64.sh
#
# Needs debootstrap, g++-aarch64-linux-gnu and qemu-user. What is fetched stays in
# $MACHINES (a folder of /tmp). Status 1 if a package fails. Not run: what needs a
# GPU, and the test in which Inductor compiles for the machine of the emulator.
set -euo pipefail

checkout=$(realpath "$(dirname "$0")/..")
root=${MACHINES:-/tmp/machines}/aarch64
packages=$root/packages
python=$root/python

if [ ! -e "$root/made" ]; then
  rm -rf "$root"
  mkdir -p "$root"
  debootstrap --download-only --arch=arm64 --variant=minbase \
    --include=python3 bookworm "$root" http://deb.debian.org/debian >"$root.log"
  for file in "$root"/var/cache/apt/archives/*.deb; do
    dpkg-deb -x "$file" "$root"
  done
  pip=("$checkout/.venv/bin/python" -m pip -q install --target "$packages"
    --python-version 3.11 --only-binary=:all: --platform manylinux_2_28_aarch64
    --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64)
  "${pip[@]}" --no-deps torch==2.10.0
  locks=$checkout/common/abi/torch_stable_abi/requirements
  "${pip[@]}" --require-hashes -r "$locks/torch-cpu.txt" -r "$locks/pytest.txt" \
    -r "$checkout/requirements/hub.txt"
  # A process that Python starts is emulated as well.
  echo "import sys; sys.executable = '$python'" >"$packages/sitecustomize.py"
  cat >"$python" <<END
#!/bin/sh
export PYTHONHOME=$root/usr PYTHONPATH=\$MORE:$packages
exec qemu-aarch64 -cpu neoverse-n1 -L $root $root/usr/bin/python3.11 "\$@"
END
  chmod +x "$python"
  touch "$root/made"
fi

status=0
for number in 04 07 08; do
  folder=$root/from_$number
  rm -rf "$folder"
  if "$checkout/workbook" new arm_ops --from $number "$folder" &&
    cmake -G Ninja -S "$folder" -B "$folder/build" \
      --toolchain "$checkout/common/cmake/aarch64.cmake" \
      -DTORCH_ROOT="$packages/torch" -DPython_EXECUTABLE="$python" \
      -DARM_OPS_CUDA=OFF &&
    cmake --build "$folder/build"; then
    cp "$folder"/build/*.so "$folder/python/arm_ops" 2>/dev/null || true # 08 has none
    mkdir -p "$root/proc"
    cp "$folder/build/aarch64-root/proc/cpuinfo" "$root/proc"
    (cd "$folder" && MORE=$folder/python "$python" -m pytest -q tests \
      -k "not inductor_keeps") || status=1 # it compiles with -march=native
  else
    status=1
  fi >"$root-$number.log" 2>&1
  echo "from $number: $(tail -1 "$root-$number.log"), see $root-$number.log"
done
exit $status
