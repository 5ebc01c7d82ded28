"""The proofs of the pages' limiting sentences: claims.tsv has, of each, its page, words
of it, and what shows it, in one of these forms:

    headers NAME VERSION   the headers declare the name since VERSION, or "none"
    test PATH::NAME        a test of this repository shows it
    row WHAT, op OLD, error ID, gate API    an entry of the table of that kind
    result FILE            a file of docs/results has it
    source WHERE: WHAT     what is read there
    run HOW                what was run by hand, and with which versions
    open                   nothing shows it, and the sentence says so
"""

import csv
import re
from pathlib import Path

import pytest

from base.project import ROOT
from torch_stable_abi.files import read_toml
from torch_stable_abi.libtorch import surface

FILE = Path(__file__).with_name("claims.tsv")
TABLES = {"row": ("common/abi/torch_stable_abi/migration/rows.toml", "row", "what"),
          "op": ("common/abi/torch_stable_abi/migration/ops.toml", "op", "unstable"),
          "error": ("tests/abi/snippets.toml", "error", "id"),
          "gate": ("tests/abi/snippets.toml", "gate", "api")}


def read_claims() -> list[dict[str, str]]:
    with open(FILE, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def find_fault(shown: str) -> str:
    """Return "" if what shows a claim is there, else what is wrong with it."""
    kind, _, rest = shown.partition(" ")
    if kind == "headers":
        name, _, version = rest.rpartition(" ")
        row = surface.find_name(name)
        found = row["headers"] if row else "none"
        return "" if found == version else f"{name}: {found} in the headers"
    if kind == "test":
        path, _, name = rest.partition("::")
        file = ROOT / path
        return "" if name and file.is_file() and name in file.read_text() \
            else f"no such test: {rest}"
    if kind in TABLES:
        table, key, field = TABLES[kind]
        return "" if any(entry[field] == rest for entry in
                         read_toml(ROOT / table)[key]) else f"{table} has no {rest}"
    if kind == "result":
        return "" if (ROOT / "docs/results" / rest).exists() else f"no {rest}"
    return "" if (kind in ("source", "run") and rest) or shown == "open" \
        else f"no form of proof: {shown}"


def test_what_shows_a_claim_is_there():
    claims = read_claims()
    assert len(claims) >= 300
    faults = []
    for claim in claims:
        text = (ROOT / claim["page"]).read_text()
        if claim["words"] not in text:
            faults.append(f"{claim['page']} does not say: {claim['words']}")
        if fault := find_fault(claim["shown by"]):
            faults.append(f"{claim['page']}, {claim['words']}: {fault}")
    assert faults == []


@pytest.mark.parametrize("shown, fault", [
    ("headers torch_from_blob 2.11", ""), ("headers torch::stable::add none", ""),
    ("headers torch_from_blob 2.12", "torch_from_blob: 2.11 in the headers"),
    ("headers torch_from_blob none", "torch_from_blob: 2.11 in the headers"),
    ("test tests/docs/test_claims.py::test_gone_" + "x", "no such test"),
    ("row nothing", "has no nothing"), ("everybody knows", "no form of proof")])
def test_a_claim_that_nothing_shows_is_noticed(shown, fault):
    assert re.match(f".*{re.escape(fault)}", find_fault(shown)) if fault else \
        find_fault(shown) == ""
