"""schemas: compare what a library calls by name with the schemas of libtorch.

    ./workbook schemas LIBRARY                          on the versions that are here
    ./workbook schemas LIBRARY --torch all              on all of them
    ./workbook schemas --print aten::sum.dim_IntList    a schema, and the call for it

LIBRARY is a file, a wheel, a Hub variant, or the folder of a CMakeLists.txt. Its calls
go through call_op.h or by_name.h, which list them."""

import argparse
import json
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torch_stable_abi.cli import positive
from torch_stable_abi.files import refuse_unwritable
from torch_stable_abi.libtorch import extension, runtimes
from torch_stable_abi.libtorch.versions import OLDEST, in_order, numbers, supported
from torch_stable_abi.programs import CannotRun
from torch_stable_abi.programs import run as run_program
from torch_stable_abi.projects import find_library
from torch_stable_abi.schemas import calling, schema

ASK = Path(schema.__file__).with_name("running.py")
SHAPE = 1  # of the JSON: a larger number, if a key is renamed or goes
# A line of readelf's, of what calls ops by name.
SYMBOL = re.compile(r" (\w+) +(\w+) +(\w+) (call_op_declared|(?:aoti_)?torch_call_"
                    r"dispatcher)(?:@\S+)?(?: \(\d+\))?$", re.M)


def here() -> list[str]:
    """Return the installed version, and those that the matrix has fetched."""
    cached = [p.name for p in runtimes.CACHE.glob("2.*")
              if numbers(p.name) >= OLDEST]
    return in_order(runtimes.installed(), *cached)


def ask_libtorch(library: Path, version: str, others: list[Path] | None = None,
                 ops: list[str] | None = None, seconds: float = 0) -> dict:
    """Return the calls, and the schemas that a running libtorch has for them; of `ops`,
    if any are given. `others` are loaded before, all in `seconds`."""
    words = [word for path in others or [] for word in ("--load", str(path))]
    words += [word for op in ops or [] for word in ("--op", op)]
    with tempfile.TemporaryDirectory() as stubs:
        said = extension.ask([ASK, *words], library, version, Path(stubs),
                             seconds or extension.Limits.load, [], lambda: ["--lazy"])
    if "refused" in said:
        raise CannotRun(f"{library.name} on libtorch {version}: {said['refused']}")
    return said


def read_schemas(version: str) -> dict[str, str] | None:
    """Return {name: schema} of native_functions.yaml; None if there is no such file,
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
    """Return {call: what is wrong}. `found` is what libtorch said, `file` is what is
    written in the wheel; where both know an op they must agree."""
    result = {}
    for call in calls:
        declared, name = schema.parse(call), schema.name_of(call)
        problems = []
        if not found[call]:
            problems = ["there is no such op" + (
                "" if name.startswith("aten::") else "; a library that defines it is "
                "named by --load")]
        else:
            said = schema.parse(found[call])
            problems = schema.differences(declared, said)
            text = (file or {}).get(name)
            if text and schema.differences(said, schema.parse(text)):
                problems.append(f"native_functions.yaml says otherwise: {text}")
        result[call] = problems
    return result


def check(library: Path, versions: list[str], others: list[Path] | None = None,
          seconds: float = 0) -> dict:
    """Return {version: {call: problems}}, where each schema came from, and why a
    version could not be asked."""
    result: dict = {"library": library.name, "versions": {}, "sources": {},
                    "errors": {}}

    def ask(version: str) -> dict:
        try:
            return {**ask_libtorch(library, version, others, None, seconds),
                    "file": read_schemas(version)}
        except CannotRun as error:
            return {"error": str(error)}

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        answers = list(pool.map(ask, versions))
    for version, said in zip(versions, answers):
        if "error" in said:
            result["errors"][version] = said["error"]
            continue
        file = said["file"]
        result["versions"][version] = compare(
            said["calls"], said["schemas"], file)
        result["sources"][version] = {
            "running": sum(1 for s in said["schemas"].values() if s),
            "native_functions.yaml": None if file is None else sum(
                1 for c in said["calls"] if schema.name_of(c) in file)}
    return result


def explain_no_list(library: Path) -> tuple[bool, str]:
    """Return whether a library may call ops by name, and why there is no list of these
    calls; an empty text if there is one, or if it is no library."""
    done = run_program(["readelf", "-sW", library])
    symbols = SYMBOL.findall(done.stdout)
    lists = [(bind, place) for bind, _, place, name in symbols
             if name == "call_op_declared"]
    if done.returncode or any(bind != "LOCAL" and place != "UND"
                              for bind, place in lists):
        return True, ""
    if lists:
        return True, (f"{library.name} hides its list of calls: let its linker script "
                      "leave call_op_declared visible")
    if not symbols:
        return False, (f"{library.name} calls no op by name: it does not take "
                       "torch_call_dispatcher of libtorch")
    doubt = "" if "'.symtab'" in done.stdout else ", or is stripped and hides its list"
    return True, (f"{library.name} declares no call: it calls ops by name, but not "
                  f"through call_op.h or by_name.h{doubt}{find_names(library)}.\n"
                  "trace shows what it calls while it runs, and --print what a call "
                  "passes")


def find_names(library: Path) -> str:
    """Return what in a library's text may be the name of an op."""
    found = sorted({name.decode() for name in re.findall(
        rb"(?<=\0)aten::\w+(?=\0)", library.read_bytes())})
    return f". It holds the names {extension.shorten(found)}" if found else ""


