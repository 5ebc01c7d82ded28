#!/usr/bin/env python3
"""Measures the chapters 07 and 08 on a GPU, in parts of at most 8 minutes each.
Needs torch for CUDA, neither nvcc nor a network.

    measure.py FOLDER OUT [--part NAME]... [--quick]
    measure.py --join FILE RESULT...

FOLDER is what build.sh made. OUT gets 07_cuda_activation_kernel.json, written
anew after each command, and a log for each part. A part that fails, or takes too
long, does not keep the next from running; the exit status is 1 then. With --part
only the named ones run, in the order below, and replace what OUT has of them.
--join makes one file of the results of several runs; the later ones count.

    check     07's ops beside double, on every path; a first launch in a capture
    speed07   07 beside its steps, a copy, ATen, torch.compile, engines' kernels
    check08   08's package beside double, in a model, under torch.compile
    package   07's and 08's own tests, where `kernels` and pytest are
    programs  each chapter's test program, built here, on the torch that is there
    variants  other ways to cut and to launch 07's kernel
    sanitize  07 under compute-sanitizer, where that is
    profile   07 under ncu, where that is

Exit status 77: there is no GPU, and nothing was run.
"""

import argparse
import csv
import datetime
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "07_cuda_activation_kernel"
LIMIT = 480  # seconds, of a part
STATUSES = ["skipped", "passed", "running", "timeout", "failed"]
SIZES = [(16, 4096), (256, 14336), (16384, 14336)]
METRICS = ",".join([
    "gpu__time_duration.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes.sum", "sm__warps_active.avg.pct_of_peak_sustained_active",
    "launch__registers_per_thread", "launch__occupancy_limit_registers",
    "smsp__inst_executed.sum"])


@dataclass
class Command:
    what: str
    words: list
    seconds: int = LIMIT  # at most
    needs: str = ""       # a program, without which it is not run
    environment: dict = field(default_factory=dict)


def parts(folder: Path, out: Path, quick: bool) -> dict[str, list[Command]]:
    """Return the parts, the most valuable first, should the time end early."""
    def script(name, *words):
        return [sys.executable, HERE / name, *words]

    library = folder / "python/cuda_activation_kernel" / \
        "libcuda_activation_kernel.so"
    device = script("device.py", "--library", library)
    bench = script("bench.py", "--library", library, "--versions",
                   folder / "libversions.so", "--json", out / "speed07.json",
                   *(["--quick"] if quick else []))
    variants = script("variants.py", "--library", library, "--versions",
                      folder / "libversions.so", "--variants",
                      folder / "libvariants.so", "--json", out / "variants.json")
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
              "-c", os.devnull, "--rootdir", folder]
    site = wheels(folder, out)
    found = {
        "check": [
            Command("first launch in a capture", [*device, "--first-in-capture"],
                    90),
            Command("ops", [*device, *(["--small"] if quick else [])], 300)],
        "speed07": [Command("benchmark", bench)],
        "check08": [Command("package", script("device_package.py", folder),
                            300, environment=joined(
                                site, folder / "activation/tests"))],
        "package": [
            Command("08", [*pytest, "-k", "cuda", folder / "activation/tests"], 240,
                    environment={
                        "LOCAL_KERNELS":
                            f"your-name/activation={folder / 'activation'}",
                        **site}),
            Command("07", [*pytest, "-k", "cuda or capture or devices",
                           folder / "tests"], 240,
                    environment=joined(site, folder / "python"))],
        "programs": [
            Command(path.name, [path / "run", f"--library={path / name}"], 60,
                    environment={"LD_LIBRARY_PATH": torch_library()})
            for path in sorted((folder / "programs").glob("*"))
            for name in [(path / "library").read_text()]],
        "variants": [Command("variants", variants)],
        # Each tensor has an allocation of its own, whose ends the tool knows. What
        # is initialised by other kernels, initcheck sees only if it checks them.
        "sanitize": [Command(
            tool, ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1",
                   "--print-limit", "5",
                   *([] if tool == "initcheck" else ["--kernel-name", "kns=2wb"]),
                   *device, "--small"], 115, "compute-sanitizer",
            {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
            for tool in ("memcheck", "racecheck", "initcheck", "synccheck")],
        "profile": [Command(
            f"bfloat16 {rows} x {d}",
            ["ncu", "--csv", "--metrics", METRICS, "-k", "vectorized",
             "--launch-count", "1", *device, "--once", rows, d, "bfloat16"], 90,
            "ncu") for rows, d in SIZES]}
    if not can_import("pytest", "kernels", extra=site):
        for command in found["package"]:
            command.needs = "kernels package"
    return found


def torch_library() -> str:
    """The folder of libtorch, for a program that is not Python's."""
    spec = importlib.util.find_spec("torch")
    return str(Path(spec.origin).parent / "lib") if spec and spec.origin else ""


def wheels(folder: Path, out: Path) -> dict[str, str]:
    """An environment with what FOLDER/wheels has, installed when first asked."""
    there = sorted((folder / "wheels").glob("*.whl"))
    if not there:
        return {}
    site = Path(tempfile.gettempdir()) / f"{NAME}-site-{os.getuid()}"
    if not site.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q",
                        "--no-index", "--no-deps", "--target", site, *there],
                       check=False, stdout=sys.stderr)
    return {"PYTHONPATH": str(site)}


