"""Reads metadata, and compares it with the files, by the loader's own parser."""

import json
import re

from kernels._rust import Digest, Metadata

from places import point_at


def read_metadata(file):
    try:
        return Metadata.read_from_file(file)
    except Exception as error:
        said = re.sub(r" at line .*", "", str(error).split(": ")[-1])
        at = re.search(r" at line (\d+)", str(error))
        line = file.read_text().splitlines()[int(at[1]) - 1].strip() if at else ""
        key = re.match(r'"[\w-]+"', line)
        raise AssertionError(
            f"the loader cannot read metadata.json: {said}" +
            (f", in the line {line}" + point_at("package.py", key[0]) if key else "")
        ) from None


def check_digest(metadata, folder):
    assert metadata.digest is not None, "there is no digest"
    try:
        metadata.digest.validate(
            Digest.hash_variant(metadata.digest.algorithm, folder))
    except Exception as error:
        raise AssertionError(describe_difference(folder, str(error)) +
                             point_at("package.py", "def digest")) from None


def describe_difference(folder, error):
    """Return how the digest in metadata.json differs from the files."""
    mine = json.loads((folder / "metadata.json").read_text())["digest"]["files"]
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*")
             if p.is_file()} - {"metadata.json"}
    lacks, more = sorted(there - set(mine)), sorted(set(mine) - there)
    wrong = sorted(name for name, text in mine.items() if len(text) != 44)
    if lacks:
        return f"the digest leaves out {', '.join(lacks)}"
    if more:
        return f"the digest has {', '.join(more)}, which is not there"
    if wrong:
        return f"the digest of {wrong[0]} has {len(mine[wrong[0]])} characters: " \
            "base64 of a SHA-256 has 44"
    return "the digest is that of other bytes: " + \
        ", ".join(re.findall(r"for ([^\s:]+)", error))
