"""The documentation builds; every snippet, link and reference is found, for a
warning is an error."""

import json
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
def test_search_finds_any_word_of_a_heading_and_names_in_code(tmp_path):
    sys.path.insert(0, str(ROOT / "docs/site"))
    import search
    (tmp_path / "search").mkdir()
    (tmp_path / "search/all_0.html").write_text('<script src="all_0.js">')
    (tmp_path / "page_03.html").write_text(
        '<title>x</title><div class="title">03 Stack conventions</div>'
        '<h1><a class="anchor" id="why_03"></a>\nWhy a&lt;b</h1>'
        "<p><code>TORCH_BOX</code> <code>1 + 1</code></p>")
    search.write(tmp_path)
    data = (tmp_path / "search/searchdata.js").read_text()
    letters = re.search(r'"0": "(.*?)"', data)[1]
    assert letters == "0cstw"  # 03, Stack, conventions, TORCH_BOX, Why

    def rows(letter):
        text = (tmp_path / f"search/all_{letters.index(letter):x}.js").read_text()
        return json.loads(text.removeprefix("var searchData=").strip(" ;\n"))
    assert rows("s") == [["stack_20conventions_0", [
        "03 Stack conventions", ["../page_03.html", 1, "03 Stack conventions"]]]]
    assert rows("t") == [["torch_5fbox_0", [
        "TORCH_BOX", ["../page_03.html#why_03", 1, "03 Stack conventions"]]]]
    assert rows("w")[0][1][0] == "Why a&lt;b"


def test_a_variant_is_drawn_as_it_is_made():
    page = (ROOT / "docs/08_hub_packaging.md").read_text()
    tree = page[page.index("digraph tree"):]
    tree = tree[:tree.index("enddot")]
    sources = ROOT / "solutions/08_hub_packaging/torch-ext/activation"
    files = {p.name.removesuffix(".in") for p in sources.glob("*.py*")}
    drawn = set(re.findall(r">(\w+\.(?:py|json))<", tree))
    assert drawn == files | {"metadata.json"}


def test_pictures_say_what_the_results_say():
    sys.path.insert(0, str(ROOT / "docs"))
    from make_pictures import ladder, one_binary
    one = {"headers": "2.13.0", "target": "2.10", "needs_libtorch": True}
    text = one_binary({
        "built_once_with": "2.13.0", "versions": ["2.10.0", "2.11.0"],
        "refused": [{"torch": "2.9.1"}],
        "builds": [{**one, "runs": {"2.10.0": "pass", "2.11.0": "pass"}},
                   {**one, "runs": {"2.10.0": "pass", "2.11.0": "status 1"}}]})
    for label in ("2.9.1: refused", "2.10.0: passes", "2.11.0: 1 of 2"):
        assert f"libtorch {label}" in text
    text = ladder({"rows": [{"version": "16 bytes",
                             "loads": ["LDG.E.128", "LDG.E.128"]},
                            {"version": "naive",
                             "loads": ["LDG.E.U16", "LDG.E.U16"]}]})
    assert "<B>32</B>" in text and "<B>4</B>" in text
