"""Looks at the built pages as people do: pictures at desktop and phone width,
light and dark, in headless Chromium, and axe-core's rules on each page.

    pip install playwright axe-playwright-python; apt-get install chromium
    docs/look.py SITE PICTURES [PAGE...]
"""

import sys
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

LOOKS = {"desktop": (1280, 900), "phone": (390, 844)}


def main() -> int:
    site, pictures, *names = sys.argv[1:]
    site, pictures = Path(site).resolve(), Path(pictures)
    names = names or sorted(p.stem for p in site.glob("page_*.html")) + ["index"]
    pictures.mkdir(parents=True, exist_ok=True)
    found = {}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium",
                                       args=["--no-sandbox"])
        for device, (width, height) in LOOKS.items():
            for colours in ("light", "dark"):
                page = browser.new_page(
                    viewport={"width": width, "height": height},
                    color_scheme=colours)
                for name in names:
                    page.goto((site / f"{name}.html").as_uri())
                    page.wait_for_timeout(300)
                    page.screenshot(path=pictures / f"{name}_{device}_{colours}.png")
                    wide = page.evaluate("document.documentElement.scrollWidth "
                                         "- document.documentElement.clientWidth")
                    if wide > 0:
                        found.setdefault("wider than the screen", set()).add(
                            f"{name} {device} by {wide}")
                    for rule in Axe().run(page).response["violations"]:
                        for node in rule["nodes"]:
                            found.setdefault(
                                f"{rule['id']} ({rule['impact']})", set()).add(
                                f"{name} {device} {colours} "
                                f"{node['target'][0]}")
                page.close()
        browser.close()
    for rule, nodes in sorted(found.items()):
        print(f"{rule}: {len(nodes)}")
        for node in sorted(nodes, key=str)[:6]:
            print(f"    {node}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
