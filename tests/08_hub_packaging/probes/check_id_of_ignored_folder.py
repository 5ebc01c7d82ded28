"""Asks package.py for the id of a folder that its repository ignores, as my/ is."""

import re

import package

if __name__ == "__main__":
    (package.SOURCE.parent / ".gitignore").write_text("my/")
    tree = package.git("rev-parse", "HEAD^{tree}")
    package.SOURCE = package.SOURCE.parent / "my"
    package.SOURCE.mkdir()
    found = package.unique_id()
    assert re.fullmatch("[0-9A-Fa-f]{8}", found) and not tree.startswith(found), \
        f"for a folder that git ignores unique_id() is {found!r}, and should be " \
        "eight random digits"