def joined(environment: dict[str, str], first: Path) -> dict[str, str]:
    """`environment` with a folder before what its Python imports from."""
    return {"PYTHONPATH": os.pathsep.join(
        filter(None, [str(first), environment.get("PYTHONPATH")]))}


def can_import(*names, extra) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", "import " + ", ".join(names)],
        env={**os.environ, **extra}, capture_output=True)
    return done.returncode == 0


def run(command: Command, seconds: float, log) -> dict:
    """Run the command until it ends or its time is up, and return what became of it."""
    result = {"what": command.what, "status": "skipped", "seconds": 0}
    if command.needs and shutil.which(command.needs) is None:
        return {**result, "tail": f"not run: no {command.needs}"}
    begin = time.monotonic()
    limit = min(command.seconds, seconds)
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            process = subprocess.Popen(
                list(map(str, command.words)), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1",
                     **command.environment})
            try:
                code = process.wait(timeout=max(1, limit))
                status = {0: "passed", 77: "skipped"}.get(code, "failed")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = "timeout"
        except OSError as error:
            status = "failed"
            output.write(str(error))
        output.seek(0)
        text = output.read()
    if command.needs == "ncu":
        result["metrics"] = metrics(text)
        if "ERR_NVGPUCTRPERM" in text:  # counters are for administrators here
            status = "skipped"
    log.write(f"== {command.what}: {' '.join(map(str, command.words))}\n{text}\n")
    log.flush()
    return {**result, "status": status,
            "seconds": round(time.monotonic() - begin, 1), "tail": text[-3000:]}


def metrics(text: str) -> dict[str, str]:
    """What ncu --csv says, below what else is printed."""
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines) if '"Metric Name"' in line]
    return {row["Metric Name"]:
            f"{row['Metric Value']} {row['Metric Unit']}".strip()
            for row in csv.DictReader(lines[heads[0]:])
            if row.get("Metric Name") and row.get("Metric Value")} \
        if heads else {}


