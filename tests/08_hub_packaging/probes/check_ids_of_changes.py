"""Asks package.py for the id of a folder whose contents have changed since they were
committed. Files that git does not know lie in it as well."""

import package

from repository import FILE, append, change_settings, git


def check_is_dirty(committed, what):
    found = package.unique_id()
    assert found == f"{committed}_dirty", \
        f"with {what} unique_id() is " + (
            "still that of the last commit" if found == committed else repr(found)) + \
        ", and should end in _dirty"


def check_changed_file():
    committed = package.unique_id()
    append("# changed")
    check_is_dirty(committed, "a changed file")
    git("add", "-u")
    check_is_dirty(committed, "a change that is added, not committed,")
    git("commit", "-qam", "2")
    assert package.unique_id() not in (committed, f"{committed}_dirty"), \
        "after a commit of other contents unique_id() is the same"


def replace_by_link():
    FILE.unlink()
    FILE.symlink_to("package.py")


def add_file():
    (package.SOURCE / "new.txt").write_text("new")
    git("add", "new.txt")


# Every change that makes another tree, of the files that git knows.
CHANGES = {
    "is deleted": FILE.unlink,
    "is renamed": lambda: git("mv", FILE.name, "other.toml"),
    "is moved to another folder": lambda: git("mv", FILE.name, ".."),
    "becomes a link": replace_by_link,
    "becomes executable": lambda: FILE.chmod(0o755),
    "is new, and added": add_file}


def check_every_change():
    committed = package.unique_id()
    for change, make in CHANGES.items():
        make()
        check_is_dirty(committed, f"a file that {change}")
        git("reset", "-q", "--hard")


def check_git_that_cannot_tell():
    committed = package.unique_id()
    append("# changed")
    (package.SOURCE.parent / ".git/index").write_bytes(b"")
    assert package.unique_id() != committed, \
        "git status fails, a file has changed, and unique_id() is still that of the " \
        "last commit"


if __name__ == "__main__":
    change_settings()
    (package.SOURCE / "build").mkdir()
    (package.SOURCE / "build/made.txt").write_text("by the build")
    check_changed_file()
    check_every_change()
    check_git_that_cannot_tell()
