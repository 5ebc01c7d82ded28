"""Every link that can be followed without a network: of the built site, and of
the repository's Markdown files. Prints what is broken; exit status 1 then.

    check_links.py REPOSITORY [SITE] [--record]

--record keeps the counts in docs/results/site.json.
"""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag


class Page(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)


def heading_anchor(heading: str) -> str:
    """As GitHub makes it."""
    heading = re.sub(r"[`*]|\{#.*\}", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def markdown(text: str) -> Page:
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    page = Page(text)
    page.links += re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text))
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.M):
        page.anchors |= {heading_anchor(heading),
                         *re.findall(r"\{#(\w+)\}", heading)}
    return page


def broken(pages: dict[Path, Page], counts: dict) -> list[str]:
    found = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                counts["external"].add(link)
                continue
            file, anchor = urldefrag(unquote(link))
            target = (path.parent / file).resolve() if file else path.resolve()
            counts["local"] += 1
            if not target.exists():
                found.append(f"{path}: {link}: no such file")
            elif anchor and target in pages and \
                    anchor not in pages[target].anchors:
                found.append(f"{path}: {link}: no such anchor")
    return found


def main() -> int:
    recorded = sys.argv[1:].count("--record")
    root, *sites = (Path(a).resolve() for a in sys.argv[1:] if a != "--record")
    pages = {p: Page(p.read_text()) for site in sites
             for p in site.glob("*.html")}
    for p in root.rglob("*.md"):
        parts = p.relative_to(root).parts
        if parts[0] not in ("build", "my", ".venv") and parts[0] != "docs":
            pages[p] = markdown(p.read_text())
    counts = {"local": 0, "external": set()}
    found = broken(pages, counts)
    print("\n".join(found + [
        f"{counts['local']} links in {len(pages)} files followed, "
        f"{len(found)} broken; {len(counts['external'])} to other sites not "
        "tried"]))
    if recorded:
        file = root / "docs/results/site.json"
        kept = json.loads(file.read_text()) if file.exists() else {}
        kept["links"] = {"followed": counts["local"], "files": len(pages),
                         "broken": len(found)}
        file.write_text(json.dumps(kept, indent=1) + "\n")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