def show(result: dict) -> None:
    versions = list(result["versions"])
    calls = list(result["versions"][versions[0]]) if versions else []
    if versions:
        print(f"{result['library']} calls {len(calls)} " +
              ("op" if len(calls) == 1 else "ops") + " by name")
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
    for error in result["errors"].values():
        print(f"not compared: {error}")


def check_libraries(libraries: list[Path], versions: list[str], others: list[Path],
                    seconds: float) -> tuple[int, list[dict]]:
    """Print what is wrong with the calls of each library. Return the exit status, and
    the results."""
    results, unlisted = list[dict](), list[str]()
    for library in libraries:
        calls, why = explain_no_list(library)
        if not why:
            results.append(check(library, versions, others, seconds))
            show(results[-1])
        elif calls:
            unlisted.append(why)
        else:
            print(why)
    errors = [error for result in results for error in result["errors"].values()]
    if not any(result["versions"] for result in results) and errors + unlisted:
        raise CannotRun("\n".join(dict.fromkeys(errors + unlisted)))
    for why in unlisted:
        print(f"not compared: {why}")
    problems = [found for result in results for on in result["versions"].values()
                for found in on.values()]
    wrong = sum(map(bool, problems))
    if results:
        print(f"{len(problems) - wrong} of {len(problems)} fit")
    return 1 if wrong else 2 if errors or unlisted else 0, results


def print_schemas(names: list[str], versions: list[str], others: list[Path]) -> int:
    """Print each op's schema on each version, and the call by name that it wants.
    Return the exit status."""
    status = 0
    answers = {v: ask_libtorch(extension.find_libtorch(v), v, others, names)["schemas"]
               for v in versions}
    for name in names:
        texts: dict[str, list[str]] = {}
        for version in versions:
            texts.setdefault(answers[version][name], []).append(version)
        for text, on in texts.items():
            print(f"{' '.join(on)}: {text or f'there is no op {name}'}")
            status = status if text else 1
            if text:
                print("".join(f"  {line}\n" for line in calling.describe(text)), end="")
    return status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ("exit status: 0 every call fits, 1 not, 2 a version could not be "
                     "asked, or a library lists no call and may make some")
    parser.add_argument("library", nargs="*", metavar="LIBRARY",
                        help="which uses call_op.h or by_name.h")
    parser.add_argument("--torch", nargs="+", metavar="VERSION", default=[],
                        help="as 2.10.0, fetched if need be, or all; default: "
                             "the installed one and those fetched before")
    parser.add_argument("--load", action="append", default=[], metavar="LIBRARY",
                        help="load it before, for ops that it defines")
    parser.add_argument("--load-seconds", type=positive, metavar="N",
                        default=extension.Limits.load,
                        help="that loading may take on each version (default: "
                             "%(default)g)")
    parser.add_argument("--print", action="append", default=[], metavar="OP",
                        dest="ops", help="show the schema of an op such as "
                        "aten::sum.dim_IntList on each version, and the call by name")
    parser.add_argument("--json", metavar="FILE", help="write the result there")


def run(arguments: argparse.Namespace) -> int:
    versions = list[str]()
    given = list(arguments.library)
    for word in arguments.torch:  # which takes all that stands behind it
        is_version = word == "all" or re.fullmatch(r"2\.\d+\.\d+", word)
        if not is_version and not Path(word).exists():
            raise CannotRun(f"--torch must be a version such as 2.12.1, got {word}")
        (versions if is_version else given).append(word)
    chosen = bool(versions)
    versions = in_order(*supported(), runtimes.installed()) if "all" in versions \
        else versions or here()
    if arguments.ops and arguments.json:
        raise CannotRun("--json is for the calls of a library, not for --print")
    if len(given) != (0 if arguments.ops else 1):
        raise CannotRun("name one library, or an op by --print; a version is such as "
                        f"2.12.1: got {' '.join(given) or 'nothing'}")
    if arguments.json:
        refuse_unwritable(Path(arguments.json), "--json")
    others = [find_library(other) for other in arguments.load]
    with tempfile.TemporaryDirectory() as folder:
        libraries = [] if arguments.ops else extension.find_subject(
            given, Path(folder)).libraries
        for version in versions:
            if not runtimes.whole(version):
                print(f"Fetching torch {version}: 0.5 to 0.9 GB", file=sys.stderr)
                runtimes.fetch(version)
        if arguments.ops:
            return print_schemas([op if "::" in op else f"aten::{op}"
                                  for op in arguments.ops], versions, others)
        status, results = check_libraries(libraries, versions, others,
                                          arguments.load_seconds)
    if results and not chosen and len(versions) < len(supported()):
        print("--torch all adds the versions that are not here")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(
            {"schema": SHAPE, "tool": "torch-stable-abi schemas", "results": results},
            indent=1) + "\n")
    return status
