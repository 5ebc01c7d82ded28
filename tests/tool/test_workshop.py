"""The workshop kit: the plans fit the sheets, the archive sets up without a
network, and the editor's files say what the tool prints."""

import json
import os
import re
import subprocess
import tarfile

import pytest

from base.project import ROOT
from base.sheets import chapters, find_chapter
from support import copy_checkout
from torch_stable_abi.libtorch.installed import torch_root

GUIDE = (ROOT / "docs/instructor.md").read_text()


def plans():
    """[(title, rows of (begins, what, minutes))]"""
    found = []
    for title, table in re.findall(
            r"^\*\*(.+?)\*\*:.*?\n\n(\|.*?)\n\n", GUIDE, re.M | re.S):
        rows = [[cell.strip() for cell in line.strip("|").split("|")]
                for line in table.splitlines()[2:]]
        found.append((title, [(b, what, int(m)) for b, what, m in rows]))
    return found


def minutes_of(what):
    """Return the minutes of "02 StableIValue conversions, steps 02.1 to 02.3", by the
    sheet."""
    found = re.match(r"(\d\d) (.+?)(?:, steps (\S+) to (\S+))?$", what)
    if not found:
        return None
    chapter = find_chapter(found[1])
    assert found[2] == chapter.title
    return sum(step.minutes for step in chapter.steps if not found[3] or
               found[3] <= step.id <= found[4])


def clock(minutes):
    return f"{minutes // 60}:{minutes % 60:02}"


def test_plans_are_sums_of_the_sheets_minutes():
    assert [title for title, _ in plans()] == ["Half a day", "A full day"]
    for (title, rows), limit in zip(plans(), (240, 480)):
        now = 0
        for begins, what, minutes in rows:
            assert begins == clock(now), (title, what)
            assert minutes_of(what) in (None, minutes), (title, what)
            now += minutes
        assert f"the end is at {clock(now)}" in rows[-1][1], clock(now)
        assert now <= limit


def test_all_chapters_minutes():
    for chapter in chapters():
        assert chapter.minutes == sum(s.minutes for s in chapter.steps)
    total = sum(chapter.minutes for chapter in chapters())
    assert f"All ten chapters in full are {total} minutes." in GUIDE


# --- editors ----------------------------------------------------------------------


def read_jsonc(name):
    text = re.sub(r"^\s*//.*$", "", (ROOT / name).read_text(), flags=re.M)
    return json.loads(text)


def test_editor_files_are_json_with_comments_and_in_git():
    names = [".vscode/tasks.json", ".vscode/settings.json",
             ".vscode/extensions.json", ".devcontainer/devcontainer.json"]
    for name in names:
        assert read_jsonc(name)
        assert subprocess.run(["git", "check-ignore", "-q", name],
                              cwd=ROOT).returncode == 1, f"git ignores {name}"
    container = read_jsonc(names[3])
    assert container["image"].startswith("mcr.microsoft.com/devcontainers/base:")
    script = (ROOT / "workbook").read_text()
    for package in re.findall(r'(?:needed|useful)="\$\w+ (\S+)"', script):
        if package != "python3":  # python3-venv brings it
            assert package in container["postCreateCommand"], package


def test_problem_matcher_takes_what_check_prints(implementation, workbook):
    mine = implementation("01")
    mine.replace("numerics.h", "constexpr float kMax = 57344;",
                 "constexpr float kMax = no_such_name;")
    task, = [t for t in read_jsonc(".vscode/tasks.json")["tasks"]
             if t["label"] == "check"]
    assert task["command"] == "./workbook check"
    pattern = task["problemMatcher"]["pattern"]
    text = workbook("check", "01", "--impl", mine.folder).stdout
    found, = re.finditer(pattern["regexp"], text, re.M)
    file, line = found[pattern["file"]], int(found[pattern["line"]])
    assert (ROOT / file).samefile(mine.folder / "numerics.h")
    assert line == mine.line_of("numerics.h", "no_such_name")


@pytest.mark.full
def test_clangd_reads_the_flags_of_a_learners_copy(tmp_path):
    checkout = copy_checkout(tmp_path / "workbook")
    subprocess.run([checkout / "workbook", "check", "01"], cwd=checkout,
                   stdout=subprocess.DEVNULL)
    mine = checkout / "my/01_headeronly_types"
    entries = json.loads((mine / "compile_commands.json").read_text())
    assert str(mine / "headeronly_types.cpp") in \
        [entry["file"] for entry in entries]


# --- the archive --------------------------------------------------------------------


def test_archive_needs_a_folder(workbook):
    done = workbook("archive", "/nowhere/workbook.tar")
    assert done.returncode == 2
    assert "FILE: there is no folder /nowhere" in done.stderr


def test_archive_writes_over_no_device(workbook, tmp_path):
    for file, what in ((os.devnull, "a device"), (tmp_path, "a folder")):
        done = workbook("archive", file)
        assert done.returncode == 2
        assert f"FILE: {file} is {what}, where a file is expected" in done.stderr


@pytest.mark.full
def test_archive_names_what_it_cannot_read(tmp_path):
    """A file that git tracks is a named pipe here, another one is gone."""
    folder = copy_checkout(tmp_path / "workbook")
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", "-C", folder, *words], check=True)
    (folder / "LICENSE").unlink()
    (folder / "CHANGELOG.md").unlink()
    os.mkfifo(folder / "CHANGELOG.md")
    words = [folder / "workbook", "archive", "x.tar"]
    environment = {**os.environ, "PIP_NO_INDEX": "1",
                   "GIT_INDEX_FILE": "/none"}  # as where git runs this
    done = subprocess.run(words, text=True, capture_output=True, cwd=folder, timeout=60,
                          env=environment)
    assert done.returncode == 2
    assert "CHANGELOG.md is a named pipe, where a file is expected" in done.stderr
    (folder / "CHANGELOG.md").unlink()
    done = subprocess.run(words, text=True, capture_output=True, cwd=folder, timeout=60,
                          env=environment)
    assert "Left out, since they are not here: CHANGELOG.md, LICENSE; git checkout " \
        "brings them back" in done.stderr, done.stderr


@pytest.mark.full
def test_archive_sets_up_without_a_network(workbook, tmp_path):
    """Without the large parts; torch is the one of TORCH_ROOT."""
    file = tmp_path / "workbook.tar"
    done = workbook("archive", file, *(
        word for part in ("torch", "hub", "cuda") for word in
        ("--without", part)))
    assert done.returncode == 0, done.stderr
    with tarfile.open(file) as tar:
        tar.extractall(tmp_path)
    folder = tmp_path / "workbook"
    assert "g++" in (folder / "offline/packages.txt").read_text()
    alone = ["unshare", "-n"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
        pytest.skip("no network name space here, which root may make")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path),
                   "TORCH_ROOT": str(torch_root()),
                   "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run([*alone, folder / "workbook", "list"], text=True,
                          env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "not possible" not in done.stderr, done.stderr
    assert "01 Header-only types" in done.stdout
    done = subprocess.run([*alone, folder / ".venv/bin/python", "-c",
                           "import pytest, xdist; print(pytest.__file__)"],
                          env=environment, text=True, capture_output=True)
    assert str(folder) in done.stdout, done.stderr
