"""schemas: compare what a library calls by name with the schemas of libtorch."""

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.libtorch.extension import LOADING_LIMIT
from torch_stable_abi.libtorch.versions import (
    OLDEST,
    as_version,
    in_order,
    numbers,
    supported,
)
from torch_stable_abi.programs import CannotRun
from torch_stable_abi.projects import find_library
from torch_stable_abi.schemas import schema

ASK = Path(schema.__file__).with_name("running.py")


def here() -> list[str]:
    """Return the installed version, and those that the matrix has fetched."""
    cached = [p.name for p in runtimes.CACHE.glob("2.*")
              if numbers(p.name) >= OLDEST]
    return in_order(runtimes.installed(), *cached)


def ask_libtorch(library: Path, version: str) -> dict:
    """Return the calls, and the schemas that a running libtorch has for them."""
    folder = runtimes.root(version) / "lib"
    try:
        done = subprocess.run(
            [sys.executable, ASK, folder / "libtorch_cpu.so",
             library], text=True, capture_output=True, errors="replace",
            env={**os.environ, "LD_LIBRARY_PATH": str(folder)}, timeout=LOADING_LIMIT)
    except subprocess.TimeoutExpired:
        raise CannotRun(f"{library.name} on libtorch {version}: no end of loading it "
                        f"in {LOADING_LIMIT} s") from None
    if done.returncode != 0:
        raise CannotRun(f"{library.name} on libtorch {version}: "
                        + (done.stderr.strip().splitlines() or ["it ended"])[-1]
                        .removeprefix("OSError: "))
    return json.loads(done.stdout)


def read_schemas(version: str) -> dict[str, str] | None:
    """{name: schema} of native_functions.yaml; None if there is no such file,
    as in a libtorch without Python."""
    path = runtimes.root(version).parent / runtimes.SCHEMAS
    if not path.exists():
        if version != runtimes.installed():
            raise CannotRun(f"remove {path.parents[4]}: it was fetched before "
                            "this file was kept, and will be fetched again")
        return None
    return {"aten::" + schema.name_of(text): text for text in re.findall(
        r"^- func: (.*?)\s*$", path.read_text(), re.M)}


def compare(calls: list[str], found: dict[str, str], file) -> dict[str, list]:
    """{call: what is wrong}. `found` is what libtorch said, `file` is what is
    written in the wheel; where both know an op they must agree."""
    result = {}
    for call in calls:
        declared, name = schema.parse(call), schema.name_of(call)
        problems = []
        if not found[call]:
            problems = ["there is no such op"]
        else:
            said = schema.parse(found[call])
            problems = schema.differences(declared, said)
            text = (file or {}).get(name)
            if text and schema.differences(said, schema.parse(text)):
                problems.append(f"native_functions.yaml says otherwise: {text}")
        result[call] = problems
    return result


def check(library: Path, versions: list[str]) -> dict:
    """{version: {call: problems}}, and where each schema came from."""
    result: dict = {"library": library.name, "versions": {}, "sources": {}}
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        answers = list(pool.map(lambda v: ask_libtorch(library, v), versions))
    for version, said in zip(versions, answers):
        file = read_schemas(version)
        result["versions"][version] = compare(
            said["calls"], said["schemas"], file)
        result["sources"][version] = {
            "running": sum(1 for s in said["schemas"].values() if s),
            "native_functions.yaml": None if file is None else sum(
                1 for c in said["calls"] if schema.name_of(c) in file)}
    return result


def show(result: dict) -> None:
    versions = list(result["versions"])
    calls = list(result["versions"][versions[0]])
    print(f"{result['library']} calls {len(calls)} ops by name")
    for call in calls:
        print(f"  {call}")
        texts: dict[str, list[str]] = {}  # problems: the versions that have them
        for version in versions:
            texts.setdefault("\n".join(result["versions"][version][call]),
                             []).append(version)
        for text, on in texts.items():
            print(f"    {' '.join(on) if len(texts) > 1 else 'all'}: " +
                  ("ok" if not text else text.replace("\n", "\n      ")))
    for version, counts in result["sources"].items():
        file = counts["native_functions.yaml"]
        print(f"libtorch {version}: {counts['running']} schemas asked of it, " +
              ("no native_functions.yaml" if file is None else
               f"{file} compared with native_functions.yaml as well"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit status: 0 every call fits, 1 not, 2 could not run"
    parser.add_argument("library", help="a shared library that uses call_op.h or "
                                        "by_name.h, "
                                        "or the folder of its CMakeLists.txt")
    parser.add_argument("--torch", nargs="+", metavar="VERSION",
                        type=lambda text: text if text == "all" else as_version(text),
                        help="as 2.10.0, fetched if need be, or all; default: "
                             "the installed one and those fetched before")


def run(arguments: argparse.Namespace) -> int:
    versions = arguments.torch or here()
    if versions == ["all"]:
        versions = in_order(*supported(), runtimes.installed())
    library = find_library(arguments.library)
    for version in versions:
        if not runtimes.whole(version):
            print(f"Fetching torch {version}: 0.5 to 0.9 GB", file=sys.stderr)
            runtimes.fetch(version)
    result = check(library, versions)
    show(result)
    wrong = sum(1 for found in result["versions"].values()
                for problems in found.values() if problems)
    checked = sum(map(len, result["versions"].values()))
    print(f"{checked - wrong} of {checked} fit" +
          ("" if arguments.torch else "; --torch all adds the versions that are "
           "not here" if len(versions) < len(supported()) else ""))
    return 1 if wrong else 0
