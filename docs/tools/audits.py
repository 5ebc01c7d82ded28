"""Audits public wheels and writes docs/results/audit.json, and of one of them
audit.txt, for docs/audit.md.

    PYTHONPATH=common .venv/bin/python docs/tools/audits.py FOLDER

fetches the wheels into FOLDER, about 2 GB, unless they are there. What
torch-abi-audit says of each is recorded beside it. Both checkers must be
installed, as ./workbook audit and ./workbook check 08 do it.
"""

import datetime
import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from torch_abi_audit import inspect_package

from base.project import ROOT
from torch_stable_abi.audit import checks, subject
from torch_stable_abi.audit.findings import FAIL, WARN
from torch_stable_abi.audit.formats import Result, as_text
from torch_stable_abi.libtorch import surface
from torch_stable_abi.libtorch.versions import numbers

SHOWN = "vllm-gguf-plugin"
WHEELS = """
torchvision==0.29.2 torchvision==0.28.0 torchaudio==2.11.0 torchaudio==2.10.0
torchcodec==0.17.0 torchcodec==0.12.0 torchao==0.18.0 xformers==0.0.35
vllm==0.33.0 vllm-gguf-plugin==0.0.5 humming-kernels==0.1.19 torch-quickfps==2.1.0
zentorch==2.14.0.1 aphrodite-engine==0.24.1 torchrl==0.14.1 torch-harmonics==0.9.3
torch-ans==0.4.0 torchmd-net-cpu==2.4.14 metatomic-torch==0.1.19
metatensor-torch==0.10.8 torch-c-dlpack-ext==0.1.5 fbgemm-gpu-cpu==1.9.0
executorch==1.5.1 bitsandbytes==0.50.2 torchtext==0.18.0 sgl-kernel==0.3.21
torchmonarch==0.7.0 torch-tensorrt==2.14.0
""".split()


RESULTS = ROOT / "docs/results"


def fetched(requirement: str, folder: Path) -> Path:
    name, version = requirement.replace("-", "_").split("==")
    found = list(folder.glob(f"{name}-{version}-*x86_64.whl"))
    if not found:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d",
             folder, "--only-binary=:all:", "--python-version", "3.12",
             *(word for tag in ("_2_34", "_2_28", "_2_27", "_2_24", "2014", "1")
               for word in ("--platform", f"manylinux{tag}_x86_64")), requirement],
            check=True)
        found = list(folder.glob(f"{name}-{version}-*x86_64.whl"))
    return found[0]


def of_another_tool(wheel: Path) -> str:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if ".so" in name:
                archive.extract(name, folder)
        report = inspect_package(Path(folder))
    return " ".join(filter(None, (report.torch_verdict.removeprefix("torch-"),
                                  report.min_torch_display)))


def result(requirement: str, folder: Path) -> dict:
    wheel = fetched(requirement, folder)
    one = subject.open_subject(wheel, str(wheel))
    reports = checks.audit(one)
    name, version = requirement.split("==")
    if name == SHOWN:
        (RESULTS / "audit.txt").write_text(
            as_text([Result(one.name, str(wheel), reports)]) + "\n")
    found: dict[str, list[str]] = {FAIL: [], WARN: []}
    for finding in [f for r in reports for f in r.findings]:
        said = found.get(finding.level, [finding.text])
        if finding.text not in said:
            said.append(finding.text)
    floors = {r.floor for r in reports if r.floor}
    assert one.wheel
    requires = [t for t in one.wheel.metadata.get_all("Requires-Dist", [])
                if re.match(r"torch\b(?![\w-])", t)]
    return {
        "name": name, "version": version, "wheel": wheel.name,
        "floors": sorted(floors, key=numbers),
        "unstable": any(r.bound for r in reports),
        "requires": re.sub(r"[ ()]", "", requires[0]) if requires else "",
        "torch_abi_audit": of_another_tool(wheel), **found}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    wheels = []
    for requirement in WHEELS:
        print(requirement, flush=True)
        wheels.append(result(requirement, folder))
    (RESULTS / "audit.json").write_text(json.dumps({
        "schema": 1, "what": "audit", "date": datetime.date.today().isoformat(),
        "torch_abi_audit": importlib.metadata.version("torch-abi-audit"),
        "libtorch": surface.versions(), "wheels": wheels}, indent=1) + "\n")


if __name__ == "__main__":
    main()
