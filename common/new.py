"""new: a project of your own, from a template, renamed throughout: files,
library, package and the namespace of its ops."""

import argparse
import keyword
import re
from pathlib import Path

from workspace import CannotRun, chapters, find_chapter, source_files

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def templates() -> list:
    """Those solutions that have a page of their own."""
    return [c for c in chapters() if (c.solution / "README.md").exists()]


def new(name: str, number: str, folder: str | None) -> None:
    chapter = find_chapter(number.zfill(2))
    if chapter not in templates():
        raise CannotRun(f"chapter {chapter.number} is no template; these are: "
                        + ", ".join(c.number for c in templates()))
    old = re.search(r"^project\((\w+)", (chapter.solution / "CMakeLists.txt")
                    .read_text(), re.M)[1]
    if not NAME.fullmatch(name) or keyword.iskeyword(name) or name == "torch":
        raise CannotRun(f"{name!r} cannot be the name of a package: lower case "
                        "letters, digits and single _, as in my_kernels")
    target = Path(folder or name)
    if target.exists():
        raise CannotRun(f"{target} is there already; name another folder: "
                        f"./workbook new {name} --from {chapter.number} DIR")

    def renamed(text: str) -> str:
        text = re.sub(rf"(?<!kernels-community/){old}(?!s\b)", name, text)
        # The Hub has names of words with dashes.
        text = re.sub(r'^name = ".*"$', lambda m: m[0].replace("_", "-"), text,
                      flags=re.M) if "[general.hub]" in text else text
        return text.replace(f"wb{chapter.number}", name)

    part = target.with_name(target.name + ".part")  # whole or not at all
    for path in [*source_files(chapter.solution),
                 chapter.solution / "README.md"]:
        copy = part / renamed(str(path.relative_to(chapter.solution)))
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(renamed(path.read_text()))
        copy.chmod(path.stat().st_mode)
    part.rename(target)
    commands = re.search(r"```sh\n(.*?)```", (target / "README.md").read_text(),
                         re.S)[1]
    print(f"{target} is made: {len(source_files(target))} files, MIT as the "
          f"workbook.\n\n  cd {target}")
    print("".join(f"  {line}\n" for line in commands.splitlines()), end="")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./workbook new", description=__doc__.removeprefix("new: "))
    parser.add_argument("name", metavar="NAME", help="as my_kernels")
    parser.add_argument("--from", dest="template", metavar="NN", required=True,
                        help=", ".join(f"{c.number} ({c.title})"
                                       for c in templates()))
    parser.add_argument("folder", nargs="?", metavar="DIR",
                        help="that is made; default: NAME")
    arguments = parser.parse_intermixed_args()
    new(arguments.name, arguments.template, arguments.folder)


if __name__ == "__main__":
    main()
