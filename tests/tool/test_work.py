"""hint, diff, reset, new, grade, and watch mode in a pseudo-terminal: the real
tool, in a copy of the checkout."""

import html
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import termios
import time

import psutil
import pytest

import transcript
from base.project import ROOT
from base.sheets import Chapter, find_chapter, source_files
from learn import progress
from learn.checking.verdict import CALLED, PASS
from support import copy_checkout, ended, terminal, until
from upkeep.commands import grade
from upkeep.commands.new import find_objection


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return copy_checkout(tmp_path_factory.mktemp("checkout") / "workbook")


@pytest.fixture
def latin_1(tmp_path):
    """Return a file of 00 in another repository, with a byte that is no UTF-8."""
    file = tmp_path / "mine.cpp"
    solution = find_chapter("00").solution / "first_extension.cpp"
    file.write_bytes(solution.read_bytes() + b"// r\xe9sum\xe9\n")
    return file


def test_reset_keeps_every_byte_and_what_a_link_leads_to(tool, checkout, latin_1):
    before = latin_1.read_bytes()
    tool("reset", "00")
    mine = checkout / "my/00_first_extension/first_extension.cpp"
    mine.unlink()
    mine.symlink_to(latin_1)
    done = tool("reset", "00.1")
    assert "Step 00.1 of my/00_first_extension/first_extension.cpp is" in done.stdout
    kept = checkout / re.search(r"kept in (\S+)", done.stdout)[1] / mine.name
    assert latin_1.read_bytes() == kept.read_bytes() == before
    assert not mine.is_symlink()
    mine = mine.rename(checkout / "first_extension.cpp")
    shutil.rmtree(checkout / "my/00_first_extension")  # the tests below begin with 01
    assert mine.read_bytes().endswith(b"// r\xe9sum\xe9\n")
    assert b"TODO(00.1)" in mine.read_bytes()


@pytest.mark.parametrize("link", ["the folder", "a file in it"])
def test_reset_keeps_what_a_relative_link_leads_to(tool, checkout, link):
    tool("reset", "00")
    mine = checkout / "my/00_first_extension"
    file = mine / "first_extension.cpp"
    file.write_text("// mine\n")
    if link == "the folder":
        mine.rename(checkout / "real")
        mine.symlink_to("../real")
        real = checkout / "real" / file.name
    else:
        real = file.rename(checkout / "real.cpp")
        file.symlink_to("../../real.cpp")
    done = tool("reset", "00")
    kept = checkout / re.search(r"kept in (\S+)", done.stdout)[1] / file.name
    assert kept.read_text() == real.read_text() == "// mine\n"
    assert not mine.is_symlink() and "TODO(00.1)" in file.read_text()
    shutil.rmtree(mine)


def test_reset_keeps_what_another_disk_is_to_have(tool, checkout):
    tool("reset", "00")
    kept = checkout / "my/.backup"
    shutil.rmtree(kept)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        kept.symlink_to(folder)
        file = checkout / "my/00_first_extension/first_extension.cpp"
        file.write_text("// mine\n")
        done = tool("reset", "00")
        assert "is the starter again" in done.stdout, done
        of_mine = kept.glob(f"*/{file.name}")
        assert [path.read_text() for path in of_mine] == ["// mine\n"]
        assert "TODO(00.1)" in file.read_text()
        kept.unlink()
    shutil.rmtree(file.parent)


@pytest.fixture
def tool(checkout):
    def call(*arguments, cwd=checkout):
        return subprocess.run(
            [checkout / "workbook",
             *(a if isinstance(a, bytes) else str(a) for a in arguments)], cwd=cwd,
            text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=600)
    return call


# --- what stands in place of a file or a folder -------------------------------------


@pytest.fixture
def begun(tool, checkout):
    """Make the learner's copy of chapter 00, and remove it after the test."""
    tool("reset", "00")
    mine = checkout / "my/00_first_extension"
    yield mine
    if mine.is_symlink():
        mine.unlink()
    shutil.rmtree(mine, ignore_errors=True)


SPECIAL = {"a named pipe": os.mkfifo,
           "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
           "a device": lambda path: path.symlink_to("/dev/zero")}


