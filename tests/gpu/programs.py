"""Copies each chapter's test program and the library that it loads, built once
with the headers of the torch that is here and for 2.10, as `./workbook matrix`
runs them on each libtorch. Not chapter 06's, whose test compiles.

    PYTHONPATH=common programs.py FOLDER
"""

import shutil
import sys
from pathlib import Path

from base.building import build_root
from base.project import BUILD
from base.sheets import chapters
from torch_stable_abi.projects import library_of


def main(folder: Path) -> None:
    names = [c.name for c in chapters() if c.number != "06"
             and (c.tests / "steps.cpp").exists()]
    build_root("release", [n for name in names for n in (name, f"{name}_test")])
    shutil.rmtree(folder, ignore_errors=True)
    for name in names:
        library = library_of(BUILD / "release/solutions" / name)
        assert library, f"no library of {name}"
        (folder / name).mkdir(parents=True)
        shutil.copy(BUILD / f"release/tests/{name}_test", folder / name / "run")
        for file in library.parent.glob("*.so"):
            shutil.copy(file, folder / name)
        (folder / name / "library").write_text(library.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
