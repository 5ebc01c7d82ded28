"""Git repositories of a test's own."""

from support import passes


def run_git(folder, *arguments):
    """Return what git prints, run in a folder as somebody who has a name."""
    return passes("git", "-c", "user.name=a", "-c", "user.email=a@example.org",
                  *arguments, cwd=folder)