@pytest.mark.parametrize("what, name", [
    pytest.param(what, name, marks=[] if name == "notes.h" else pytest.mark.full)
    for what in SPECIAL
    for name in ("first_extension.cpp", "CMakeLists.txt", "notes.h")])
def test_what_a_read_would_wait_for_is_named(tool, begun, what, name):
    """It is left as it is, and the rest of the tool goes on."""
    (begun / name).unlink(missing_ok=True)
    SPECIAL[what](begun / name)
    again = "" if name == "notes.h" else \
        ", and ./workbook check 00 brings the starter's"
    said = f"workbook: my/00_first_extension/{name} is {what}, where a file is " \
        f"expected: remove it{again}\n"
    for words in (["check", "00"], ["diff", "00", "--all"], ["reset", "00.1"], []):
        done = tool(*words)
        assert (done.returncode, done.stderr) == (2, said), (words, done)
    done = tool("check", "00", "--impl", begun)
    assert done.stderr == said, done
    assert tool("list").returncode == 0
    assert "my/00_first_extension is the starter again" in tool("reset", "00").stdout


@pytest.mark.parametrize("name", ["first_extension.cpp", "CMakeLists.txt"])
@pytest.mark.parametrize("odd, said", [
    ("folder", "a folder, where a file is expected: move it away"),
    ("UTF-16", "saved as UTF-16, which compilers do not read: save it as UTF-8")])
def test_what_is_no_source_is_named(tool, begun, odd, said, name):
    text = (begun / name).read_text()
    (begun / name).unlink()
    if odd == "folder":
        (begun / name).mkdir()
    else:
        (begun / name).write_text(text, encoding="UTF-16")
    for words in (["check", "00"], ["check", "00", "--impl", begun]):
        done = tool(*words)
        assert (done.returncode, done.stderr) == (
            2, f"workbook: my/00_first_extension/{name} is {said}\n"), (words, done)


@pytest.mark.parametrize("name", ["chapters", "solutions"])
def test_a_folder_of_the_workbook_that_is_gone_is_named(tool, checkout, name):
    (checkout / name).rename(checkout / "kept")
    done = tool("list")
    (checkout / "kept").rename(checkout / name)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done
    assert f"there is no {name}/00" in done.stderr and \
        done.stderr.endswith(f": bring it back, for example by git restore {name}\n")


def test_grade_names_what_a_read_would_wait_for(tool, tmp_path):
    solution = find_chapter("00").solution
    copy = tmp_path / "anna" / solution.name
    shutil.copytree(solution, copy)
    (copy / "first_extension.cpp").unlink()
    os.mkfifo(copy / "first_extension.cpp")
    tool("grade", tmp_path / "anna", "--json", tmp_path / "grades.json")
    row, = json.loads((tmp_path / "grades.json").read_text())
    assert (row["kind"], row["message"]) == ("could not run", [
        f"{copy}/first_extension.cpp is a named pipe, where a file is expected: "
        "remove it"])


def test_a_link_in_place_of_a_source_is_kept(tool, begun, tmp_path):
    """The link is kept even if what it leads to is not there, as on a disk that is not
    mounted."""
    file = begun / "first_extension.cpp"
    file.unlink()
    file.symlink_to(tmp_path / "mine.cpp")
    said = f"first_extension.cpp is a link to {tmp_path}/mine.cpp, which is not " \
        "there: bring that back, or remove the link, and ./workbook check 00 brings"
    for words in (["check", "00"], ["diff", "00"], ["reset", "00.1"], []):
        done = tool(*words)
        assert done.returncode == 2 and said in done.stderr, (words, done)
        assert file.is_symlink()
    (tmp_path / "mine.cpp").write_text("// mine\n")
    assert "-// mine" in tool("diff", "00", "--all").stdout


@pytest.mark.parametrize("name", ["my", "my/00_first_extension", "my/.backup"])
def test_a_link_in_place_of_a_folder_is_named(tool, begun, checkout, name):
    folder, kept = checkout / name, checkout / "kept"
    folder.mkdir(exist_ok=True)
    folder.rename(kept)
    try:
        for target, said in (("gone", f"{name} is a link to gone, which is not there: "
                                      "bring that back, or remove the link\n"),
                             (checkout / "LICENSE", f"{name} is a file, where a folder "
                                                    "is expected: move it away\n")):
            folder.symlink_to(target)
            done = tool("reset", "00.1")
            folder.unlink()
            assert (done.returncode, done.stderr) == (2, f"workbook: {said}")
    finally:
        kept.rename(folder)


