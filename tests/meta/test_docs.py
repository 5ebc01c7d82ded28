"""The documentation builds; every snippet, link and reference is found, for a
warning is an error."""

import subprocess
import sys

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
