"""Asks package.py for the id of a committed folder, while all but its contents
changes."""

import os

import package

from repository import FILE, SETTINGS, git


def check_is_of_the_tree():
    """Return the id."""
    found = package.unique_id()
    tree, commit = package.git("rev-parse", "HEAD:./", "HEAD").split()
    assert not commit.startswith(found), \
        "unique_id() is that of the commit: one that changes nothing has another id"
    assert tree.startswith(found) and len(found) >= 7, \
        f"unique_id() is {found!r}; the folder's tree is {tree}"
    assert len(found) == 7, \
        f"unique_id() has {len(found)} digits, and should have seven"
    return found


def check_other_commits(committed):
    git("commit", "--allow-empty", "-qm", "another commit of the same contents")
    assert package.unique_id() == committed, \
        "after a commit that changes nothing unique_id() is another"
    (package.SOURCE.parent / "beside.txt").write_text("2")
    found = package.unique_id()
    assert found == committed, \
        f"with a change in another folder unique_id() is {found!r}"
    git("commit", "-qam", "a commit of another folder")
    assert package.unique_id() == committed, \
        "after a commit of another folder unique_id() is another, and should be that " \
        "of this folder's contents"


def check_date_alone(committed):
    os.utime(FILE, (1, 1))
    found = package.unique_id()
    assert found == committed, \
        f"with a file whose date alone is another unique_id() is {found!r}"


def check_settings(committed):
    for key, value in SETTINGS.items():
        git("config", key, value)
        found = package.unique_id()
        assert found == committed, \
            f"where somebody's git has {key} = {value} unique_id() is {found!r}"


def check_unknown_files(committed):
    (package.SOURCE / "build").mkdir()
    (package.SOURCE / "build/made.txt").write_text("by the build")
    found = package.unique_id()
    assert found == committed, \
        f"beside the folder build, which git does not know, unique_id() is {found!r}"


if __name__ == "__main__":
    committed = check_is_of_the_tree()
    check_other_commits(committed)
    check_date_alone(committed)
    check_settings(committed)
    check_unknown_files(committed)