def test_reset_keeps_links_that_lead_nowhere(tool, begun, checkout):
    """Such links are compile_commands.json without build/, and the lock of an
    editor."""
    (begun / "compile_commands.json").symlink_to("/nowhere/compile_commands.json")
    (begun / ".#first_extension.cpp").symlink_to("me@here.1234:5678")
    done = tool("reset", "00.1")
    assert done.returncode == 0, done.stderr
    kept = checkout / re.search(r"kept in (\S+)", done.stdout)[1]
    assert os.readlink(kept / ".#first_extension.cpp") == "me@here.1234:5678"


# --- hint, diff, reset, new ----------------------------------------------------------


def test_hints_come_one_at_a_time(tool):
    texts = [tool("hint", "01.2").stdout for _ in range(4)]
    assert "hint 1 of 2" in texts[0] and "hint 2 of 2" in texts[1]
    assert "it shows the solution" in texts[1]
    assert "bits += 0x7fff" in texts[2] and "bits += 0x7fff" not in texts[0]
    assert texts[3] == texts[0]
    assert "it has 01.1 to" in tool("hint", "01.9").stderr


@pytest.fixture
def chapters_done(monkeypatch, tmp_path):
    """Return a function that makes chapters begun, and some of them done, each used
    later than the one before it."""
    def make(begun, done):
        for number in begun:
            folder = tmp_path / number
            folder.mkdir()
            time_ = 1e9 + 10 * begun.index(number)
            os.utime(folder, (time_, time_))
        monkeypatch.setattr(Chapter, "mine", property(
            lambda chapter: tmp_path / chapter.number))
        monkeypatch.setattr(progress, "is_done", lambda c: c.number in done)
    return make


@pytest.mark.parametrize("begun, done, wanted", [
    ([], "", "00"), (["05"], "", "05"), (["05"], ["05"], "06"),
    (["00", "05", "01"], ["00"], "01"),  # in the order in which they were used
    (["00", "01", "05"], ["00", "05"], "06"), (["01", "09"], ["09"], None),
    (["06", "05"], ["05", "06"], "07")])
def test_where_i_am(chapters_done, capsys, begun, done, wanted):
    chapters_done(begun, done)
    current = progress.current_chapter()
    assert (current and current.number) == wanted
    if wanted is None:
        progress.say_next(None)
        said = capsys.readouterr().out
        assert "That was the last chapter." in said
        assert "You have not done 00, 01, 02" in said


def test_diff_then_reset_keeps_what_was_written(tool, checkout):
    tool("reset", "01")
    file = checkout / "my/01_headeronly_types/numerics.h"
    file.write_text(file.read_text() + "// mine\n")
    done = tool("diff", "01")  # no step is done, and no solution shown
    assert done.returncode == 1 and "-// mine" in done.stdout
    assert done.stdout.count("@@") == 2 and "./workbook diff 01.1" in done.stdout
    assert "+  bits += 0x7fff" in tool("diff", "01", "--all").stdout
    done = tool("reset", "01")
    kept = checkout / re.search(r"kept in (\S+)", done.stdout)[1] / "numerics.h"
    assert kept.read_text().endswith("// mine\n")
    starter = find_chapter("01").exercise / "numerics.h"
    assert file.read_text() == starter.read_text()
    shutil.copytree(find_chapter("01").solution, file.parent,
                    dirs_exist_ok=True)
    done = tool("diff", "01", "--all")
    assert done.returncode == 0
    assert done.stdout == "yours is the solution of 01, to the letter\n"
    assert tool("diff", "01.2").stdout == \
        "yours is the solution of 01.2, to the letter\n"


def test_what_an_editor_leaves_is_no_source(tmp_path):
    for name in ("sizes.h", "sizes.h~", "#sizes.h#", ".sizes.h.swp", "sizes.h.orig"):
        (tmp_path / name).touch()
    assert [path.name for path in source_files(tmp_path)] == ["sizes.h"]


