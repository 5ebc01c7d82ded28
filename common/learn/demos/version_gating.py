"""Chapter 06: a target of 0x0210..., meant as 2.10. The chapter's library is
built so without the guard of compat.h, then rightly, then with the guard."""

import re
from collections.abc import Callable
from pathlib import Path

from base.project import ROOT
from learn.demos import FOLDER, build_once, call_op, compile_source, fold
from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.programs import CannotRun

OTHERS = RECORDED = ["2.10.0"]

SOLUTION = ROOT / "solutions/06_version_gating"
GUARD = re.compile(r"^#if !defined\(TORCH_TARGET_VERSION\)\n.*?^#endif\n",
                   re.M | re.S)
WRONG, RIGHT = "0x0210000000000000", "0x020a000000000000"


def show(versions: list[str], say: Callable[[str], None]) -> bool:
    source = _without_guard()
    good = True
    for target, why in ((WRONG, "which its author took for 2.10"),
                        (RIGHT, "which is 2.10")):
        say(f"Without the guard, target {target}, {why}:")
        try:
            library = build_once(f"lib{target}.so", source, *_options(target))
        except CannotRun as error:  # since 2.15 torch's headers have a guard
            say(f"{_error(str(error))}\n")
            continue
        for version in [runtimes.installed(), *versions]:
            works, text = call_op(version, library, "abi_report")
            good = good and (works or target == WRONG)
            say(f"  {version:<9} {text}")
        say("")
    say(f"With the guard, target {WRONG}:")
    text = compile_source(FOLDER / "guarded.so", SOLUTION / "version_gating.cpp",
                    *_options(WRONG))
    say(_error(text))
    return good and "#error" in text


def _options(target: str) -> list[str]:
    return ["-std=c++17", "-shared", "-DNAMESPACE=wb06",
            f"-DTORCH_TARGET_VERSION={target}"]


def _without_guard() -> Path:
    folder = FOLDER / "without_guard"
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "version_gating.cpp"
    for path in SOLUTION.glob("*.[ch]*"):
        text = GUARD.sub("", path.read_text())
        copy = folder / path.name
        if not copy.exists() or copy.read_text() != text:
            copy.write_text(text)
            source.touch()
    return source


def _error(text: str) -> str:
    found = re.search(r'error: (?:#error )?"?(.*?)"?$', text, re.M)
    return fold("  does not compile: " +
                   (f"#error {found[1]}" if found else text))
