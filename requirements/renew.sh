#!/bin/sh
# Writes each NAME.txt anew, here and in the folder of the tools' package: the versions
# and hashes of what NAME.in asks for, and of all that this needs, for each Python
# since 3.10. pip takes no other files.
#
# All sets are resolved together first, so that a package has one version in all of
# them. What NAME.in leaves open becomes the newest. uv does not read pip's
# configuration: UV_DEFAULT_INDEX names a mirror.
set -eu
cd "$(dirname "$0")"

../.venv/bin/python -m pip install -q --require-hashes -r renew.txt
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
resolve() {
  ../.venv/bin/uv pip compile -q --universal --python-version 3.10 --no-annotate \
    --custom-compile-command requirements/renew.sh "$@"
}

set -- ./*.in ../common/abi/torch_stable_abi/requirements/*.in
resolve "$@" -o "$new/all"
for source in "$@"; do
  target=${source%.in}.txt
  # Of torch, version and index are locked: see torch.in.
  resolve "$source" --constraints "$new/all" --generate-hashes \
    --no-emit-package torch -o "$new/lock"
  mv "$new/lock" "$target"
  echo "$target: $(grep -c '^[^ #]' "$target") packages"
done
