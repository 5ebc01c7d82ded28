"""The package of chapter 08, built alone, loaded beside another version of itself, and
tested by its own tests."""

import json
import re
import shutil
from pathlib import Path

import pytest

from base.building import compiler
from base.project import ROOT
from base.sheets import find_chapter
from hub.packages import build_package, find_script, read_id, run
from hub.processes import run_python
from hub.repositories import run_git
from support import PYTHON, copy_solution, passed
from torch_stable_abi.libtorch.installed import is_for_cuda

CHAPTER = find_chapter("08")
PROBES = Path(__file__).parent / "probes"


@pytest.mark.full
@pytest.mark.inductor
def test_its_own_tests_through_local_kernels(repository):
    text = run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "tests", cwd=repository)
    assert passed(text)


@pytest.mark.full
def test_its_own_benchmark(repository, tmp_path):
    pytest.importorskip("matplotlib")
    if is_for_cuda():
        pytest.skip("with a PyTorch for CUDA `kernels benchmark` takes no variant for "
                    "the CPU")
    run(find_script("kernels"), "benchmark", "--iterations", 2, "--warmup", 1,
        "--output", tmp_path / "x.json", repository, cwd=repository)
    result = json.loads((tmp_path / "x.json").read_text())
    workloads = result["results"]
    assert len(workloads) == 6 and all(
        w["verified"] for w in workloads), workloads


@pytest.mark.full
def test_versions_ids_and_bytes(tmp_path, monkeypatch):
    """One commit becomes the same bytes in any folder; a change marks the id as
    dirty; without git it is random; and two versions live in one process."""
    first = copy_solution(CHAPTER, tmp_path / "a folder with spaces")
    run_git(first, "init", "-q")
    run_git(first, "add", "-A")
    run_git(first, "commit", "-qm", "1")
    run_git(first, "clone", "-q", first, tmp_path / "second")
    with monkeypatch.context() as each_compiled:
        each_compiled.setenv("CCACHE_DISABLE", "1")
        variants = [build_package(first)[0], build_package(tmp_path / "second")[0]]
    tree = run_git(first, "rev-parse", "HEAD:./")[:7]
    assert read_id(variants[0]) == f"_activation_cpu_{tree}"
    files = [{path.relative_to(v): path.read_bytes() for path in v.rglob("*")}
             for v in variants]
    assert files[0] == files[1]

    # The next version, which some model asks for as well.
    second = tmp_path / "second"
    (second / "build.toml").write_text((second / "build.toml").read_text()
                                       .replace("version = 1", "version = 2"))
    assert read_id(build_package(second)[0]) == f"_activation_cpu_{tree}_dirty"
    run_git(second, "commit", "-qam", "2")
    newer, = build_package(second)
    assert re.fullmatch(r"_activation_cpu_[0-9a-f]{7}", read_id(newer))
    assert read_id(newer) != read_id(variants[0])
    run_python(PROBES / "check_two_versions.py", first, second)

    (second / ".git/index").write_bytes(b"")  # git cannot tell what has changed
    assert run(PYTHON, "-c", "import package; print(package.unique_id())",
               cwd=second).strip().endswith("_dirty")

    shutil.rmtree(second / ".git")
    drawn = read_id(build_package(second)[0])
    assert re.fullmatch(r"_activation_cpu_[0-9a-f]{8}", drawn)
    assert read_id(build_package(second)[0]) == drawn


@pytest.mark.full
def test_renamed_it_is_a_package_of_its_own(workbook, tmp_path):
    folder = tmp_path / "mine"
    done = workbook("new", "gated_acts", "--from", "08", folder)
    assert done.returncode == 0, done.stderr
    variant, = build_package(folder, "-DGATED_ACTS_CUDA=OFF", by=compiler())
    assert read_id(variant).startswith("_gated_acts_cpu_")
    info = json.loads(run(find_script("kernels"), "info", "--json", folder,
                          cwd=folder))
    assert info["name"] == "gated-acts"
    # As the Hub tests it: by the name that build.toml gives.
    repo = re.search(r'^repo-id = "(.*)"$', (folder / "build.toml").read_text(),
                     re.M)[1]
    assert repo == "your-name/gated-acts"
    text = run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "-m", "kernels_ci", "tests", cwd=folder,
               LOCAL_KERNELS=f"{repo}={folder}")
    assert passed(text)
    text = run(PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "-k", "opcheck or errors or names", "tests", cwd=folder)
    assert passed(text)


@pytest.mark.full
def test_sanitizers_see_nothing(tmp_path):
    """The C++ test again, the kernels built with ASan and UBSan."""
    folder = copy_solution(CHAPTER, tmp_path / "activation")
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
    variant, = build_package(
        folder, f"-DCMAKE_CXX_FLAGS={flags} -D_GLIBCXX_ASSERTIONS",
        f"-DCMAKE_MODULE_LINKER_FLAGS={flags}",
        f"-DCMAKE_PROJECT_INCLUDE={ROOT}/common/cmake/package.cmake",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O1", by="g++")
    library, = variant.glob("*.so")
    asan = run("g++", "-print-file-name=libasan.so", cwd=ROOT).strip()
    run(ROOT / "build/release/tests/08_hub_packaging_test",
        f"--library={library}", cwd=ROOT, LD_PRELOAD=asan,
        ASAN_OPTIONS="detect_leaks=0")
