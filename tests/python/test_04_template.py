"""solutions/04_boxed_kernels as what it is for: copied out, renamed, installed
into an environment of its own, and tested there by its own tests."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from workspace import find_chapter, source_files, torch_root


def run(*command, cwd, **environment):
    env = {**os.environ, **environment}
    for name in ("TORCH_ROOT", "PYTHONPATH", "VIRTUAL_ENV"):
        env.pop(name, None)
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment that sees the torch and the build tools that are there,
    and nothing of the workbook."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    site = run(python, "-c", "import sysconfig;"
               "print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    here = subprocess.run(
        [sys.executable, "-c",
         "import sysconfig; print(sysconfig.get_path('purelib'))"],
        text=True, capture_output=True, check=True).stdout
    Path(site, "there.pth").write_text(f"{here}{torch_root().parent}\n")
    return folder / "bin"


def install(environment, folder):
    """Builds the wheel and installs it; gives the wheel's name."""
    path = f"{environment}:{os.environ['PATH']}"
    run(environment / "python", "-m", "pip", "wheel", "-q", "--no-deps",
        "--no-build-isolation", "-w", folder / "dist", ".", cwd=folder,
        PATH=path)
    wheel, = (folder / "dist").iterdir()
    run(environment / "python", "-m", "pip", "install", "-q", "--no-deps",
        "--force-reinstall", wheel, cwd=folder)
    return wheel.name


def copy(folder):
    chapter = find_chapter("04")
    for path in source_files(chapter.solution):
        target = folder / path.relative_to(chapter.solution)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text())
    return folder


@pytest.mark.full
def test_installs_and_passes_its_own_tests(environment, tmp_path):
    folder = copy(tmp_path / "a folder with spaces")
    wheel = install(environment, folder)
    assert re.match(r"boxed_kernels-.*-cp310-abi3-linux_", wheel)
    text = run(environment / "python", "-m", "pytest", "-q", cwd=folder)
    assert re.search(r"\d+ passed", text) and "failed" not in text
    # Nothing of Python is used, so one wheel does for every version of it.
    library, = environment.parent.glob(
        "lib/*/site-packages/boxed_kernels/libboxed_kernels.so")
    symbols = run("nm", "-D", "--undefined-only", library, cwd=folder)
    assert not re.search(r"\bPy", symbols)
    assert "RUNPATH" not in run("readelf", "-d", library, cwd=folder)


@pytest.mark.full
def test_renamed_it_lives_beside_the_first(environment, workbook, tmp_path):
    """./workbook new; then both are loaded into one process."""
    folder = tmp_path / "renamed"
    done = workbook("new", "my_ops", "--from", "04", folder)
    assert done.returncode == 0, done.stderr
    assert install(environment, folder).startswith("my_ops-")
    run(environment / "python", "-m", "pytest", "-q", "-k",
        "values or opcheck or errors", cwd=folder)
    install(environment, copy(tmp_path / "first"))
    run(environment / "python", "-c",
        "import torch, my_ops, boxed_kernels; x = torch.randn(2, 8);"
        "assert my_ops.silu_and_mul(x).equal(boxed_kernels.silu_and_mul(x))",
        cwd=folder)
