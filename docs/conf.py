"""The book, by Sphinx. It reads the whole checkout (sphinx-build -c docs . OUT),
so a link between two pages is the same here and on GitHub."""

import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
BUILD = ROOT / "build/docs"

project = "The LibTorch Stable ABI Workbook"
root_doc = "docs/index"
include_patterns = ["docs/*.md", "chapters/*/*.md", "CONTRIBUTING.md", "CHANGELOG.md"]
exclude_patterns = [".*", "build", "my", "offline", "common", "solutions", "tests"]
# The exercises of a chapter stand in its page, where the page has this comment
# and, for GitHub, a paragraph that links to them.
EXERCISES = re.compile(r"^<!-- \{exercises\} -->\n(?:.+\n)+", re.M)
WITH_EXERCISES = [path.stem for path in HERE.glob("*.md")
                  if EXERCISES.search(path.read_text())]
exclude_patterns += [f"chapters/{name}/*" for name in WITH_EXERCISES]
extensions = ["myst_parser"]
myst_heading_anchors = 3
# Every internal link and anchor is followed; names of C++ and Python are not.
nitpick_ignore_regex = [(r"(cpp|c|py):.*", ".*")]
# A snippet is part of a file; Breathe refers to a class in the class's own page.
suppress_warnings = ["misc.highlighting_failure", "ref.ref"]

html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_extra_path = ["static/index.html"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
linkcheck_anchors = False  # GitHub's are made by a script

# C++ API: the headers that docs/api.md names, by Doxygen and Breathe.
DOXYGEN = shutil.which("doxygen")
if DOXYGEN:
    extensions.append("breathe")
    breathe_projects = {"api": str(BUILD / "doxygen/xml")}
    breathe_default_project = "api"
    breathe_show_include = False
    # A namespace in two headers, or C++ that Doxygen misreads, is no mistake here.
    logging.getLogger("sphinx.sphinx.domains.cpp").setLevel(logging.ERROR)


def doxygen(app) -> None:
    headers = re.findall(r"\{doxygenfile\} (\S+)", (HERE / "api.md").read_text())
    (BUILD / "doxygen").mkdir(parents=True, exist_ok=True)
    settings = {
        "INPUT": " ".join(headers), "OUTPUT_DIRECTORY": BUILD / "doxygen",
        "GENERATE_XML": "YES", "GENERATE_HTML": "NO", "GENERATE_LATEX": "NO",
        "STRIP_FROM_PATH": ROOT, "QUIET": "YES",
        "WARN_IF_UNDOCUMENTED": "NO", "XML_PROGRAMLISTING": "NO",
        "PREDEFINED": "HOST_DEVICE= __device__= __host__= __global__= __restrict__=",
        "MACRO_EXPANSION": "YES", "EXPAND_ONLY_PREDEF": "YES",
        "INPUT_FILTER": f'"{sys.executable} {HERE}/tools/comments.py"'}
    subprocess.run([DOXYGEN, "-"], cwd=ROOT, check=True, text=True, input="".join(
        f"{name} = {value}\n" for name, value in settings.items()))


def sections(text: str, mark: str) -> list[list[str]]:
    """[title, text] of what is below each such heading."""
    return [part.split("\n", 1)
            for part in re.split(f"^{mark} ", text, flags=re.M)[1:]]


def exercises(chapter: str) -> str:
    """The steps of the sheet, each with its hints, folded."""
    folder = ROOT / "chapters" / chapter
    hints = dict(sections((folder / "hints.md").read_text(), "##"))
    text = "\n".join(
        f"### {title}\n{body}\n" + "".join(
            f"<details><summary>{hint}</summary>\n{words}\n</details>\n\n"
            for hint, words in sections(hints.get(title, ""), "###"))
        for title, body in sections((folder / "README.md").read_text(), "##"))
    text = re.sub(r"\[The page of\s+this\s+chapter\]\([^)]*\)",
                  "The rest of this page", text)
    return re.sub(r"\]\((?![a-z]+:|#)([^)#]+)", lambda m: "](" + os.path.relpath(
        os.path.normpath(f"chapters/{chapter}/{m[1]}"), "docs"), text)


def source_read(app, name: str, source: list[str]) -> None:
    """A directive stands in a comment, which GitHub does not show."""
    text = EXERCISES.sub(lambda _: exercises(Path(name).name), source[0])
    for chapter in WITH_EXERCISES:
        text = text.replace(f"chapters/{chapter}/README.md", f"docs/{chapter}.md")
    if not DOXYGEN:
        text = re.sub(r"^<!-- \{doxygenfile\}.*?-->", "*(Doxygen was not there when "
                      "this site was built.)*", text, flags=re.M | re.S)
    text = re.sub(r"^<!-- (\{.*?)\s*-->$", r"```\1\n```", text, flags=re.M | re.S)
    if name.endswith("/README"):  # a sheet is called as its chapter's page is
        text = re.sub(r"\A# (.*)", r"# \1: exercises", text)
    source[0] = text


def write_for_assistants(app, exception) -> None:
    """Write llms.txt (llmstxt.org) and, beside it, the guide to porting and the
    reference as the Markdown that they are."""
    if exception or app.builder.name != "html":
        return
    folder = Path(app.outdir) / "llms"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    lines = [f"# {project}", "", "> How an extension of PyTorch in C++ or CUDA is "
             "written for, or ported to, the stable ABI (torch/csrc/stable, "
             "torch/headeronly), so that one build runs on every PyTorch since 2.10."]
    for page, title in (("porting", "Port an extension"), ("reference", "Reference")):
        text = (HERE / f"{page}.md").read_text()
        names = dict.fromkeys([page, *re.findall(r"\]\((\w+)\.md[)#]", text)])
        lines += ["", f"## {title}", ""]
        for name in names:
            if not (folder / f"{name}.md").exists():
                shutil.copy(HERE / f"{name}.md", folder)
                heading = (HERE / f"{name}.md").read_text().partition("\n")[0]
                lines.append(f"- [{heading.lstrip('# ')}](llms/{name}.md)")
    (folder.parent / "llms.txt").write_text("\n".join(lines) + "\n")


def setup(app) -> None:
    app.connect("source-read", source_read)
    app.connect("build-finished", write_for_assistants)
    if DOXYGEN:
        app.connect("builder-inited", doxygen)
    else:
        print("no Doxygen: the page of the C++ API has no declarations\n"
              "  sudo apt-get install -y doxygen")
