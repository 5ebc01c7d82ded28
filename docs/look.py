"""Looks at the built pages as people do: pictures at desktop and phone width,
light and dark, in headless Chromium, and axe-core's rules on each page; then
the search box and the keyboard. --shown makes the pictures of CONTRIBUTING.md.

    pip install playwright axe-playwright-python; apt-get install chromium
    docs/look.py SITE PICTURES [PAGE...] [--record]
    docs/look.py --shown SITE docs/pictures

--record keeps what axe-core found in docs/results/site.json.
"""

import json
import sys
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

RESULT = Path(__file__).parent / "results/site.json"
LOOKS = {"desktop": (1280, 900), "phone": (390, 844)}
SHOWN = {"site_index": ("index.html", "desktop", "light"),
         "site_chapter": ("page_03.html#exceptions_03", "phone", "dark"),
         "site_table": ("page_02.html#table_02", "phone", "light"),
         "site_benchmark": ("page_04.html#bench_04", "phone", "dark")}


def open_page(browser: Browser, device: str, colours: str) -> Page:
    width, height = LOOKS[device]
    return browser.new_page(viewport={"width": width, "height": height},
                            color_scheme=colours)


def look(page: Page, name: str, how: str, found: dict) -> None:
    def add(rule: str, where: str) -> None:
        found.setdefault(rule, set()).add(f"{name} {how} {where}")

    wide = page.evaluate("document.documentElement.scrollWidth "
                         "- document.documentElement.clientWidth")
    content = page.evaluate("""() => {
        const e = document.getElementById("doc-content");
        return e ? e.scrollWidth - e.clientWidth : 0; }""")
    if max(wide, content) > 0:
        add("wider than the screen", f"by {max(wide, content)}")
    for picture in page.query_selector_all("img"):
        if not picture.evaluate("e => e.complete && e.naturalWidth > 0"):
            add("a picture does not load", picture.get_attribute("src") or "")
    for rule in Axe().run(page).response["violations"]:
        for node in rule["nodes"]:
            add(f"{rule['id']} ({rule['impact']})", str(node["target"][0]))


def use(browser: Browser, site: Path, found: dict) -> None:
    """Search without a network, and the keyboard alone."""
    page = open_page(browser, "desktop", "light")
    page.route("http*://**", lambda route: route.abort())
    page.goto((site / "index.html").as_uri())
    page.wait_for_timeout(300)
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || "
                                  "document.activeElement.className || "
                                  "document.activeElement.tagName"))
    if "MSearchField" not in reached:
        found["the search box is not reached by Tab"] = {"index"}
    page.focus("#MSearchField")
    page.keyboard.type("stack", delay=60)
    page.wait_for_timeout(1500)
    results = page.frame("MSearchResults")
    shown = [e.inner_text() for e in results.query_selector_all(".SRResult")
             if e.is_visible()] if results else []
    if not any("03 Stack conventions" in text for text in shown):
        found["a search for 'stack' does not find chapter 03"] = {str(shown)}
    page.close()


def main() -> int:
    recorded = "--record" in sys.argv
    site, pictures, *names = (a for a in sys.argv[1:] if not a.startswith("--"))
    site, pictures = Path(site).resolve(), Path(pictures)
    names = names or sorted(p.stem for p in site.glob("page_*.html")) + ["index"]
    pictures.mkdir(parents=True, exist_ok=True)
    found, views = {}, 0
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium",
                                       args=["--no-sandbox"])
        if "--shown" in sys.argv:
            for name, (where, device, colours) in SHOWN.items():
                page = open_page(browser, device, colours)
                file, _, anchor = where.partition("#")
                page.goto((site / file).as_uri() + f"#{anchor}")
                page.wait_for_timeout(500)
                page.screenshot(path=pictures / f"{name}.png")
                page.close()
            return 0
        for device in LOOKS:
            for colours in ("light", "dark"):
                page = open_page(browser, device, colours)
                for name in names:
                    page.goto((site / f"{name}.html").as_uri())
                    page.wait_for_timeout(300)
                    views += 1
                    page.screenshot(path=pictures / f"{name}_{device}_{colours}.png")
                    look(page, name, f"{device} {colours}", found)
                page.close()
        use(browser, site, found)
        browser.close()
    for rule, nodes in sorted(found.items()):
        print(f"{rule}: {len(nodes)}")
        for node in sorted(nodes):
            print(f"    {node}")
    if recorded:
        kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        kept["axe"] = {"views": views, "rules": len(found)}
        RESULT.write_text(json.dumps(kept, indent=1) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
