"""The documentation, built and its links checked: ./workbook docs [--open].

Needs Doxygen, Graphviz and matplotlib, and nothing from a network once they
are there; doxygen-awesome-css makes it handsome."""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import time
import webbrowser
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
INDEX = ROOT / "build/docs/docs/html/index.html"
THEME = Path("/usr/share/doxygen-awesome-css/doxygen-awesome.css")


def run(*command) -> None:
    done = subprocess.run(command, cwd=ROOT, text=True, stderr=subprocess.STDOUT,
                          stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{done.stdout.strip()}\n\nworkbook: failed: "
                 f"{' '.join(map(str, command))}")


def install_what_is_missing() -> None:
    packages = [package for package, there in (
        ("doxygen", shutil.which("doxygen")), ("graphviz", shutil.which("dot")),
        ("doxygen-awesome-css", THEME.exists())) if not there]
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing Debian packages: {' '.join(packages)}")
        for command in (["apt-get", "update"], [
                "apt-get", "install", "-y", "--no-install-recommends",
                *packages]):
            subprocess.run(command, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    missing = [program for program in ("doxygen", "dot")
               if not shutil.which(program)]
    if missing:
        sys.exit(f"workbook: {' and '.join(missing)} not found\n"
                 "  sudo apt-get install -y doxygen graphviz "
                 "doxygen-awesome-css")
    if not THEME.exists():
        print("without doxygen-awesome-css: Doxygen's own looks")
    if importlib.util.find_spec("matplotlib") is None:
        print("Installing matplotlib, for the plots")
        run(sys.executable, "-m", "pip", "install", "-q", "-r",
            DOCS / "requirements.txt")


def main() -> None:
    parser = argparse.ArgumentParser(prog="./workbook docs",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--open", action="store_true",
                        help="show it in the browser")
    parser.add_argument("--record", action="store_true",
                        help="keep the count of links in docs/results")
    arguments = parser.parse_args()
    install_what_is_missing()
    start = time.monotonic()
    run("cmake", "--preset", "docs", f"-DPython3_EXECUTABLE={sys.executable}")
    run("cmake", "--build", "--preset", "docs")
    seconds = time.monotonic() - start
    run(sys.executable, DOCS / "check_links.py", ROOT, INDEX.parent,
        *(["--record"] if arguments.record else []))
    print(f"{os.path.relpath(INDEX)} built in {seconds:.0f} s, no warning, no "
          "broken link")
    if arguments.open:
        webbrowser.open(INDEX.as_uri())


if __name__ == "__main__":
    main()
