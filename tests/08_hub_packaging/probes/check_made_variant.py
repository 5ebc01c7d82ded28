"""Lets package.py make a variant for a GPU that is not here, of another version and
under another licence, with a file in a folder; beside others, of which one is stale."""

import json
import os
import re

import package

from places import point_at
from read_metadata import check_digest, read_metadata

SOURCE = package.SOURCE / "torch-ext/activation"
BUILD = package.SOURCE / "build"
STALE = BUILD / "torch-stable-abi29-cu126-x86_64-linux"
OTHER = BUILD / "torch-stable-abi210-cpu-x86_64-linux"


def check_made_variant():
    write_sources()
    for folder in (STALE, OTHER):
        folder.mkdir(parents=True)
    make_variant()
    check_other_variants()
    made, = BUILD.glob("*-cu126-*")
    check_name_of_library(made)
    check_digest(read_metadata(made / "metadata.json"), made)
    check_values(made)
    check_order_of_files(made)
    check_name_in_metadata()


def write_sources():
    """Write a package of small files, of all kinds."""
    file = package.SOURCE / "build.toml"
    file.write_text(re.sub(r"(?m)^version = .*", "version = 7", re.sub(
        r"(?m)^license = .*", 'license = "Apache-2.0"', file.read_text())))
    (SOURCE / "_more").mkdir(parents=True)
    for name in ("__init__.py", "_more/__init__.py", "_more/_table.txt", "_ops.py.in"):
        (SOURCE / name).write_text(f"{name} @ID@")
    (SOURCE / ".more").mkdir()
    for name in (".hidden", ".more/table.bin", "lines.py"):  # of bytes that are no text
        (SOURCE / name).write_bytes(b"# \r\n" + b"\xff\x00" * (name != "lines.py"))
    (SOURCE / "py.typed").write_bytes(b"")  # which cannot be mapped
    (SOURCE / "large.bin").write_bytes(bytes(range(256)) * 2**14)  # of several blocks
    for number in range(20):  # for each sign of base64
        (SOURCE / f"{number}.txt").write_text(str(number))
    (package.SOURCE / "CARD.md").write_text("")
    (package.SOURCE / "id.h").write_text(
        "#define TORCH_EXTENSION_NAME _activation_cuda_1")
    (package.SOURCE / "activation.abi3.so").write_bytes(b"the library")


def make_variant():
    package.make_variant(
        "cu126", package.SOURCE / "id.h", package.SOURCE / "activation.abi3.so",
        BUILD, "75-real", "90a", "100")


def check_other_variants():
    assert OTHER.exists(), "a build of the variant for cu126 deletes that for cpu"
    assert not STALE.exists(), \
        f"{STALE.name} is still there after a build: it would be published"


def check_name_of_library(made):
    assert (made / "_activation_cuda_1.abi3.so").exists(), \
        "the library is not named by the build's id: " + \
        ", ".join(p.name for p in made.glob("*.so"))


def check_values(made):
    found = json.loads((made / "metadata.json").read_text())
    want = {"id": "_activation_cuda_1", "version": 7, "license": "Apache-2.0",
            "python-depends": [], "backend": {"type": "cuda", "archs": [
                "7.5", "9.0a+PTX", "10.0+PTX"]}}
    for key, value in want.items():
        assert found[key] == value, (
            f"with {key} = {value!r} in build.toml" if key in ("version", "license")
            else "for the variant cu126 of the architectures 75-real, 90a and 100"
        ) + f" the metadata's {key} is {found[key]!r}, and should be {value!r}" + \
            point_at("package.py", f'"{key}"')


class Reversed:
    """os.scandir() of a disk that lists the files in another order."""

    scandir = staticmethod(os.scandir)

    def __init__(self, path="."):
        with self.scandir(path) as entries:
            self.entries = iter(sorted(
                entries, key=lambda entry: entry.name, reverse=True))

    def __iter__(self):
        return self.entries

    def __next__(self):
        return next(self.entries)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def check_order_of_files(made):
    text = (made / "metadata.json").read_text()
    os.scandir = Reversed
    make_variant()
    os.scandir = Reversed.scandir
    assert (made / "metadata.json").read_text() == text, \
        "on a disk that lists the files in another order metadata.json is another, " \
        "for the same contents" + point_at("package.py", "def digest")


def check_name_in_metadata():
    package.NAME = "gated_acts"
    found = package.metadata("_gated_acts_cpu_1", "cpu", [], SOURCE)["name"]
    assert found == "gated-acts", \
        f"of a package gated_acts the metadata's name is {found!r}: the Hub has " \
        "dashes" + point_at("package.py", '"name"')
