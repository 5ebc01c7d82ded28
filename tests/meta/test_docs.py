"""The documentation builds; every snippet, link and reference is found, for a
warning is an error."""

import shutil
import subprocess

import pytest
from conftest import ROOT
from workspace import chapters


@pytest.mark.full
def test_documentation_builds_without_a_warning():
    for program in ("doxygen", "dot"):
        assert shutil.which(program), \
            "not installed: apt-get install doxygen graphviz"
    for command in (["cmake", "--preset", "docs"],
                    ["cmake", "--build", "--preset", "docs"]):
        done = subprocess.run(command, cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout[-4000:]
    for chapter in chapters():
        page = ROOT / f"build/docs/docs/html/page_{chapter.number}.html"
        assert page.is_file(), f"docs/{chapter.name}.md has no {{#page_..}}"


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_page_shows_code_only_by_snippet(chapter):
    text = (ROOT / f"docs/{chapter.name}.md").read_text()
    assert "\\snippet solutions/" in text
    assert "```cpp" not in text, "code of a page comes from the solution"