def test_of_one_step_only(tool, checkout):
    """diff shows it, though it is not done; reset undoes it, and nothing else."""
    tool("reset", "01")
    file = checkout / "my/01_headeronly_types/numerics.h"
    starter = file.read_text()
    solution = (find_chapter("01").solution / "numerics.h").read_text()
    file.write_text(solution)
    assert tool("diff", "01.5").stdout.count("@@") == 2  # one hunk
    done = tool("reset", "01.2")
    assert "Step 01.2 of my/01_headeronly_types/numerics.h" in done.stdout
    text = file.read_text()
    assert "TODO(01.2)" in text and "TODO(01.1)" not in text
    kept = checkout / re.search(r"kept in (\S+)", done.stdout)[1]
    assert (kept / "numerics.h").read_text() == solution
    for step in ("01.1", "01.3", "01.4"):
        tool("reset", step)
    assert file.read_text() == starter


@pytest.mark.full
def test_a_step_that_is_given_says_so(tool, checkout):
    """list and grade count it; the next one can be done; reset takes the mark away."""
    tool("reset", "01")
    file = checkout / "my/01_headeronly_types/numerics.h"
    starter = file.read_text()
    for step in ("01.1", "01.2", "01.2"):
        done = tool("give", step)
        assert f"Step {step} of my/01_headeronly_types/numerics.h" in done.stdout
    assert file.read_text().count("given") == 2
    kept = checkout / re.search(r"kept in (\S+)", done.stdout)[1]
    assert (kept / "numerics.h").read_text() == file.read_text()
    assert "01.1 ok  01.2 ok  01.3 <-" in tool("check", "01").stdout
    assert "2 of 7 steps, 2 given" in tool("list").stdout
    rows = checkout / "rows.json"
    said = tool("grade", "my", "--json", rows).stdout
    assert "(given: 01.1, 01.2)" in re.sub(r"\s+", " ", said)
    assert json.loads(rows.read_text())[0]["given"] == ["01.1", "01.2"]
    for step in ("01.1", "01.2"):
        tool("reset", step)
    assert file.read_text() == starter
    done = tool("give", "01")
    assert done.returncode == 2 and "NN.k names one step" in done.stderr


def test_a_result_of_all_benchmarks_is_no_one_file(tool, tmp_path):
    done = tool("bench", "--json", tmp_path / "all.json")
    assert done.returncode == 2 and "--json is for one chapter" in done.stderr


def test_folders_of_the_tool_are_no_packages():
    assert [find_objection(name) for name in ("learn", "testing")] == [None, None]


@pytest.mark.parametrize("name, number, message", [
    ("torch", "04", "'torch' cannot be the name of a package"),
    ("My-Ops", "04", "'My-Ops' cannot be the name of a package"),
    ("class", "04", "'class' cannot be the name of a package: it means"),
    ("std", "04", "'std' cannot be the name of a package: it means"),
    ("json", "08", "Python has a module of this name"),
    ("numpy", "04", "there is a package of this name, which yours would replace"),
    ("markdown_it_py", "04", "there is a package of this name"),
    ("test", "04", "there is a package of this name"),
    ("tests", "04", "a project has a folder or a file of this name"),
    ("a", "08", "'a' cannot be the name of a package: two or more"),
    ("my_", "08", "'my_' cannot be the name of a package"),
    ("my_ops", "03", "chapter 03 is no template; these are: 04, 07"),
    ("my_ops", "99", "there is no chapter 99")])
