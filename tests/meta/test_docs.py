"""The documentation builds; every snippet, link and reference is found, for a
warning is an error."""

import re
import subprocess
import sys
from fnmatch import fnmatch

import pytest
from conftest import ROOT
from workspace import chapters


@pytest.mark.full
def test_documentation_builds_without_a_warning():
    done = subprocess.run([sys.executable, ROOT / "docs/build.py"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-4000:]
    for chapter in chapters():
        page = ROOT / f"build/docs/docs/html/page_{chapter.number}.html"
        assert page.is_file(), f"docs/{chapter.name}.md has no {{#page_..}}"
    for page in (ROOT / "build/docs/docs/html").glob("*.html"):
        text = page.read_text()  # a table that Doxygen has misread
        assert "ilinebr" not in text and "&lt;/td&gt;" not in text, page.name


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_page_shows_code_only_by_snippet(chapter):
    text = (ROOT / f"docs/{chapter.name}.md").read_text()
    assert "\\snippet solutions/" in text
    assert "```cpp" not in text, "code of a page comes from the solution"


def test_links_in_markdown_exist():
    done = subprocess.run(
        [sys.executable, ROOT / "docs/check_links.py", ROOT], text=True,
        stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stdout


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/index.html").write_text(
        '<a href="index.html#there" id="there"></a><a href="gone.html"></a>'
        '<a href="#nowhere"></a>')
    (tmp_path / "README.md").write_text("# A title\n[x](#a-title) [y](#b)\n")
    done = subprocess.run(
        [sys.executable, ROOT / "docs/check_links.py", tmp_path,
         tmp_path / "site"], text=True, stdout=subprocess.PIPE)
    assert done.returncode == 1
    assert [line.split(": ", 1)[1] for line in done.stdout.splitlines()[:3]] \
        == ["gone.html: no such file", "#nowhere: no such anchor",
            "#b: no such anchor"]


def test_versions_that_agree_are_one_cell():
    sys.path.insert(0, str(ROOT / "docs"))
    from make_tables import by_version
    versions = ["2.10.0", "2.11.0", "2.12.1"]
    assert by_version(versions, ["a", "a", "a"]) == "a"
    assert by_version(versions, ["a", "a", "b"]) == "2.10 to 2.11: a; 2.12: b"


PAGES = sorted((ROOT / "docs").glob("*.md"))
sys.path.insert(0, str(ROOT / "docs"))


def test_the_list_of_what_is_generated_is_complete():
    from make_reference import GENERATED
    results = ROOT / "docs/results"
    for file in results.rglob("*.json"):
        name = str(file.relative_to(results))
        assert any(fnmatch(name, pattern) for pattern in GENERATED), \
            f"docs/make_reference.py: GENERATED has no {name}"
    for _, page, command in GENERATED.values():
        assert any(f"{{#{page}}}" in p.read_text() for p in PAGES), page
        for word in command.split():
            if word.startswith(("./workbook", "common/", "tests/", "docs/")):
                assert (ROOT / word).exists(), command


def test_every_generated_part_is_on_a_page(tmp_path):
    included = {name for page in PAGES for name in re.findall(
        r"\\(?:include\{doc\}|htmlinclude(?:\[block\])?) (\S+)",
        page.read_text())}
    for name in ("make_tables", "make_reference"):
        subprocess.run([sys.executable, ROOT / f"docs/{name}.py", tmp_path,
                        ROOT / "docs/results"], check=True)
    made = {path.name for path in tmp_path.iterdir()}
    assert made and made <= included, made - included


def test_tests_that_pages_name_exist():
    there = "".join(p.read_text() for p in (ROOT / "tests").rglob("*.py"))
    named = [name for page in PAGES
             for name in re.findall(r"`(test_\w+)`", page.read_text())]
    assert named
    for name in named:
        assert f"def {name}(" in there, name


def test_what_is_shown_by_lines_is_found_once():
    """Doxygen shows nothing, or too much, where a \\skip or \\until is not."""
    shown = 0
    for page in PAGES:
        lines = []
        for command, rest in re.findall(
                r"^\\(dontinclude|skip|until) (.*)$", page.read_text(), re.M):
            if command == "dontinclude":
                lines = (ROOT / rest).read_text().splitlines()
            else:
                shown += 1
                assert sum(rest in line for line in lines) == 1, (page, rest)
    assert shown


def test_a_pitfall_has_its_report_and_its_step():
    from make_reference import bug, pitfalls
    assert bug("pytorch/vision@8d9ccb4") == \
        "[vision @8d9ccb4](https://github.com/pytorch/vision/commit/8d9ccb4)"
    rows = pitfalls().splitlines()[2:]
    assert len(rows) >= 20
    for row in rows:
        assert re.search(r"\]\(https://github.com/[^|]*\) \| "
                         r"\[\d\d\.\d .+\]\(@ref page_\d\d\) \|$", row), row
