"""Looks at the built pages as people do: pictures at desktop and phone width,
light and dark, in headless Chromium, and axe-core's rules on each page.

    pip install playwright axe-playwright-python; apt-get install chromium
    docs/look.py SITE PICTURES [PAGE...] [--record]

--record keeps what axe-core found in docs/results/site.json.
"""

import json
import sys
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

RESULT = Path(__file__).parent / "results/site.json"
LOOKS = {"desktop": (1280, 900), "phone": (390, 844)}


def main() -> int:
    recorded = sys.argv[1:].count("--record")
    site, pictures, *names = (a for a in sys.argv[1:] if a != "--record")
    site, pictures = Path(site).resolve(), Path(pictures)
    names = names or sorted(p.stem for p in site.glob("page_*.html")) + ["index"]
    pictures.mkdir(parents=True, exist_ok=True)
    found, views = {}, 0
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
                    views += 1
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
    if recorded:
        kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        kept["axe"] = {"views": views, "rules": len(found)}
        RESULT.write_text(json.dumps(kept, indent=1) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
