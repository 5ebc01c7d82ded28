"""Looks at the built book as people do: each page at the width of a phone and of
two desktops, light and dark, in headless Chromium, with axe-core's rules; then
the keyboard, and a search without a network. For maintainers.

    pip install playwright axe-playwright-python; apt-get install chromium
    docs/tools/look.py SITE PICTURES [PAGE...]
"""

import sys
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

WIDTHS = (320, 1280, 1440)
# What is cut off, and what scrolls: a table shall on a phone only.
MEASURE = """() => {
  const wide = e => e.scrollWidth > e.clientWidth + 1;
  const name = e => e.closest("section")?.id + " by "
      + (e.scrollWidth - e.clientWidth);
  return {
    "the page is wider than the screen":
        wide(document.documentElement) ? [name(document.documentElement)] : [],
    "a table scrolls sideways":
        [...document.querySelectorAll(".table-wrapper")].filter(wide).map(name),
    "a picture does not load":
        [...document.images].filter(e => !e.naturalWidth).map(e => e.src),
    "a picture without a text":
        [...document.images].filter(e => !e.alt).map(e => e.src)};
}"""


def look(page: Page, name: str, how: str, found: dict) -> None:
    for what, where in page.evaluate(MEASURE).items():
        if what != "a table scrolls sideways" or "320" not in how:
            found.setdefault(what, set()).update(f"{name} {how}: {w}" for w in where)
    for rule in Axe().run(page).response["violations"]:
        found.setdefault(f"{rule['id']} ({rule['impact']})", set()).update(
            f"{name} {how}: {node['target'][0]}" for node in rule["nodes"])


def use(page: Page, site: Path, found: dict) -> None:
    page.route("http*://**", lambda route: route.abort())
    page.goto((site / "docs/index.html").as_uri())
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.className"))
    if "sidebar-search" not in reached:
        found["Tab does not reach the search"] = reached
    page.fill(".sidebar-search", "dispatcher")
    page.keyboard.press("Enter")
    page.wait_for_timeout(3000)
    results = page.locator("ul.search li").all_inner_texts()
    if not any("torch_call_dispatcher" in text for text in results):
        found["a search does not find chapter 05"] = set(results)


def main() -> int:
    site, pictures, *names = sys.argv[1:]
    root, out = Path(site).resolve(), Path(pictures)
    names = names or sorted(str(path.relative_to(root).with_suffix(""))
                            for path in root.glob("*/**/*.html")
                            if "_" not in path.relative_to(root).parts[0])
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, set[str]] = {}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium",
                                       args=["--no-sandbox"])
        for width in WIDTHS:
            for colours in ("light", "dark"):
                page = browser.new_page(
                    viewport={"width": width, "height": 900}, color_scheme=colours)
                for name in names:
                    page.goto((root / f"{name}.html").as_uri())
                    page.screenshot(full_page=True, path=out /
                                    f"{name.replace('/', '-')}_{width}_{colours}.png")
                    look(page, name, f"{width} {colours}", found)
                page.close()
        use(browser.new_page(), root, found)
        browser.close()
    for rule, where in sorted(found.items()):
        if where:
            print(f"{rule}: {len(where)}", *sorted(where), sep="\n    ")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