def write(path: Path, result: dict) -> None:
    """All or nothing, so that whoever reads it meanwhile finds a whole one."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(path)


def worst(statuses) -> str:
    return max(statuses, default="skipped", key=STATUSES.index)


def run_parts(chosen: dict[str, list[Command]], out: Path, result: dict,
              limit: float = LIMIT) -> int:
    """Run them all; `result` is in OUT after every command."""
    path = out / f"{NAME}.json"
    for name, commands in chosen.items():
        end = time.monotonic() + limit
        done = result["parts"][name] = {"status": "running", "commands": []}
        write(path, result)
        with open(out / f"{name}.log", "w") as log:
            for command in commands:
                row = run(command, end - time.monotonic(), log)
                done["commands"].append(row)
                print(f"{name}: {row['what']}: {row['status']}, "
                      f"{row['seconds']} s", flush=True)
                if row["status"] != "passed":
                    print(row["tail"][-1500:], flush=True)
                write(path, result)
        done["status"] = worst(r["status"] for r in done["commands"])
        for made in ("speed07", "variants"):
            file = out / f"{made}.json"
            if name == made and file.exists():
                result.update(json.loads(file.read_text()))
        write(path, result)
    for name, part in result["parts"].items():
        print(f"{name:9} {part['status']}")
    return int(worst(part["status"] for part in result["parts"].values())
               in STATUSES[2:])


def machine() -> dict | None:
    """The GPU and the versions, or None where there is no GPU."""
    done = subprocess.run([sys.executable, "-c", """
import json, platform, torch
p = torch.cuda.get_device_properties(0)
print(json.dumps({"hardware": {
    "gpu": p.name, "multiprocessors": p.multi_processor_count,
    "l2_mb": p.L2_cache_size / 1e6, "memory_gb": p.total_memory / 1e9},
    "software": {"torch": torch.__version__, "cuda": torch.version.cuda,
                 "python": platform.python_version()}}))
"""], text=True, capture_output=True)
    if done.returncode != 0:
        print("".join(done.stderr.strip().splitlines(True)[-1:]))
        return None
    found = json.loads(done.stdout)
    smi = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,clocks.max.mem,"
         "power.limit", "--format=csv,noheader"], text=True,
        capture_output=True) if shutil.which("nvidia-smi") else None
    line = smi.stdout.strip().split("\n")[0] if smi else ""
    driver, *limits = [*map(str.strip, line.split(",")), "", "", ""][:4] \
        if line else ["unknown", "", "", ""]
    found["software"]["driver"] = driver
    found["hardware"]["limits"] = ", ".join(filter(None, limits))
    return found


def fresh(folder: Path, out: Path, quick: bool, about: dict) -> dict:
    """An empty result, or the one of OUT if it is of the same build."""
    code = json.loads((folder / "machine_code.json").read_text())
    path = out / f"{NAME}.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    if before.get("machine_code") == code and before.get("quick") == quick:
        return {**before, **about}
    return {"schema": 2, "chapter": NAME, "quick": quick,
            "date": datetime.date.today().isoformat(), **about,
            "machine_code": code, "parts": {}, "groups": []}


def join(file: Path, results: list[Path]) -> int:
    """Join the results of several runs in `file`, without what the commands printed,
    since that names places of the machine."""
    joined: dict = {}
    for path in results:
        result = json.loads(path.read_text())
        assert joined.get("machine_code", result["machine_code"]) == \
            result["machine_code"], \
            f"{path} is of another build"
        for part in result["parts"].values():
            for command in part["commands"]:
                command.pop("tail", None)
        partial = {**joined.get("parts", {}), **result["parts"]}
        groups = result["groups"] or joined.get("groups", [])
        joined = {**joined, **result, "parts": partial, "groups": groups}
    write(file, joined)
    return 0


def main() -> int:
    if sys.argv[1:2] == ["--join"]:
        return join(Path(sys.argv[2]), list(map(Path, sys.argv[3:])))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", action="append", choices=[
        "check", "speed07", "check08", "package", "programs", "variants",
        "sanitize", "profile"])
    parser.add_argument("--quick", action="store_true", help="a minute or two")
    options = parser.parse_args()
    os.environ["PATH"] += os.pathsep + "/usr/local/cuda/bin"
    folder, out = options.folder.resolve(), options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    about = machine()
    if about is None:
        print("compiled, not run: there is no GPU here that torch can use")
        return 77
    found = parts(folder, out, options.quick)
    chosen = {name: commands for name, commands in found.items()
              if not options.part or name in options.part}
    result = fresh(folder, out, options.quick, about)
    return run_parts(chosen, out, result)


if __name__ == "__main__":
    sys.exit(main())
