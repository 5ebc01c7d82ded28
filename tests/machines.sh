#!/usr/bin/env bash
# Builds the solutions and runs the C++ tests of every chapter on another Debian,
# with its CMake and each of the compilers named, beside this machine's torch:
#
#     sudo tests/machines.sh trixie g++-13 g++-14
#
# debootstrap makes the system in $MACHINES (a folder of /tmp), once. Chapter 07's
# CPU part is built and not run: its test needs nvcc. Status 1 if a compiler fails;
# what it said is in its log.
set -euo pipefail

suite=${1:?a suite of Debian, such as trixie}
shift
checkout=$(realpath "$(dirname "$0")/..")
torch=$(realpath "${TORCH_ROOT:-$(cat "$checkout/.venv/torch-root")}")
root=${MACHINES:-/tmp/machines}/$suite

if [ ! -e "$root/made" ]; then
  rm -rf "$root"
  mkdir -p "$root"
  debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" \
    http://deb.debian.org/debian >"$root.log"
  touch "$root/made"
fi
rm -rf "$root/workbook"
mkdir -p "$root/workbook" "$root/torch"
git -c safe.directory="$checkout" -C "$checkout" archive HEAD | tar -x -C "$root/workbook"
cp /etc/resolv.conf "$root/etc/"

# Runs a command in the system. The mounts go with it.
inside() {
  # shellcheck disable=SC2016
  unshare --mount --propagation private bash -c '
    mount --bind /proc "$0/proc"
    mount --bind /dev "$0/dev"
    mount --bind -o ro "$1" "$0/torch"
    exec chroot "$0" /bin/bash -euo pipefail -c "$2"' "$root" "$torch" "$1"
}

packages=
for compiler; do
  packages+=" ${compiler/clang++/clang}"
done
inside "export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends cmake ninja-build python3 \
    doctest-dev binutils $packages" >"$root.log" 2>&1

status=0
for compiler; do
  log=$root-$compiler.log
  if inside "cd /workbook
      export CXX=$compiler
      cmake --preset release -B /tmp/$compiler -DTORCH_ROOT=/torch \
        -DWORKBOOK_BENCH=OFF
      cmake --build /tmp/$compiler
      ctest --test-dir /tmp/$compiler --output-on-failure \
        --exclude-regex '^07'" >"$log" 2>&1; then
    said=$(grep "tests passed" "$log")
  else
    status=1
    said="$(grep -m 1 -E "error:|Error|\*\*\*" "$log" || echo failed), see $log"
  fi
  echo "$suite, $(inside "cmake --version" | head -1), $compiler: $said"
done
exit $status
