"""Mends what Doxygen's pages lack for a reader with a keyboard or a screen
reader, and on a phone: language, landmarks, names of controls, pictures that
scale and say what they show.

    finish.py SITE
"""

import re
import sys
from pathlib import Path

import search

PICTURE = re.compile(
    r'<(iframe|object) [^>]*?(?:src|data)="([^"]+\.svg)"[^>]*>.*?'
    r'</\1>\s*(?:<div class="caption">\s*(.*?)</div>)?', re.S)


def picture(page: Path, match: re.Match) -> str:
    _, source, caption = match.groups()
    if not caption:
        raise SystemExit(f"{page.name}: a picture without a caption: "
                         'give it one, as in \\dot "what it shows"')
    caption = caption.strip()
    return (f'<img src="{source}" alt="{re.sub("<.*?>", "", caption)}"/>'
            f'\n<div class="caption">{caption}</div>')


def finish(page: Path) -> None:
    text = page.read_text()
    text = re.sub(r"^<!DOCTYPE.*?>", "<!DOCTYPE html>", text, flags=re.S)
    for old, new in (
            ('<html xmlns="http://www.w3.org/1999/xhtml">', '<html lang="en">'),
            ('<div id="doc-content">', '<div id="doc-content" role="main">'),
            ('<div id="top">', '<div id="top" role="banner">'),
            ('<div id="side-nav"', '<div id="side-nav" role="navigation" '
             'aria-label="Pages"'),
            ('<div id="nav-path"', '<div id="nav-path" role="contentinfo"'),
            ('<div class="toc">', '<div class="toc" role="navigation" '
             'aria-label="On this page">'),
            ('<div class="title">', '<div class="title" role="heading" '
             'aria-level="1">'),
            ('<h3>Table of Contents</h3>', '<h3 role="heading" '
             'aria-level="2">On this page</h3>'),
            ('<div class="fragment">', '<div class="fragment" tabindex="0">'),
            ('<pre class="fragment">', '<pre class="fragment" tabindex="0">'),
            ('<div class="plot">', '<div class="plot" tabindex="0">'),
            ('<div class="dotgraph">', '<div class="dotgraph" tabindex="0">'),
            ('<table class="markdownTable">', '<table class="markdownTable" '
             'tabindex="0">'),
            ('<iframe src="javascript:void(0)"', '<iframe title="Search '
             'results" src="javascript:void(0)"')):
        text = text.replace(old, new)
    page.write_text(PICTURE.sub(lambda m: picture(page, m), text))


def main() -> None:
    site = Path(sys.argv[1])
    for page in site.glob("*.html"):
        finish(page)
    menu = site / "menu.js"  # writes the search field
    menu.write_text(menu.read_text().replace(
        'id="MSearchField"', 'id="MSearchField" aria-label="Search"'))
    search.write(site)


if __name__ == "__main__":
    main()
