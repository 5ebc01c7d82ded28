"""Puts every op under fire and writes what was seen to docs/results/fire.json:

    .venv/bin/python tests/fire/record.py [--calls N] [--seconds S]

About ten minutes on two cores with a million calls of each op; needs pytest and
clang. The file is written anew after each proof, so a run that is ended early
leaves those it has. tests/meta/test_fire.py asserts the same, with less."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common"), str(ROOT / "common/tool"),
                str(ROOT / "tests"), str(ROOT / "tests/meta")]

import stamp  # noqa: E402
import test_fire as fire  # noqa: E402
import test_fuzz as fuzz  # noqa: E402


def first_line(*command):
    done = subprocess.run(command, text=True, capture_output=True, check=True)
    return done.stdout.splitlines()[0]


def versions():
    header = (fire.torch_root() / "include/torch/headeronly/version.h")
    number = {name: re.search(rf"#define TORCH_VERSION_{name} (\d+)",
                              header.read_text())
              for name in ("MAJOR", "MINOR", "PATCH")}
    return {"libtorch": ".".join(n[1] for n in number.values() if n),
            "g++": first_line("g++", "--version"),
            "clang++": first_line("clang++", "--version")}


class Proofs:
    def __init__(self, command):
        self.result = {"command": command, "hardware": stamp.hardware(),
                       "versions": versions(), "proofs": []}

    def add(self, name, what, figure, unit):
        self.result["proofs"].append(
            {"name": name, "what": what, "figure": figure, "unit": unit})
        (ROOT / "docs/results/fire.json").write_text(
            json.dumps(self.result, indent=1) + "\n")
        print(f"{name}: {figure} {unit}", flush=True)


def each(call, numbers=fire.ALL):
    """What call(number) gives for each chapter, two at a time."""
    return dict(zip(numbers, fire.at_once(*((call, n) for n in numbers))))


def record(calls, seconds, folder, proofs):
    def sub(name):
        (folder / name).mkdir()
        return folder / name

    plain = fire.made(sub("plain"))
    random = each(lambda n: fire.fire(plain, n, "random", fire.CASES[n]))
    level = {name: fire.fire(plain, "08", "random", 26_000,
                             ACTIVATION_CPU_LEVEL=name)
             for name in ("v3", "baseline")}
    proofs.add("ops", "ops of the eight solutions under fire",
               sum(r["ops"] for r in random.values()), "ops")
    proofs.add("random", "random calls, each result within its tolerance of "
               "long double", sum(
                   r["cases"] for r in [*random.values(), *level.values()]),
               "cases")
    for index, what in enumerate(("float", "half and bfloat16")):
        worst = max(pair[index] for result in [random["08"], *level.values()]
                    for pair in result["worst_ulp"].values())
        proofs.add(f"worst_08_{index}", f"largest error of chapter 08's ops on "
                   f"CPU, {what}, at every instruction set", worst, "ulp")

    flat = each(lambda n: fire.fire(plain, n, "calls", calls))
    proofs.add("calls", "calls of each op, one after another", calls, "calls")
    proofs.add("calls_grown", "memory that the second half of them adds, of the "
               "op that adds most", max(r["grown_kib"] for r in flat.values()),
               "KiB")
    for result in flat.values():
        for op, lost in result["bytes_lost_by_libtorch"].items():
            proofs.add(f"lost_by_libtorch_{op}", f"a call of {op}, whose string "
                       "libtorch loses", round(lost, 1), "bytes")
    each(lambda n: fire.fire(plain, n, "loads", 100))
    proofs.add("loads", "times that each library is loaded, called and unloaded",
               100, "loads")

    list_ = fire.shims([plain[1][n] for n in fire.ALL[1:]], folder)
    program = fire.compile("failures", folder, f'-DSHIMS="{list_}"')
    failed = each(lambda n: fire.fail((program, plain[1]), n), fire.ALL[1:])
    proofs.add("failures", "allocations and calls into libtorch that were let "
               "fail, each reported, and the next call right",
               sum(r["failures"] for r in failed.values()), "failures")
    new = [w for n, r in failed.items() for w in fire.unexpected(n, r["lost"])]
    proofs.add("lost", "ops that then lose what is not known to be lost",
               len(new), "ops")
    for number, known in fire.LOST.items():
        for pattern, why in known:
            hit = [what for n, r in failed.items() for what in r["lost"]
                   if (n if n in fire.LOST else "headers") == number
                   and re.fullmatch(pattern, what.split(": ")[1])]
            where = ("the headers of libtorch" if number == "headers" else
                     f"the conversions of chapter {number}")
            called = pattern.replace(fire.LISTS, "a list function")
            proofs.add(f"known_{number}: {pattern}", f"ops in which {where} lose "
                       f"something when {called.replace('|', ' or ')} fails "
                       f"({why})", len({h.split(": ")[0] for h in hit}), "ops")

    for target in fuzz.TARGETS:
        program = fuzz.compile(target, fuzz.find_chapter(
            fuzz.TARGETS[target][0]).solution, folder / "fuzz")
        runs, edges = fuzz.fuzz(program, seconds)
        proofs.add(f"fuzz_{target}", f"inputs that libFuzzer gave the {target} in "
                   f"{seconds} s, {edges} edges reached", runs, "inputs")

    tsan = fire.made(sub("tsan"), "-fsanitize=thread")
    threads = {n: fire.fire(tsan, n, "threads", seconds) for n in fire.ALL}
    proofs.add("threads", f"calls by eight threads under ThreadSanitizer, "
               f"{seconds} s a chapter, no report",
               sum(r["calls"] for r in threads.values()), "calls")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    proofs = Proofs("python3 tests/fire/record.py "
                    f"--calls {arguments.calls} --seconds {arguments.seconds}")
    with tempfile.TemporaryDirectory() as folder:
        record(arguments.calls, arguments.seconds, Path(folder), proofs)


if __name__ == "__main__":
    main()
