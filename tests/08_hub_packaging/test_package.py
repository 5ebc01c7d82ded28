"""The package of chapter 08, read by the Hub's own parsers and loaded by its loader."""

import ast
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from base.building import build_root
from base.project import ROOT
from hub.packages import find_script, read_id, run
from hub.processes import run_python

PROBES = Path(__file__).parent / "probes"


def test_kernels_info_and_build_toml(repository):
    info = json.loads(run(find_script("kernels"), "info", "--json", repository,
                          cwd=repository))
    assert (info["name"], info["version"], info["backends"]) == \
        ("activation", 1, ["cpu"])
    done = run_python(PROBES / "read_build_toml.py", repository)
    assert done.stdout.split() == ["cpu", "cuda"]
    # Without it kernel-builder refuses the folder.
    assert "genKernelFlakeOutputs" in (repository / "flake.nix").read_text()


def test_build_toml_with_an_unknown_key_is_refused(repository, tmp_path):
    text = (repository / "build.toml").read_text()
    (tmp_path / "build.toml").write_text(
        text.replace("[torch.stable-abi]", "[torch.stabel-abi]"))
    with pytest.raises(pytest.fail.Exception, match="Unknown field stabel-abi"):
        run_python(PROBES / "read_build_toml.py", tmp_path)


def test_a_second_auditor_agrees(variant):
    if sys.version_info < (3, 11):
        pytest.skip("torch-abi-audit needs Python 3.11")
    library, = variant.glob("*.so")
    found = json.loads(run(find_script("torch-abi-audit"), "--json", library,
                           cwd=variant))["extensions"][0]
    assert found["cpython"]["compliant"]
    assert found["torch"]["stable"] and not found["torch"]["unstable_symbols"]
    assert found["torch"]["min_torch_version"] == "2.10.0"


@pytest.mark.parametrize("key", [
    "name", "id", "version", "license", "python-depends", "backend"])
def test_metadata_without_a_key_is_refused(variant, tmp_path, key):
    metadata = json.loads((variant / "metadata.json").read_text())
    del metadata[key]
    (tmp_path / "metadata.json").write_text(json.dumps(metadata))
    with pytest.raises(pytest.fail.Exception, match=f"missing field `{key}`"):
        run_python("-c", "import sys; from kernels._rust import Metadata;"
                   "Metadata.read_from_file(sys.argv[1])", tmp_path / "metadata.json")


def test_what_is_visible_of_its_own(variant):
    """The package's own names are, and not std's, which libstdc++ makes visible."""
    library, = variant.glob("*.so")
    names = re.findall(r" [A-Z] (.*)", run(
        "nm", "-DC", "--defined-only", library, cwd=variant))
    own = {n for n in names if "std::" not in n and "__gnu_cxx::" not in n}
    assert own - {"__bss_start", "_edata", "_end"} == {
        f"PyInit_{read_id(variant)}", "call_op_declared"}


def test_a_kernel_without_a_digest_is_loaded(variant, tmp_path):
    """Nobody hears of a mistyped one."""
    copy = shutil.copytree(variant, tmp_path / variant.name)
    metadata = json.loads((copy / "metadata.json").read_text())
    metadata["digests"] = metadata.pop("digest")
    (copy / "metadata.json").write_text(json.dumps(metadata))
    done = run_python(PROBES / "load_local_kernel.py", tmp_path)
    assert done.stdout.split()[-1] == metadata["id"]


def test_every_module_is_python_3_9(repository):
    for path in [*repository.rglob("*.py"), *repository.rglob("*.py.in")]:
        text = path.read_text().replace("@ID@", "id")
        ast.parse(text, feature_version=(3, 9))


def test_ops_in_cpp(variant):
    library, = variant.glob("*.so")
    build_root("release", ["08_hub_packaging_test"])
    run(ROOT / "build/release/tests/08_hub_packaging_test",
        f"--library={library}", cwd=ROOT)
