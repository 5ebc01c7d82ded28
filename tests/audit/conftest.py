"""Small libraries, wheels and Hub variants, each right, or with one fault."""

import base64
import hashlib
import json
import os
import zipfile
from pathlib import Path

import pytest

import snippets
import torch_stable_abi
from audited import ID, MODULE, STABLE, UNSTABLE
from base.project import ROOT
from base.requirements import install
from torch_stable_abi.libtorch.installed import torch_root


@pytest.fixture(scope="session", autouse=True)
def package():
    """Make sure that it is the installed package that is tested, where one is."""
    wanted = os.environ.get("ABI_OF_TESTS", str(ROOT / "common/abi"))
    assert Path(torch_stable_abi.__file__).parents[1] == Path(wanted)


@pytest.fixture(scope="session")
def findings():
    """Return a function that returns the findings on a file or a folder."""
    install("audit")
    from torch_stable_abi.audit import checks, subject
    from torch_stable_abi.programs import CannotRun

    def audit(path):
        found = []
        for one in subject.find_subjects(str(path)):
            if isinstance(one, CannotRun):
                raise one
            found += [f for report in checks.audit(one) for f in report.findings]
        return found
    return audit


@pytest.fixture(scope="session")
def audit(findings):
    """Return a function that returns {topic: [level text]} of all that is said."""
    def lines(path):
        found = {}
        for f in findings(path):
            found.setdefault(f.topic, []).append(f"{f.level} {f.text}")
        return found
    return lines


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    def make(code, *options, target="2.10", linked=True, by=""):
        library = tmp_path_factory.mktemp("audit") / "libone.so"
        text = snippets.compile(code, torch_root(), target, "-shared", "-fPIC", "-o",
                                library, *options, *(
                                    (f"-L{torch_root()}/lib", "-Wl,--no-as-needed",
                                     "-ltorch_cpu") if linked else ()), by=by)
        assert not text
        return library
    return make


@pytest.fixture(scope="session")
def stable(build):
    return build(STABLE, "-fvisibility=hidden", "-fno-gnu-unique")


@pytest.fixture(scope="session")
def unstable(build):
    return build(UNSTABLE, target=None)


@pytest.fixture
def wheel(tmp_path):
    """Return a function that packs libraries into a wheel that says what is so, but
    for what is given."""
    def make(library, tags="py3-none-manylinux_2_40_x86_64", requires="torch>=2.10",
             name="libone.so", metadata="Name: one\nVersion: 1.0\n", says=None,
             folder="one-1.0.dist-info", change=lambda files: None):
        files = library if isinstance(library, dict) else {
            f"one/{name}": Path(library).read_bytes()}
        files = {**files, f"{folder}/METADATA": (
            metadata + "".join(f"Requires-Dist: {text}\n"
                               for text in requires.split("\n"))).encode()}
        python, abi, platform = tags.split("-")
        each = says or [f"{p}-{a}-{f}" for p in python.split(".")
                        for a in abi.split(".") for f in platform.split(".")]
        files[f"{folder}/WHEEL"] = ("Wheel-Version: 1.0\n" + "".join(
            f"Tag: {t}\n" for t in each)).encode()
        files[f"{folder}/RECORD"] = "".join(
            f"{n},sha256={encode(data)},{len(data)}\n" for n, data in files.items()
        ).encode() + f"{folder}/RECORD,,\n".encode()
        change(files)
        path = tmp_path / f"one-1.0-{tags}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for n, data in files.items():
                archive.writestr(n, data)
        return path
    return make


def encode(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


@pytest.fixture(scope="session")
def module(build):
    return build(STABLE.replace("audited", ID) + MODULE % ID, "-fvisibility=hidden",
                 "-fno-gnu-unique")


@pytest.fixture
def variant(tmp_path, module):
    """Return a function that makes a right variant, but for what `change` does to its
    {file: bytes} and its metadata before the digest is made."""
    def make(name="torch-stable-abi210-cpu-x86_64-linux", change=lambda f, m: None,
             digest=True, after=lambda folder: None, under=""):
        files = {f"{ID}.abi3.so": module.read_bytes(),
                 "__init__.py": b"from ._ops import ops\n",
                 "_ops.py": f"import torch\nfrom . import {ID}\n"
                            f"ops = torch.ops.{ID}\n".encode()}
        metadata = {"name": "one", "id": ID, "version": 1, "license": "MIT",
                    "python-depends": [], "backend": {"type": "cpu"}}
        change(files, metadata)
        if digest:
            metadata["digest"] = {"algorithm": "sha256", "files": {
                n: base64.b64encode(hashlib.sha256(data).digest()).decode()
                for n, data in files.items()}}
        folder = tmp_path / under / name
        for n, data in files.items():
            (folder / n).parent.mkdir(parents=True, exist_ok=True)
            (folder / n).write_bytes(data)
        (folder / "metadata.json").write_text(json.dumps(metadata))
        after(folder)
        return folder
    return make
