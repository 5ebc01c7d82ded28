"""Reads the metadata of a variant by the loader's own parser, asks package.py for
names, lets it make another variant, and loads this one as a model's code does.

    python check_metadata.py VARIANT LIBRARY REPOSITORY"""

import sys
from pathlib import Path

from check_made_variant import check_made_variant
from check_variant_names import check_variant_names
from load_as_a_model import check_loader_finds, load_as_a_model
from read_metadata import check_digest, read_metadata


def check_metadata(variant, library):
    metadata = read_metadata(variant / "metadata.json")
    build_id = library.name.removesuffix(".abi3.so")
    assert metadata.id == build_id, \
        f"the metadata's id is {metadata.id}; the library is {library.name}"
    assert (str(metadata.name), metadata.version) == ("activation", 1), \
        f"the metadata's name and version are {metadata.name} and {metadata.version}"
    check_digest(metadata, variant)


if __name__ == "__main__":
    variant, library, repository = map(Path, sys.argv[1:])
    check_metadata(variant, library)
    check_variant_names()
    check_made_variant()
    check_loader_finds(variant.name)
    load_as_a_model(repository)
