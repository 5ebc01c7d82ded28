"""hint, diff, reset, new, grade, and watch mode in a pseudo-terminal: the real
tool, in a copy of the checkout."""

import html
import json
import os
import re
import shutil
import subprocess
import termios
import time

import pytest
import transcript
from conftest import ROOT, Terminal
from workspace import find_chapter


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout, with this one's environment."""
    folder = tmp_path_factory.mktemp("checkout") / "workbook"
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
        capture_output=True, check=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


@pytest.fixture
def tool(checkout):
    def call(*arguments):
        return subprocess.run(
            [checkout / "workbook", *map(str, arguments)], cwd=checkout,
            text=True, capture_output=True, stdin=subprocess.DEVNULL)
    return call


def test_hints_come_one_at_a_time(tool):
    texts = [tool("hint", "01.2").stdout for _ in range(4)]
    assert "hint 1 of 2" in texts[0] and "hint 2 of 2" in texts[1]
    assert "it shows the solution" in texts[1]
    assert "bits += 0x7fff" in texts[2] and "bits += 0x7fff" not in texts[0]
    assert texts[3] == texts[0]
    assert "it has 01.1 to" in tool("hint", "01.9").stderr


def test_diff_then_reset_keeps_what_was_written(tool, checkout):
    tool("reset", "02")
    file = checkout / "my/02_stableivalue_conversions/plain.h"
    file.write_text(file.read_text() + "// mine\n")
    done = tool("diff", "02")
    assert done.returncode == 1 and "-// mine" in done.stdout
    done = tool("reset", "02")
    kept = checkout / re.search(r"kept in (\S+)", done.stdout)[1] / "plain.h"
    assert kept.read_text().endswith("// mine\n")
    starter = find_chapter("02").starter / "plain.h"
    assert file.read_text() == starter.read_text()
    shutil.copytree(find_chapter("02").solution, file.parent,
                    dirs_exist_ok=True)
    assert tool("diff", "02").returncode == 0


@pytest.mark.parametrize("name, number, message", [
    ("torch", "04", "'torch' cannot be the name of a package"),
    ("My-Ops", "04", "'My-Ops' cannot be the name of a package"),
    ("class", "04", "'class' cannot be the name of a package"),
    ("my_ops", "03", "chapter 03 is no template; these are: 04, 07"),
    ("my_ops", "99", "there is no chapter 99")])
def test_new_refuses(tool, tmp_path, name, number, message):
    done = tool("new", name, "--from", number, tmp_path / "new")
    assert done.returncode == 2 and message in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("number, old, command", [
    ("04", "boxed_kernels|wb04", "pip install ."),
    ("07", "cuda_activation_kernel|wb07", "pip install ."),
    ("08", r"(?<!community/)activation(?!s\b)|ACTIVATION", "cmake --build")])
def test_new_renames_throughout(tool, tmp_path, number, old, command):
    folder = tmp_path / "some where"
    done = tool("new", "my_ops", "--from", number, folder)
    assert done.returncode == 0, done.stderr
    assert command in done.stdout and "pytest" in done.stdout
    for path in folder.rglob("*"):
        assert not re.search(old, path.name), path
        if path.is_file():
            assert not re.search(old, path.read_text()), path
    (folder / "mine").write_text("")
    done = tool("new", "my_ops", "--from", number, folder)
    assert done.returncode == 2 and "is there already" in done.stderr
    assert (folder / "mine").exists()


@pytest.mark.full
def test_grade_a_hang_and_a_hog_cost_only_themselves(tool, tmp_path):
    chapter = find_chapter("01")
    broken = {"good": "", "crashes": "*(volatile int*)8 = 1;",
              "hangs": "for (volatile int i = 0; i < 1; i = 0) {}",
              "eats": "for (;;) { volatile char* p = new char[1 << 20]; "
                      "for (int i = 0; i < 1 << 20; i += 4096) p[i] = 1; }"}
    for who, code in broken.items():
        folder = tmp_path / who / chapter.name
        shutil.copytree(chapter.solution, folder)
        text = (folder / "numerics.h").read_text()
        assert text.count("  bits += 0x7fff") == 1
        (folder / "numerics.h").write_text(
            text.replace("  bits += 0x7fff", f"  {code} bits += 0x7fff"))
    done = tool("grade", *[tmp_path / who for who in broken], "--memory", 1500,
                "--json", tmp_path / "grades.json")
    assert done.returncode == 1, done.stderr
    rows = {r["who"]: r for r in
            json.loads((tmp_path / "grades.json").read_text())}
    assert rows["good"]["class"] == "pass"
    assert (rows["crashes"]["class"], rows["crashes"]["step"]) == \
        ("crash", "01.2")
    assert rows["hangs"]["class"] == "timeout"
    assert rows["eats"]["class"] == "out of memory"
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.full
def test_watch(checkout, tool):
    tool("reset", "01")
    terminal = Terminal(checkout)
    try:
        before = termios.tcgetattr(terminal.file)
        terminal.until("q quit")
        terminal.press("h")
        terminal.until("hint 1 of 2")
        mine = checkout / "my/01_headeronly_types"
        file = mine / "numerics.h"
        text = file.read_text()
        file.unlink()  # some editors save so
        time.sleep(0.5)
        file.write_text(text + "no C++;\n")
        terminal.until("no C++;", 60)
        terminal.until("q quit")
        terminal.press("f")
        terminal.until("FAILED: ")  # ninja's
        solution = find_chapter("01").solution / "numerics.h"
        file.write_text(solution.read_text())
        terminal.until("01.1 ok")
        terminal.press("n")
        terminal.until("02.1")
        terminal.press("p")
        terminal.press("d")
        terminal.until("--- yours/")
        terminal.press("q")
        assert terminal.end() == 0
        assert "Your work is in my/" in terminal.text
        assert termios.tcgetattr(terminal.file)[3] == before[3]
    finally:
        os.close(terminal.file)


@pytest.mark.full
def test_the_first_five_minutes_are_as_the_page_shows_them(checkout):
    """From the first step on; what comes before is compared in test_setup."""
    shutil.rmtree(checkout / "my", ignore_errors=True)
    for old in (checkout / "build").rglob("verdict.json"):
        old.unlink()
    (checkout / "build/hints.json").unlink(missing_ok=True)
    (checkout / "my").mkdir()  # so no solution is measured first
    shown = (ROOT / "docs/pictures/first_five_minutes.txt").read_text()
    now = transcript.transcript(transcript.record(checkout), checkout)
    assert now[now.index("Step 01.1"):] == shown[shown.index("Step 01.1"):]
    picture = (ROOT / "docs/pictures/workbook.svg").read_text()
    assert "@font-face" not in picture  # it would need a network
    words = html.unescape(re.sub(r"<.*?>|\s", "", picture))
    words = "".join(words.split())  # also what cannot be broken
    verdict = now[now.index("-- hh:mm:ss"):now.index("# key h")]
    for line in verdict.splitlines():
        assert "".join(line.split()) in words, line


@pytest.mark.full
def test_interrupt_in_watch_leaves_the_terminal_as_it_was(checkout):
    terminal = Terminal(checkout)
    try:
        before = termios.tcgetattr(terminal.file)
        terminal.until("q quit")
        terminal.press("\x03")
        assert terminal.end() == 0
        assert termios.tcgetattr(terminal.file)[3] == before[3]
    finally:
        os.close(terminal.file)
