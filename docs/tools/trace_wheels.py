"""./workbook trace on public libraries: each wheel's ops on the CPU, called by a
program in traced/, without the tracer and with it. It writes
docs/results/trace_wheels.json.

    PYTHONPATH=common docs/tools/trace_wheels.py    by the Python that has torch

The wheels come from PyPI, about 70 MB, and stay in the cache. They are built for
CUDA: libraries that have no functions but those that abort stand in for the ones
that a CPU build of torch does not have.
"""

import datetime
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from base.project import ROOT
from torch_stable_abi.files import CACHE
from torch_stable_abi.libtorch.installed import torch_version

PROGRAMS = ROOT / "docs/tools/traced"
FOLDER = CACHE / "traced"
WHEELS = {"torchaudio==2.11.0": "audio", "torchvision==0.29.2": "vision",
          "torchcodec==0.12.0": "codec", "torchcodec==0.17.0": "codec",
          "torch-quickfps==2.1.0": "quickfps", "xformers==0.0.35": "sparse"}
# What they link to: FFmpeg 7, which PyAV brings, and libcudart.
OTHERS = ["av==14.2.0", "nvidia-cuda-runtime==13.0.96",
          "nvidia-cuda-runtime-cu12==12.8.90"]
STAND_INS = {"libtorch_cuda.so": """
aoti_torch_get_current_cuda_stream torch_c10_cuda_check_msg
torch_c10_cuda_free_error_msg torch_cuda_stream_synchronize
torch_get_cuda_stream_from_pool torch_set_current_cuda_stream
""".split(), "libc10_cuda.so": [], "libnvrtc.so.13": []}


def installed(requirement: str) -> Path:
    folder = FOLDER / requirement
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=FOLDER) as partial:
            subprocess.run([
                sys.executable, "-m", "pip", "--disable-pip-version-check", "install",
                "-q", "--no-deps", "--only-binary=:all:", "--target",
                f"{partial}/whole", requirement], check=True)
            Path(partial, "whole").rename(folder)
    return folder


def libraries() -> str:
    """What LD_LIBRARY_PATH is to be."""
    folder = FOLDER / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    for name, functions in STAND_INS.items():
        code = "void abort(void);" + "".join(
            f"void {function}(void) {{ abort(); }}" for function in functions)
        subprocess.run(["cc", "-w", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-x",
                        "c", "-", "-o", folder / name], input=code.encode(),
                       check=True)
    found = [path for requirement in OTHERS for path in
             installed(requirement).rglob("lib*.so*")]
    for path in found:  # libavutil-a5b94d28.so.59.39.100 is libavutil.so.59
        name = re.sub(r"^(lib(?:av|sw)\w+)-\w+(\.so\.\d+).*", r"\1\2", path.name)
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(path)
    return str(folder)


def run(words: list, environment: dict) -> tuple[subprocess.CompletedProcess, float]:
    """And how long the processor worked at it."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    start = used()
    done = subprocess.run(list(map(str, words)), text=True, capture_output=True,
                          env=environment)
    return done, round(used() - start, 1)


def environment_of(requirement: str, folder: str) -> dict:
    return {**os.environ, "PYTHONPATH": str(installed(requirement)),
            "LD_LIBRARY_PATH": folder}


def lost(folder: str) -> dict[str, int]:
    """Return the megabytes that torchcodec's wheels leak, as measured by lost.py,
    without the tracer."""
    return {requirement.replace("==", " "): int(run(
        [sys.executable, PROGRAMS / "lost.py"],
        environment_of(requirement, folder))[0].stdout)
        for requirement, program in WHEELS.items() if program == "codec"}


def result(requirement: str, program: str, folder: str) -> dict:
    environment = environment_of(requirement, folder)
    words = [sys.executable, PROGRAMS / f"{program}.py"]
    outputs = {run(words, environment)[0].stdout}  # which also fills the disk's cache
    plain, seconds = run(words, environment)
    if plain.returncode != 0:
        raise SystemExit(f"{requirement}: {plain.stderr[-2000:]}")
    with tempfile.TemporaryDirectory() as place:
        trace = [ROOT / "workbook", "trace", "--output", Path(place) / "out"]
        whole, _ = run([*trace, "--", *words], environment)
        text = (Path(place) / "out").read_text()
        traced, with_it = run([*trace, "--summary", "--", *words], environment)
        summary = (Path(place) / "out").read_text().rpartition("-" * 60)[2]
    numbers = re.findall(r"kernels called (\d+) times?, ops by name (\d+) times?, "
                         r"functions of the shim (\d+) times?", summary)
    if len(numbers) != 1:
        raise SystemExit(f"{requirement}: {traced.stderr[-2000:]}")
    name, version = requirement.split("==")
    return {
        "name": name, "version": version,
        "ops": sorted(set(re.findall(r"^ *kernel ([\w:.]+)\(", text, re.M))),
        **dict(zip(("kernels", "calls", "functions"), map(int, numbers[0]))),
        "same_output": len(outputs | {
            plain.stdout, traced.stdout, whole.stdout}) == 1,
        "status": [plain.returncode, traced.returncode, whole.returncode],
        "seconds": [seconds, with_it],
        **{of: re.findall(rf"^{of} +(.*)", summary, re.M)
           for of in ("error", "suspicious", "note", "pytorch")}}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    folder = libraries()
    rows = []
    for requirement, program in WHEELS.items():
        rows.append(result(requirement, program, folder))
        print(rows[-1], flush=True)
    (ROOT / "docs/results/trace_wheels.json").write_text(json.dumps({
        "date": datetime.date.today().isoformat(), "torch": torch_version(),
        "wheels": rows, "lost_megabytes": lost(folder)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
