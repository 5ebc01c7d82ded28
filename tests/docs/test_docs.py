"""The book builds; what its pages show of code and results is up to date; and
they read on GitHub as they do on the site."""

import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

import cli
import parts
import pictures
import reports
import snippets
import tables
from base.project import ROOT
from base.sheets import chapters
from names import ONLY_IN_2_9
from tables import RESULTS, by_version
from torch_stable_abi.libtorch import surface

PAGES = sorted((ROOT / "docs").glob("*.md"))
IN_BOOK = [*PAGES, *sorted(ROOT.glob("chapters/*/*.md")), ROOT / "CONTRIBUTING.md",
           ROOT / "CHANGELOG.md"]
MADE = re.compile(r"^<!-- begin: .*?^<!-- end -->$", re.M | re.S)


def run(*command):
    return subprocess.run(
        [sys.executable, *map(str, command)], text=True, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def small_book(folder, text):
    (folder / "book").mkdir()
    (folder / "book/index.md").write_text(f"# A title\n\n## There\n\n{text}\n")
    return run("-m", "sphinx", "-qnW", "-c", "docs", "-D", "root_doc=index", "-D",
               "include_patterns=*", folder / "book", folder / "site")


@pytest.mark.full
def test_the_book_builds_without_a_warning():
    done = run("common", "docs")
    assert done.returncode == 0, done.stdout[-4000:]
    site = ROOT / "build/docs/html"
    for chapter in chapters():
        pages = [site / f"docs/{chapter.name}.html",
                 site / f"chapters/{chapter.name}/README.html"]
        text = "".join(page.read_text() for page in pages if page.exists())
        for step in chapter.steps:
            assert f">{step.id} " in text
    index = (site / "docs/index.html").read_text()
    for group in ("Start", "Chapters", "Port an extension", "Reference", "Teaching",
                  "About the workbook"):
        assert f'<span class="caption-text">{group}</span>' in index
    listed = re.findall(r"\]\((.+?)\)", (site / "llms.txt").read_text())
    assert {"llms/porting.md", "llms/migration.md", "llms/errors.md"} <= set(listed)
    assert [name for name in listed if not (site / name).is_file()] == []


def messages(entry):
    """Every text that an entry of snippets.toml is to be found by."""
    for case in (entry, *entry.get("also", [])):
        for key in ("text", "lines", "clang", "nvcc"):
            said = case.get(key, [])
            for text in said.values() if isinstance(said, dict) else [said]:
                yield from [text] if isinstance(text, str) else text


@pytest.mark.full
def test_each_message_finds_the_page_of_errors():
    """The user searches for the words that they see, as the site's own search takes
    them: all of them must be in the index of the page. ("one" never is: its stem is
    "on".)"""
    search = pytest.importorskip("sphinx.search.en").SearchEnglish({})
    text = (ROOT / "build/docs/html/searchindex.js").read_text()
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    page = index["docnames"].index("docs/errors")

    def is_found(word):
        there = [index[kind].get(search.stem(word), [])
                 for kind in ("terms", "titleterms")]
        return any(page in (found if isinstance(found, list) else [found])
                   for found in there)
    missing = [
        (entry["id"], word) for entry in snippets.read("error")
        for message in messages(entry) for word in re.findall(r"\w+", message.lower())
        if not {word, search.stem(word)} & search.stopwords and not is_found(word)]
    assert missing == []


@pytest.mark.full
@pytest.mark.parametrize("link, said", [
    ("[x](index.md#there)", ""), ("[x](index.md#nowhere)", "nowhere"),
    ("[x](gone.md)", "gone.md"), ("![x](gone.svg)", "gone.svg")])
def test_a_broken_link_is_an_error(tmp_path, link, said):
    pytest.importorskip("myst_parser")
    done = small_book(tmp_path, link)
    assert (done.returncode == 0) == (said == "") and said in done.stdout, done.stdout


@pytest.mark.full
def test_without_doxygen_it_builds_and_says_so(tmp_path, monkeypatch):
    pytest.importorskip("myst_parser")
    monkeypatch.setenv("PATH", "")
    done = small_book(tmp_path, "<!-- {doxygenfile} x.h\n:no-link:\n-->")
    assert done.returncode == 0 and "apt-get install -y doxygen" in done.stdout
    assert "Doxygen was not there" in (tmp_path / "site/index.html").read_text()


def test_what_pages_show_is_up_to_date():
    done = run("common", "docs", "--check")
    assert done.returncode == 0, done.stdout


def test_what_has_drifted_is_written_anew():
    path = "solutions/03_stack_conventions/stack.h"
    old = f"a\n\n<!-- begin: snippet {path} to_values -->\nold\n<!-- end -->\n\nb\n"
    now = parts.made(old)
    assert "old" not in now and "std::tuple<T...> to_values(" in now
    assert now == parts.made(now) and "//! [" not in now
    assert now.startswith("a\n\n<!-- begin") and now.endswith("<!-- end -->\n\nb\n")
    for bad in (f"snippet {path} no_such", "no_such_kind", f"lines {path} a b"):
        with pytest.raises(SystemExit):
            parts.made(f"<!-- begin: {bad} -->\n<!-- end -->")


@pytest.mark.parametrize("page", [ROOT / "README.md", *IN_BOOK],
                         ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_reads_on_github(page):
    """Rendered without Sphinx it shows no directive, role or label; and what is
    begun is ended."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt().enable("table")
    text = page.read_text()
    html = markdown.render(text)
    assert 'class="language-{' not in html and "\n:::" not in html
    shown = re.sub(r"<code.*?</code>|<!--.*?-->", "", html, flags=re.S)
    assert re.findall(r"\\[a-z]{3,}|@ref\b|\{[#\w-]+\}", shown) == []
    assert "<p>|" not in shown, "a table that is none"
    assert len(re.findall("^<!-- (?:begin: |end -->)", text, re.M)) == \
        2 * len(MADE.findall(text))


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_page_shows_code_of_the_solution(chapter):
    text = (ROOT / f"docs/{chapter.name}.md").read_text()
    assert re.search("<!-- begin: (snippet|file) solutions/", text)
    assert "```cpp" not in MADE.sub("", text), "code of a page comes from the solution"


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_what_a_page_breaks_is_there(chapter, tmp_path):
    """An edit by sed to a copy of the solution in /tmp changes it."""
    page = (ROOT / f"docs/{chapter.name}.md").read_text()
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S):
        block = block.replace("\\\n", " ")
        given = "".join(re.findall(r"^\w+=.*\n", block, re.M))
        for edit, folder, file in re.findall(
                r"^ *(sed -i .*? )/tmp/(\w+?_[\w$]+)/(?!build)([^ \n&]+)", block, re.M):
            copy = tmp_path / folder / file
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(chapter.solution / file, copy)
            before = copy.read_text()
            subprocess.run(["bash", "-c", f"{given}{edit}'{copy}'"], check=True)
            assert copy.read_text() != before, edit


@pytest.mark.parametrize("chapter", chapters(), ids=lambda c: c.number)
def test_a_line_that_a_page_names_is_there(chapter):
    page = (ROOT / f"docs/{chapter.name}.md").read_text()
    files = {path.name: path for path in chapter.solution.rglob("*.*")}
    for name, line in re.findall(r"…/([\w.]+\.(?:cpp|h|cu)):(\d+)", page):
        if name in files:
            text = files[name].read_text().splitlines()
            assert int(line) <= len(text) and text[int(line) - 1].strip(), name


@pytest.mark.parametrize("page", [
    p for p in [ROOT / "README.md", *IN_BOOK] if p.name != "CHANGELOG.md"],
    ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_that_a_page_names_is_there(page):
    text = MADE.sub("", page.read_text())
    for name in re.findall(r"`((?:chapters|common|docs|solutions|tests)/[\w./-]+)`",
                           text):
        if not re.search(r"NN|NAME|10_", name):
            assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", [ROOT / "README.md", *IN_BOOK],
                         ids=lambda p: str(p.relative_to(ROOT)))
def test_a_command_that_a_page_names_is_one(page, capsys):
    text = re.sub(r"\n```.*?^```", lambda block: re.sub(  # each line for itself
        r"\\\n *", "", block[0]).replace("\n", "` `"), page.read_text(),
        flags=re.M | re.S)
    for words in re.findall(r"[` ]\./workbook ([a-z][^`|<>#;&$()]*)", text):
        try:
            cli.parse_words(words.split())
        except SystemExit as ended:
            said = capsys.readouterr().err  # a command alone is only mentioned
            assert not ended.code or "are required" in said, (words, said)


def test_an_example_to_copy_stands_in_the_table():
    tables = "".join(path.read_text() for folder in ("tests", "common/abi")
                     for path in (ROOT / folder).rglob("*.toml"))
    text = (ROOT / "CONTRIBUTING.md").read_text()
    examples = re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)
    assert len(examples) == 3
    assert [example for example in examples if example not in tables] == []


def test_links_outside_the_book_lead_somewhere():
    """Sphinx follows those inside."""
    for page in [ROOT / "README.md", *ROOT.glob("solutions/*/README.md")]:
        for link in re.findall(r"\]\(([^)\s#]+)", page.read_text()):
            assert ":" in link or (page.parent / link).exists(), (page, link)


def test_every_public_name_has_a_line():
    """A header in a new folder would be on no page."""
    text = "".join(page.read_text() for page in PAGES if page.name.startswith("names_"))
    anchors = re.findall(r'<a id="([^"]+)"', text)
    names = {row["name"] for row in surface.names()} - {*ONLY_IN_2_9}
    assert {name.replace("::", "-") for name in names} - set(anchors) == set()
    assert all(page.stat().st_size < 150_000 for page in PAGES)


def test_every_part_and_every_picture_is_on_a_page():
    text = "".join(page.read_text() for page in parts.PAGES)
    used = {match.split()[0] for match in re.findall("<!-- begin: (.+?) -->", text)}
    assert used == set(parts.KINDS)
    for picture in (ROOT / "docs/pictures").glob("*.svg"):
        assert f"pictures/{picture.name})" in text, picture
    for path in RESULTS.glob("[0-9][0-9]_*.json"):
        assert f"<!-- begin: benchmark {path.stem} -->" in text, path
    assert "![](" not in text, "a picture without a text"


def test_the_list_of_results_is_complete():
    for file in filter(Path.is_file, RESULTS.rglob("*")):
        name = str(file.relative_to(RESULTS))
        assert any(fnmatch(name, pattern) for pattern in reports.RESULTS), \
            f"docs/tools/reports.py: RESULTS has no {name}"
    for _, page, command in reports.RESULTS.values():
        assert (ROOT / "docs" / page).exists(), page
        for word in command.split():
            if word.startswith(("./workbook", "common/", "tests/", "docs/")):
                assert (ROOT / word).exists(), command


def test_versions_that_agree_are_one_cell():
    versions = ["2.10.0", "2.11.0", "2.12.1"]
    assert by_version(versions, ["a", "a", "a"]) == "a"
    assert by_version(versions, ["a", "a", "b"]) == "2.10 to 2.11: a; 2.12: b"


def test_tests_that_pages_name_exist():
    there = "".join(p.read_text() for p in (ROOT / "tests").rglob("*.py"))
    named = [name for page in PAGES
             for name in re.findall(r"`(test_\w+)`", page.read_text())]
    assert named
    for name in named:
        assert f"def {name}(" in there, name


def test_a_pitfall_has_its_report_and_its_step():
    assert reports.bug("pytorch/vision@8d9ccb4") == \
        "[vision @8d9ccb4](https://github.com/pytorch/vision/commit/8d9ccb4)"
    rows = reports.pitfalls().splitlines()[2:]
    assert sum(row.count("](../chapters/") for row in rows) >= 20
    for row in rows:
        assert re.search(r"\]\(https://github.com/[^|]*\) \| \[\d\d\.\d .+\]"
                         r"\(\.\./chapters/\d\d_\w+/README\.md#.+\) \|$", row), row


def test_a_variant_is_drawn_as_it_is_made():
    tree = (ROOT / "docs/pictures/hub_variant.dot").read_text()
    sources = ROOT / "solutions/08_hub_packaging/torch-ext/activation"
    files = {p.name.removesuffix(".in") for p in sources.glob("*.py*")}
    drawn = set(re.findall(r">(\w+\.(?:py|json))<", tree))
    assert drawn == files | {"metadata.json"}


def test_pictures_say_what_the_results_say(monkeypatch):
    one = {"headers": "2.13.0", "target": "2.10", "needs_libtorch": True}
    results = {"matrix": {
        "built_once_with": "2.13.0", "versions": ["2.10.0", "2.11.0"],
        "refused": [{"torch": "2.9.1"}],
        "builds": [{**one, "runs": {"2.10.0": "pass", "2.11.0": "pass"}},
                   {**one, "runs": {"2.10.0": "pass", "2.11.0": "status 1"}}]}}
    monkeypatch.setattr(pictures, "read", results.__getitem__)
    text = pictures.one_binary()
    for label in ("2.9.1: refused", "2.10.0: passes", "2.11.0: 1 of 2"):
        assert f"libtorch {label}" in text


@pytest.mark.skipif(not shutil.which("dot"), reason="no Graphviz: apt-get install "
                    "graphviz")
def test_a_picture_is_drawn_again_alike(tmp_path):
    """The words and the shades, whatever Graphviz it is."""
    for name, source in pictures.sources().items():
        if not source.startswith("digraph"):
            continue
        old, new = pictures.PICTURES / f"{name}.svg", tmp_path / f"{name}.svg"
        pictures.draw([new])
        for what in (r"<text[^>]*>([^<]*)", r'fill="(#\w+)"', "(prefers-color-scheme)"):
            found = re.findall(what, new.read_text())
            assert found and sorted(found) == sorted(re.findall(
                what, old.read_text())), name


def test_page_04_says_in_words_what_its_benchmark_counted():
    groups = json.loads(
        (RESULTS / "04_boxed_kernels.json").read_text())["groups"]
    ratio = {m["name"]: m["ratio"] for g in groups
             if g["name"] == "instructions/call" for m in g["members"]}
    by_hand, checked = ratio["by hand, Tensor"], ratio["the same, checked"]
    text = " ".join((ROOT / "docs/04_boxed_kernels.md").read_text().split())
    assert f"the ratios are {ratio['by hand, handles']:.2f} (handles) and " \
        f"{ratio['TORCH_BOX']:.2f} (TORCH_BOX)." in text
    percent = f"{checked / by_hand - 1:.0%}".replace("%", " %")
    assert f"of them together are {percent} of a hand-boxed call" in text


def flat_text(path):
    return " ".join((ROOT / path).read_text().split())


def test_page_07_says_in_words_how_many_instructions_were_counted():
    rows = tables.read("sass")["rows"]
    plain, narrow, wide, fast = (
        row["per_element"] for row in rows if row["version"] in tables.GPU_STEPS)
    page = flat_text("docs/07_cuda_activation_kernel.md")
    sheet = flat_text("chapters/07_cuda_activation_kernel/README.md")
    for text, where in (
            (f"and {narrow:.0f} instructions become {wide}.", page),
            (f"with them {wide} instructions become {fast}:", page),
            (f"takes {plain:.0f} instructions an element", sheet),
            (f"one element a thread it counts {narrow:.0f} instructions", sheet),
            (f"{wide} instructions for each instead of {narrow:.0f}", sheet),
            (f"With them it takes {fast}.", sheet)):
        assert text in where, text


def test_page_07_says_in_words_what_was_measured():
    result = tables.read("07_cuda_activation_kernel")
    page = flat_text("docs/07_cuda_activation_kernel.md")
    over = [(g, tables.over_traffic(g)) for g in result["groups"]]
    large = [of["solution"] for g, of in over if g["bytes"] > 6e8]
    small = [of for g, of in over if "empty" in of and g["dtype"] != "float"]
    variants = [{m["name"]: m for m in g["members"]} for g in result["variants"]]
    of_large = variants[-1]
    networks = [{m["name"]: m["seconds"] * 1e6 for m in g["members"]}
                for g in result["networks"]]
    layer = networks[0]
    saved = layer["launched: solution"] - layer["launched: overlap: waits, releases"]
    blocks, = {f"{16384 * 14336 / n / 128 / of_large[name]['seconds'] / 1e9:.1f}"
               for n, name in ((1, "2 bytes"), (2, "4 bytes"))}
    registers, = {c["metrics"]["launch__registers_per_thread"].split()[0]
                  for c in result["parts"]["profile"]["commands"]}

    def span(words, values, scale=1):
        return words.format(min(values) * scale, max(values) * scale)
    for text in (
            f"at most {max(large):.3f} times as long as the floor",
            span("It takes {:.1f} to {:.1f} times as long in 16 bits",
                 [of["solution"] / of["empty"] for of in small]),
            span("the floor alone takes {:.1f} to {:.1f} times as long",
                 [1 / of["empty"] for of in small]),
            span("the solution is within {:.0f} to {:.0f} % of the floor",
                 [of["solution"] - 1 for of in small], 100),
            span("{:.0f} to {:.0f} % faster below 1 MB in 16 bits",
                 [of["solution"] / of["torch.compile"] - 1 for of in small], 100),
            "takes {:.2f} times as long as with 16 on a large tensor, with 4 bytes "
            "{:.1f} times, and with one element of 2 bytes {:.1f} times".format(
                *(of_large[n]["ratio"] for n in ("8 bytes", "4 bytes", "2 bytes"))),
            f"Either way {blocks} billion blocks of 128 threads begin in a second",
            f"It takes {registers} registers in 16 bits",
            f"overlap saves {saved:.1f} µs of a layer"):
        assert text in page, text


def test_one_version_stands_in_all_places():
    places = [("CMakeLists.txt", r"^project\(\w+ VERSION (\S+)"),
              ("CHANGELOG.md", r"^## (\S+)"), ("CITATION.cff", r"^version: (\S+)"),
              ("common/abi/pyproject.toml", r'^version = "(.*)"')]
    found = [re.findall(pattern, (ROOT / file).read_text(), re.M)[0]
             for file, pattern in places]
    assert len(set(found)) == 1 or found[1] == "Unreleased", found
