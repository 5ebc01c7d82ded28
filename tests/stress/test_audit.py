"""The audit of files that somebody damaged: a sentence or findings, never a traceback,
and no waiting."""

import random
import zipfile

import pytest

from base.project import ROOT
from base.requirements import install
from base.sheets import find_chapter
from torch_stable_abi.programs import CannotRun
from torch_stable_abi.projects import library_of

COUNT = 400


def damage(data: bytearray, chance: random.Random) -> bytes:
    """Change bytes, cut some out, or write a large number, most often near the
    beginning or the end, where the tables are."""
    for _ in range(chance.choice([1, 1, 2, 8, 64])):
        where = chance.choice([64, 512, len(data)])
        at = chance.randrange(min(where, len(data)))
        at = chance.choice([at, len(data) - 1 - at])
        how = chance.randrange(4)
        if how == 0:
            data[at] = chance.randrange(256)
        elif how == 1:
            data[at:at + 8] = b"\xff" * min(8, len(data) - at)
        elif how == 2:
            data[at] ^= 1 << chance.randrange(8)
        else:
            del data[at:at + chance.choice([1, 4, 4096])]
    return bytes(data)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Return {name: bytes} of a library, a wheel, and the metadata of a variant."""
    install("audit")
    chapter = find_chapter("04")
    library = library_of(ROOT / "build/release/solutions" / chapter.name)
    path = tmp_path_factory.mktemp("corpus") / "one-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(library, "one/libone.so")
        for name, text in [("METADATA", "Name: one\nVersion: 1.0\nRequires-Dist: "
                                        "torch>=2.10; python_version>'3'"),
                           ("WHEEL", "Tag: py3-none-linux_x86_64\n"),
                           ("RECORD", "one/libone.so,,\n")]:
            archive.writestr(f"one-1.0.dist-info/{name}", text)
    return {"libone.so": library.read_bytes(), path.name: path.read_bytes()}


@pytest.mark.full
@pytest.mark.parametrize("name", ["libone.so", "one-1.0-py3-none-linux_x86_64.whl"])
def test_damaged_files(corpus, tmp_path, name):
    from torch_stable_abi.audit import checks, formats, subject
    chance = random.Random(name)
    refused = 0
    for n in range(COUNT):
        (tmp_path / name).write_bytes(damage(bytearray(corpus[name]), chance))
        try:
            one = subject.open_subject(tmp_path / name, name)
            result = formats.Result(name, name, checks.audit(one))
            for form in (formats.as_text, *formats.FORMATS.values()):
                assert form([result])
        except CannotRun:
            refused += 1
        except Exception as error:
            raise AssertionError(f"damage {n} of {name}") from error
    assert 0 < refused < COUNT


@pytest.mark.full
def test_damaged_metadata(tmp_path):
    """A variant's metadata.json and its Python files, with values of any kind."""
    import json

    from torch_stable_abi.audit import checks, subject
    chance = random.Random(1)
    values = [None, 1, -1, "", "x" * 999, [], {}, [[]], True, 1e400, {"type": []},
              {"algorithm": "sha256", "files": {"a": 1}}, {"files": []}, "\ud800"]
    folder = tmp_path / "torch-stable-abi210-cpu-x86_64-linux"
    folder.mkdir()
    for n in range(COUNT):
        keys = ["name", "id", "version", "license", "python-depends", "backend",
                "digest", "x"]
        metadata = {key: chance.choice(values) for key in keys if chance.random() < 0.8}
        (folder / "metadata.json").write_text(json.dumps(metadata))
        (folder / "__init__.py").write_bytes(chance.choice([
            b"", b"import \xff", b"\0", b"(" * 9999, b"from . import a\nimport os"]))
        for one in subject.find_subjects(str(tmp_path)):
            assert not isinstance(one, CannotRun), n
            assert checks.audit(one)
