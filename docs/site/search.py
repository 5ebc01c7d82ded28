"""Makes the search box find what the pages say. Doxygen's own index holds the
pages' titles and compares from their first letter: "stack" would not find
"03 Stack conventions". This one holds each word of each title and heading, and
each name in code; it works without a server and without a network."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

NAME = re.compile(r"[A-Za-z_][\w:]{3,}(?:\.\w+)?$")


class Index(HTMLParser):
    """What a page can be found by: (text, file and anchor)."""

    def __init__(self, page: Path):
        super().__init__()
        self.page, self.anchor, self.title = page.name, "", ""
        self.inside, self.text, self.found = "", "", {}
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "a" and attributes.get("class") == "anchor":
            self.anchor = "#" + attributes["id"]
        if attributes.get("class") == "title":
            tag = "title"
        elif tag == "title":
            return
        if tag in ("h1", "h2", "code", "title") and not self.inside:
            self.inside, self.text = tag, ""

    def handle_data(self, data):
        self.text += data

    def handle_endtag(self, tag):
        if tag != ("div" if self.inside == "title" else self.inside):
            return
        text = " ".join(self.text.split())
        if self.inside == "title":
            self.title = text
        if self.inside != "code" or NAME.match(text):
            self.found.setdefault(text, self.page + self.anchor)
        self.inside = ""


def identifier(text: str) -> str:
    """As convertToId of Doxygen's search.js makes it."""
    return "".join(c if re.match(r"[a-z0-9\u0080-\uffff]", c)
                   else f"_{ord(c):02x}" for c in text.lower())


def words(text: str) -> list[str]:
    """The text from each of its words on: a search compares beginnings."""
    return [text[m.start():] for m in re.finditer(r"(?<![\w'])\w\w+", text)]


def write(site: Path) -> None:
    letters = {}
    for page in sorted(site.glob("*.html")):
        index = Index(page)
        for text, where in index.found.items():
            for beginning in words(text):
                letters.setdefault(beginning[0].lower(), {}).setdefault(
                    (beginning.lower(), text), []).append(
                    [f"../{where}", 1, index.title])
    search = site / "search"
    frame = (search / "all_0.html").read_text()
    for n, letter in enumerate(sorted(letters)):
        rows = [[f"{identifier(beginning)}_{row}", [html.escape(text), *places]]
                for row, ((beginning, text), places) in enumerate(
                    sorted(letters[letter].items()))]
        (search / f"all_{n:x}.html").write_text(
            frame.replace("all_0.js", f"all_{n:x}.js"))
        (search / f"all_{n:x}.js").write_text(
            f"var searchData={json.dumps(rows)};\n")
    (search / "searchdata.js").write_text(
        "var indexSectionsWithContent = "
        f"{json.dumps({0: ''.join(sorted(letters))})};\n"
        'var indexSectionNames = {"0": "all"};\n'
        'var indexSectionLabels = {"0": "All"};\n')