def test_new_refuses(tool, tmp_path, name, number, message):
    done = tool("new", name, "--from", number, tmp_path / "new")
    assert done.returncode == 2 and message in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("number, old, command", [
    ("04", r"boxed_kernels|wb04|\bwb\b", "pip install "),
    ("07", r"cuda_activation_kernel|wb07|\bwb\b", "pip install "),
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


@pytest.mark.parametrize("name", ["my_kernels", "my_activation"])
def test_new_says_one_name_to_the_hub(tool, tmp_path, name):
    folder = tmp_path / "new"
    assert tool("new", name, "--from", "08", folder).returncode == 0
    found = {}
    for path in folder.rglob("*"):
        for name_there in re.findall(
                r"your-name/([\w-]+)", path.read_text() if path.is_file()
                else ""):
            found.setdefault(path.name, set()).add(name_there)
    hub = name.replace("_", "-")
    assert found == {file: {hub} for file in
                     ("build.toml", "conftest.py", "CARD.md")}
    assert f'\nname = "{hub}"\n' in (folder / "build.toml").read_text()
    assert (folder / "torch-ext" / name / "__init__.py").exists()


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
    assert rows["good"]["kind"] == "pass"
    assert (rows["crashes"]["kind"], rows["crashes"]["step"]) == \
        ("crash", "01.2")
    assert rows["hangs"]["kind"] == "timeout"
    assert rows["eats"]["kind"] == "out of memory"
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.full
def test_grade_an_odd_entry_costs_only_itself(tool, tmp_path):
    """An empty folder, a file, a name that writes to the terminal, a daemon that
    holds the check's streams; and the results are written as they come."""
    solution = find_chapter("00").solution
    people = ["daemon", "empty", "esc\033[31m", "good"]
    for who in people:
        if who == "empty":
            (tmp_path / who).mkdir()
        else:
            shutil.copytree(solution, tmp_path / who / solution.name)
    (tmp_path / "README.txt").touch()
    with open(tmp_path / "daemon" / solution.name / "CMakeLists.txt", "a") as file:
        file.write('execute_process(COMMAND sh -c "setsid sleep 4321 '
                   '>/dev/null 2>&1 &")\n')
    start = time.monotonic()
    done = tool("grade", tmp_path / "README.txt", *[tmp_path / who for who in people],
                "--json", tmp_path / "grades.json")
    kinds = {r["who"]: r["kind"] for r in
             json.loads((tmp_path / "grades.json").read_text())}
    assert kinds == {"README.txt": "no chapter", "daemon": "pass",
                     "empty": "no chapter", "esc\033[31m": "pass", "good": "pass"}
    assert time.monotonic() - start < 120 and "\033" not in done.stdout
    assert not [p for p in psutil.process_iter(["cmdline"])  # None: it has ended
                if "4321" in (p.info["cmdline"] or [])]
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_grade_tells_the_first_line_of_a_message():
    row = {"who": "ann", "chapter": "02", "steps": {"02.4": "fail"}, "took": 1.0,
           "kind": "test", "step": "02.4", "message": ["slot 0 leaks\n  drawing"]}
    assert grade.describe(row).endswith("0/1       1.0  test 02.4: slot 0 leaks")


@pytest.mark.full
def test_grade_a_name_that_is_no_utf_8(tool, tmp_path):
    """It is shown with its bytes, and so is it in the JSON, which any reader takes."""
    solution = find_chapter("00").solution
    person = os.fsencode(tmp_path) + b"/caf\xe9"
    shutil.copytree(os.fsencode(solution), person + b"/" + solution.name.encode())
    empty = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(empty)
    shutil.copytree(solution, tmp_path / "good" / solution.name)
    odd = os.fsencode(tmp_path / "good" / solution.name) + b"/r\xe9sum\xe9.txt"
    with open(odd, "w"):
        pass
    grades = tmp_path / "grades.json"
    done = tool("grade", person, empty, tmp_path / "good", "--json", grades)
    assert "Traceback" not in done.stderr, done.stderr
    text = grades.read_bytes().decode("ascii")
    assert "\\ud" not in text
    rows = {row["who"]: row for row in json.loads(text)}
    assert {who: row["kind"] for who, row in rows.items()} == {
        "caf\\xe9": "could not run", "\\xff": "no chapter", "good": "pass"}
    message, = rows["caf\\xe9"]["message"]
    assert message.endswith("which is no UTF-8: rename it"), message
    assert "caf\\xe9" in done.stdout and "\\xff" in done.stdout


REPORT = """
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
static void write_report(const char* name = "00.1 all is well") {
  std::ifstream file("/proc/self/cmdline");
  const std::string words(std::istreambuf_iterator<char>(file), {});
  const std::string path = words.c_str() + words.find("--out=") + 6;
  std::ofstream(path)
      << "<doctest><TestCase name=\\"" << name << "\\"></TestCase></doctest>";
}
__attribute__((constructor)) static void forge() {
  %s
}
"""
FORGED = {  # what is added to the C++ file, and what this becomes in it
    "exits": ("write_report(); _exit(0);", {}),
    "says_the_end": ('write_report(); (void)!write(1, "\\0ended 0\\n", 9); sleep(1); '
                     "_exit(0);", {}),
    "writes_later": ("if (fork() == 0) { for (int i = 0; i < 300; ++i) "
                     "{ write_report(); usleep(10000); } _exit(0); }",
                     {"(1 + std::exp": "(2 + std::exp"}),
    "names_no_case": ('write_report("00.1"); _exit(0);', {}),
    "names_another": ('write_report("77.1 foo"); _exit(0);', {}),
}
KILLS = """
import os
parent = os.getpid()
while parent > 1:
    words = open(f"/proc/{parent}/cmdline").read().split("\\0")
    if "--json" in words and "check" in words:
        out = os.open(f"/proc/{parent}/fd/1", os.O_WRONLY)
        os.write(out, b'{"kind": "pass", "steps": {"00.1": "pass"}, "message": []}')
        os.kill(parent, 9)
    parent = int(open(f"/proc/{parent}/stat").read().rpartition(")")[2].split()[1])
"""


def test_grade_tells_two_folders_of_one_name_apart(tmp_path):
    from upkeep.commands.grade import find_submissions
    name = find_chapter("00").name
    folders = [tmp_path / who / "my" for who in ("a", "b")]
    for folder in folders:
        (folder / name).mkdir(parents=True)
    assert [who for who, _, _ in find_submissions(folders)] == [str(f) for f in folders]
    assert [who for who, _, _ in find_submissions(folders[:1])] == ["my"]


@pytest.mark.parametrize("made, given, said", [
    ("anna/my/00_first_extension/", "anna", "itself: grade {}/anna/my"),
    ("anna/w/my/00_first_extension/", "anna", "itself: grade {}/anna/w/my"),
    ("room/anna/00_first_extension/ room/ben/01_headeronly_types/", "room",
     "itself: grade {}/room/*"),
    ("anna/00_First_Extension/", "anna", "00_First_Extension is the name of no"),
    ("anna/first_extension.cpp", "anna", "lie in a folder such as 00_"),
    ("anna/00_first_extension/a.cpp", "anna/00_first_extension/a.cpp", "is no folder"),
    ("anna/", "anna", "has no folder such as 00_first_extension")])
def test_grade_says_where_the_chapters_are(tmp_path, made, given, said):
    from upkeep.commands.grade import check, find_submissions
    for name in made.split():
        path = tmp_path / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True)
        if not name.endswith("/"):
            path.touch()
    (_, number, folder), = find_submissions([tmp_path / given])
    message, = check(number, folder, 1, 1)["message"]
    assert message.endswith(said.format(tmp_path)) or said in message


def test_grade_leaves_out_no_folder_that_looks_like_a_chapter(tmp_path):
    from upkeep.commands.grade import find_submissions
    for name in ("00_first_extension", "01_headeronly_typos", "notes"):
        (tmp_path / "anna" / name).mkdir(parents=True)
    assert [(who, number, folder.name) for who, number, folder in
            find_submissions([tmp_path / "anna"])] == [
        ("anna", "00", "00_first_extension"), ("anna", "", "01_headeronly_typos")]
    who, = {who for who, _, _ in find_submissions([tmp_path / "anna/../anna/."])}
    assert who == "anna"


def test_the_page_on_grading_has_each_kind_of_verdict():
    page = (ROOT / "docs/instructor.md").read_text()
    missing = [kind for kind in (PASS, *CALLED) if f"`{kind}`" not in page]
    assert not missing, missing


@pytest.mark.full
def test_grade_that_is_terminated_leaves_no_process(tmp_path):
    solution = find_chapter("00").solution
    shutil.copytree(solution, tmp_path / "anna" / solution.name)
    with open(tmp_path / "anna" / solution.name / "CMakeLists.txt", "a") as file:
        file.write("execute_process(COMMAND sleep 4323)\n")
    process = subprocess.Popen([ROOT / "workbook", "grade", tmp_path / "anna"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def sleeping():
        return [p for p in psutil.process_iter(["cmdline"])
                if p.info["cmdline"] == ["sleep", "4323"]]
    end = time.monotonic() + 120  # the chapter's test is built before
    while not sleeping():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.1)
    process.terminate()
    assert b"workbook: stopped" in process.communicate(timeout=20)[0]
    assert not sleeping()


@pytest.mark.full
def test_grade_survives_odd_names_links_and_results(tool, tmp_path):
    """They cost only themselves: a loop of links, and one that leads nowhere; a name
    that begins like an option, and one that is empty; JSON behind a link, in a pipe,
    and in a file that has results."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "-dangling").symlink_to("gone")
    done = tool("grade", "--", "-dangling", cwd=tmp_path)
    assert re.search("^-dangling +0/0 .*no chapter: -dangling is", done.stdout, re.M)
    for words in (["grade", ""], ["grade", "loop", "--json", ""]):
        assert "an argument is empty" in tool(*words).stderr
    solution = find_chapter("00").solution
    shutil.copytree(solution, tmp_path / "-p" / solution.name)
    kept, link = tmp_path / "kept.json", tmp_path / "link.json"
    kept.write_text("before")
    link.symlink_to(kept)
    done = tool("grade", "loop", "./-p", "--json", link, cwd=tmp_path)
    assert "Traceback" not in done.stderr, done.stderr
    assert link.is_symlink()
    assert [row["kind"] for row in json.loads(kept.read_text())] == [
        "no chapter", "pass"]
    shutil.copytree(find_chapter("00").exercise, tmp_path / "a\nb" / solution.name)
    done = tool("grade", "./a\nb", cwd=tmp_path)
    assert r"could not run: a\nb/00_fir" in done.stdout
    source = tmp_path / "-p/00_first_extension/first_extension.cpp"
    before = source.read_text()
    done = tool("grade", "./-p", "--json", source, cwd=tmp_path)
    assert done.returncode == 2 and "lies in ./-p, which is graded" in done.stderr
    assert source.read_text() == before
    done = tool("grade", tmp_path / "loop", "--json", "/dev/stdout")
    row, = json.loads(done.stdout[done.stdout.index("[\n"):])
    assert row["kind"] == "no chapter"
    for option in ("--seconds", "--memory"):
        done = tool("grade", tmp_path, option, "-3")
        assert "must be a whole number above 0, got -3" in done.stderr


@pytest.mark.full
def test_grade_does_not_believe_what_a_submission_writes(tool, tmp_path):
    """It writes the report of the tests, or the output of the check, itself."""
    solution = find_chapter("00").solution
    people = [*FORGED, "kills", "zoe"]
    for who in people:
        shutil.copytree(solution, tmp_path / who / solution.name)
    for who, (code, changes) in FORGED.items():
        file = tmp_path / who / solution.name / "first_extension.cpp"
        text = file.read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        file.write_text(REPORT % code + text)
    (tmp_path / "kills.py").write_text(KILLS)
    with open(tmp_path / "kills" / solution.name / "CMakeLists.txt", "a") as file:
        file.write(f"execute_process(COMMAND python3 {tmp_path}/kills.py)\n")
    tool("grade", *(tmp_path / who for who in people), "--json", tmp_path / "g.json")
    rows = {r["who"]: r for r in json.loads((tmp_path / "g.json").read_text())}
    kinds = {who: row["kind"] for who, row in rows.items()}
    assert kinds.pop("zoe") == "pass"
    assert kinds.pop("kills") == "could not run"
    assert rows["kills"]["message"] == ["the check was ended by SIGKILL"]
    assert list(kinds) == list(FORGED) and "pass" not in kinds.values(), kinds


@pytest.mark.full
def test_watch(checkout, tool):
    tool("reset", "01")
    child = terminal(checkout)
    before = termios.tcgetattr(child.child_fd)
    until(child, "q quit")
    child.send("h")
    until(child, "hint 1 of 2")
    file = checkout / "my/01_headeronly_types/numerics.h"
    text = file.read_text()
    file.unlink()  # some editors save so
    time.sleep(0.5)
    file.write_text(text + "no C++;\n")
    until(child, "no C++;")
    until(child, "q quit")
    child.send("f")
    until(child, "FAILED: ")  # ninja's
    solution = find_chapter("01").solution / "numerics.h"
    file.write_text(solution.read_text())
    until(child, "01.1 Read a bfloat16: pass")
    until(child, "01.1 ok")
    until(child, "Step 01.5")
    file.write_text(solution.read_text() + "// tidier\n")
    until(child, "q quit")
    child.send("n")
    until(child, "02.1")
    until(child, "README.md:1\r")
    child.send("p")
    until(child, "Step 01.5")
    child.send("n")
    until(child, "Step 02.1")
    until(child, "README.md:1\r")
    file.write_text(solution.read_text() + "// of another chapter\n")
    until(child, "checking 01")
    until(child, "q quit")
    child.send("d")
    until(child, "--- yours/")
    child.send("q")
    status, text = ended(child)
    assert status == 0 and "Your work is in my/" in text
    assert termios.tcgetattr(child.child_fd)[3] == before[3]


@pytest.mark.full
def test_watch_goes_back_to_the_chapter_that_a_save_elsewhere_interrupted(
        checkout, tool):
    tool("reset", "00")
    tool("reset", "02")  # opened last
    child = terminal(checkout, NO_COLOR="1")
    until(child, "Step 02.1")
    until(child, "q quit")
    file = "00_first_extension/first_extension.cpp"
    shutil.copy(ROOT / "solutions" / file, checkout / "my" / file)
    until(child, "checking 00")
    until(child, "00.1 Fill in the line: pass")
    until(child, "Step 02.1")
    child.send("q")
    assert ended(child)[0] == 0


@pytest.mark.full
def test_two_files_saved_at_once_are_one_check(checkout, tool):
    time.sleep(1)  # an earlier test may have opened 02; whole seconds are compared
    tool("reset", "01")
    child = terminal(checkout, NO_COLOR="1")
    until(child, "q quit")
    for name in ("numerics.h", "sizes.h"):
        file = checkout / "my/01_headeronly_types" / name
        shutil.copy(find_chapter("01").solution / name, file)
    until(child, "checking")
    said = until(child, "q quit")
    assert "Step 01.6" in said, said
    time.sleep(0.5)
    shutil.copytree(find_chapter("01").solution, file.parent, dirs_exist_ok=True)
    said += until(child, "Step 02.1")
    assert said.count("checking") == 1, said
    file.write_text(file.read_text() + "// tidier\n")  # in a finished chapter
    until(child, "checking 01")
    until(child, "all 7 steps pass")
    child.send("q")
    assert ended(child)[0] == 0


@pytest.mark.full
def test_the_first_five_minutes_are_as_the_page_shows_them(checkout):
    """They are compared from the first step on; test_setup compares what comes
    before."""
    shutil.rmtree(checkout / "my", ignore_errors=True)
    for old in (checkout / "build").rglob("verdict.json"):
        old.unlink()
    (checkout / "build/hints.json").unlink(missing_ok=True)
    (checkout / "my").mkdir()  # so no solution is measured first
    shown = (ROOT / "docs/pictures/first_five_minutes.txt").read_text()
    now = transcript.transcript(transcript.record(checkout), checkout)
    assert now[now.index("Step 00.1"):] == shown[shown.index("Step 00.1"):]
    picture = (ROOT / "docs/pictures/workbook.svg").read_text()
    assert "@font-face" not in picture  # it would need a network
    words = html.unescape(re.sub(r"<.*?>|\s", "", picture))
    words = "".join(words.split())  # also what cannot be broken
    verdict = now[now.index("-- hh:mm:ss"):now.index("# key h")]
    for line in verdict.splitlines():
        assert "".join(line.split()) in words, line


@pytest.mark.full
def test_interrupt_in_watch_leaves_the_terminal_as_it_was(checkout):
    child = terminal(checkout)
    before = termios.tcgetattr(child.child_fd)
    until(child, "q quit")
    child.send("\x03")
    assert ended(child)[0] == 0
    assert termios.tcgetattr(child.child_fd)[3] == before[3]
