"""The folder of package.py, in a git repository that has other files too."""

import subprocess

import package

FILE = package.SOURCE / "build.toml"
# What somebody may have set, of what the output of git depends on.
SETTINGS = {"core.abbrev": "12", "status.branch": "true", "status.short": "true",
            "color.ui": "always", "status.showUntrackedFiles": "all"}


def git(*arguments):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org",
                    *arguments], cwd=package.SOURCE, check=True,
                   capture_output=True)


def change_settings():
    for key, value in SETTINGS.items():
        git("config", key, value)


def append(text):
    """Change a file that git knows."""
    with open(FILE, "a") as file:
        file.write(text)
