"""Tests of what slot.h refuses when it is compiled, and of rows of the conversion table
whose values only Python can hand to libtorch: each passes from Python into a kernel,
which does not look at it."""

import json
import os
import subprocess

import pytest

from base.project import ROOT
from support import compiler_after
from torch_stable_abi.libtorch.installed import torch_root

torch = pytest.importorskip("torch", reason="TORCH_ROOT has no Python side")

SLOT = ROOT / "solutions/02_stableivalue_conversions/slot.h"
REFUSED = "Not yet supported conversion from IValue to StableIValue for schema type: "


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return compiler_after(tmp_path_factory.mktemp("slot"), f'#include "{SLOT}"\n')


@pytest.mark.parametrize("type, message", [
    ("float", "double (not float)"), ("int", "int64_t (not int)"),
    ("std::optional<float>", "double (not float)"),
    ("std::vector<std::optional<int>>", "int64_t (not int)"),
    ("const char*", "std::string"),
    ("wb::DeviceType", "static assertion failed")])
def test_a_type_that_no_schema_has_does_not_compile(compiled, type, message):
    done = compiled(f"auto x = wb::Slot<{type}>::to(0);")
    assert done.returncode != 0
    assert message in done.stderr, done.stderr


def test_a_type_of_schemas_compiles(compiled):
    assert compiled("auto x = wb::Slot<std::optional<double>>::to(0);"
                    ).returncode == 0


def test_a_big_endian_machine_is_refused():
    """There the bytes of a short value lie at the other end of the slot."""
    done = subprocess.run(
        ["g++", "-std=c++17", "-fsyntax-only", "-U__BYTE_ORDER__",
         "-D__BYTE_ORDER__=4321", f"-I{torch_root()}/include", SLOT],
        text=True, capture_output=True)
    assert "#error" in done.stderr and "big-endian" in done.stderr


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Return the ops wb02_rows::* of 02_conversions.cpp, as a shared library."""
    library = tmp_path_factory.mktemp("rows") / "librows.so"
    home = os.path.dirname(torch.__file__)
    subprocess.run(
        ["c++", "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ROOT / 'common'}",
         "-isystem", f"{home}/include",
         "-DTORCH_TARGET_VERSION=0x020a000000000000",
         ROOT / "tests/abi/facts/print_conversions.cpp", "-o", library,
         f"-L{home}/lib", "-ltorch_cpu"], check=True)
    torch.ops.load_library(str(library))
    return torch.ops.wb02_rows


@pytest.mark.parametrize("name, type, value", [
    ("Stream", "Stream", torch.Stream(device="cpu")),
    ("complex", "complex", 1j),
    ("Scalar", "Scalar", 1.5),
    ("Storage", "Storage", torch.zeros(2).untyped_storage()),
    ("tuple", "(int, int)", (1, 2)),
    ("SymBool", "SymBool", True),
    ("complex_list", "complex", [1j]),
    ("Scalar_maybe", "Scalar", 1.5),
], ids=lambda x: x if isinstance(x, str) else "")
def test_is_refused(rows, name, type, value):
    with pytest.raises(RuntimeError) as error:
        getattr(rows, name)(value)
    assert REFUSED + type in str(error.value)


@pytest.mark.parametrize("name, value", [
    ("str", "gr\u00fc\u00df\0dich"),
    ("Device", torch.device("cuda:3")),
    ("SymInt", 5),
    ("int_list", [1, -2]),
    ("complex_list", []),
    ("Stream_maybe", None),
    ("complex_maybe", None),
])
def test_converts(rows, name, value):
    assert getattr(rows, name)(value) == value


def test_generator(rows):
    version = tuple(int(x) for x in torch.__version__.split(".")[:2])
    generator = torch.Generator().manual_seed(7)
    if version < (2, 13):
        with pytest.raises(RuntimeError, match=REFUSED + "Generator"):
            rows.Generator(generator)
        return
    back = rows.Generator(generator)
    expected = torch.rand(3, generator=torch.Generator().manual_seed(7))
    assert torch.equal(torch.rand(3, generator=back), expected)
    # It is the same generator, not a copy of it.
    assert torch.equal(back.get_state(), generator.get_state())


def test_qscheme_is_stopped_by_python(rows):
    with pytest.raises(RuntimeError, match="Expected a value of type 'QScheme'"):
        rows.QScheme(torch.per_tensor_affine)


def test_documented_conversions_are_those_of_this_libtorch():
    program = ROOT / "build/release/tests/conversions_probe"
    done = subprocess.run([program], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    now = json.loads(done.stdout)
    file = ROOT / "docs/results/conversions" / f"{now['libtorch']}.json"
    if not file.exists():
        pytest.skip(f"no documented result for libtorch {now['libtorch']}")
    said = json.loads(file.read_text())
    for row, expected in zip(now["rows"], said["rows"], strict=True):
        for key in ("schema", "to_libtorch", "from_libtorch", "leaked_bytes"):
            assert row.get(key) == expected.get(key), row
