"""Asks package.py for the ids of a folder that is in no repository."""

import importlib
import os
import re

import package


def check_ids_differ():
    first = package.unique_id()
    second = importlib.reload(package).unique_id()  # as by another build
    assert first != second, f"without git unique_id() is {first!r} for every build"
    assert re.fullmatch("[0-9A-Fa-f]{8}", first), \
        f"without git unique_id() is {first!r}, and should be eight digits: it " \
        "becomes part of names in C++ and in Python"


def check_git_need_not_be_installed():
    os.environ["PATH"] = str(package.SOURCE)
    try:
        found = package.unique_id()
    except FileNotFoundError:
        raise AssertionError("unique_id() ends in a FileNotFoundError where no git "
                             "is installed") from None
    assert re.fullmatch("[0-9A-Fa-f]{8}", found), \
        f"where no git is installed unique_id() is {found!r}"


if __name__ == "__main__":
    check_ids_differ()
    check_git_need_not_be_installed()
