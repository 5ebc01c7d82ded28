"""What the tool says of the mistakes that people make most: NN.toml has them,
NN.txt the words, to be read and judged. Our words, the file and the line are
compared, the compiler's own are not."""

import re
import time

import pytest

from support import Implementation
from workbook import screen
from workbook.building import compiler, implementation_build
from workbook.hunks import starter_with
from workbook.project import ROOT, read_toml
from workbook.sheets import find_chapter

FOLDER = ROOT / "tests/verdicts"
MISTAKES = [
    pytest.param(file.stem, mistake, id=f"{mistake['step']}-{mistake['what']}")
    for file in sorted(FOLDER.glob("*.toml"))
    for mistake in read_toml(file)["mistake"]]
ADDRESS = re.compile(r"0x(?:0000)?[567][0-9a-f]{11}\b")  # of a handle, of data
CALLED_AT = re.compile(r"(called at [^:\s]+):\d+")  # the number of its line
FIELDS = {"step", "what", "seen", "file", "old", "new", "kind", "at"}


def heading(mistake):
    return f"## {mistake['step']} {mistake['what']} ({mistake['seen']})"


def golden(number):
    """{heading: what is said}"""
    file = FOLDER / f"{number}.txt"
    text = file.read_text() if file.exists() else ""
    return dict(re.findall(r"^(## [^\n]*)\n\n(.*?)\n*(?=^## |\Z)", text,
                           re.M | re.S))


@pytest.mark.full
@pytest.mark.parametrize("number, mistake", MISTAKES)
def test_verdict(number, mistake, capsys, request):
    assert set(mistake) == FIELDS
    chapter = find_chapter(number)
    files = starter_with(chapter, mistake["step"])
    mine = Implementation(chapter).become(files)
    if number == "08":  # a build keeps the id that it has
        header = implementation_build(mine.folder) / "cpu/extension_name.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("#define TORCH_EXTENSION_NAME _activation_cpu_1a2b3c4d\n")
    time.sleep(0.01)  # what is saved last has a later time
    mine.replace(mistake["file"], mistake["old"], mistake["new"])
    found = mine.check(at=mistake["step"])
    assert (found.kind, found.step) == (mistake["kind"], mistake["step"]), found
    assert not found.ran or found.passed_up_to(
        max((s.id for s in chapter.steps if s.id < mistake["step"]),
            default="")), found
    lines = (ROOT / found.file).read_text().splitlines()
    assert mistake["at"] in lines[found.line - 1], found

    if found.kind == "compile":
        found.message = ["(the compiler's text)"]
    found.file = found.file.rpartition("/")[2]
    capsys.readouterr()
    screen.show_verdict(chapter, found, "save it")
    edit = f"Edit {found.file}:{found.line}, then save it"
    said = capsys.readouterr().out.replace(
        edit, f"Edit {found.file}: {lines[found.line - 1].strip()}").rstrip()
    said = ADDRESS.sub("0x...", CALLED_AT.sub(r"\1", said))
    if request.config.getoption("--record"):
        record(number, mistake, said)
    elif "clang" in compiler():  # another's sanitizer has other words
        assert said == golden(number)[heading(mistake)].rstrip()


def record(number, mistake, said):
    known = {**golden(number), heading(mistake): said}
    order = [heading(m) for m in read_toml(FOLDER / f"{number}.toml")["mistake"]]
    (FOLDER / f"{number}.txt").write_text("\n\n".join(
        f"{h}\n\n{known[h].rstrip()}" for h in order if h in known) + "\n")


def test_three_a_step():
    for file in FOLDER.glob("*.toml"):
        steps = [m["step"] for m in read_toml(file)["mistake"]]
        for step in find_chapter(file.stem).steps:
            assert steps.count(step.id) >= 3, step.id
