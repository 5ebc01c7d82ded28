"""Runs `port` on public extensions, and writes docs/results/port.json.

    PYTHONPATH=common .venv/bin/python docs/tools/port_extensions.py FOLDER

FOLDER has a clone of each repository that EXTENSIONS names, and the source packages of
vLLM that VLLM names, unpacked. Where somebody has ported the extension, what that port
changed is what counts: of its lines that speak of PyTorch, how many are done, or named;
and what is named that it left as it was. A line speaks of PyTorch if it has a name of
at, c10 or torch, a macro, a header, or a method that is an op. Lines that the port
changed for its own reasons, such as names of its macros, do not count."""

import datetime
import difflib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import base  # noqa: F401  (lets the package be imported)
from base.project import ROOT
from base.requirements import install

install("port")
from torch_stable_abi.libtorch import aten  # noqa: E402
from torch_stable_abi.port import porting, report  # noqa: E402

RESULT = ROOT / "docs/results/port.json"
COMMUNITY = "kernels-community"
# torchvision's history is read from adabeyta's fork, who ported it: it is smaller.
# A name, a clone, the commit and the folder; then the commit of the finished port, and
# files of it that have another name there.
EXTENSIONS = (
    ("causal-conv1d", "causal-conv1d", "0d2252d", "csrc"),
    ("detectron2", "detectron2", "02b5c4e", "detectron2/layers/csrc"),
    ("fast-hadamard-transform", "fast-hadamard-transform", "e7706fa", "csrc"),
    ("mamba, selective_scan", "mamba", "e9594ce", "csrc"),
    ("pyg-lib", "pyg-lib", "764e3a49", "pyg_lib/csrc"),
    ("pytorch3d", "pytorch3d", "9381c40", "pytorch3d/csrc"),
    ("pytorch_cluster", "pytorch_cluster", "3d1d9e3", "csrc"),
    ("pytorch_scatter", "pytorch_scatter", "648dda3", "csrc"),
    ("SageAttention", "SageAttention", "d1a57a5", "csrc"),
    ("activation of vLLM", COMMUNITY, "2f7c4528^", "activation", "2f7c4528", {}),
    ("flash-attn2", COMMUNITY, "2d6ecf3c^", "flash-attn2", "2d6ecf3c", {}),
    ("flash-attn3 of vLLM", COMMUNITY, "092ae2b6^", "vllm-flash-attn3", "092ae2b6",
     {"flash-attn/flash_api.cpp": "flash-attn/flash_api_stable.cpp"}),
    ("torchvision", "vision", "e50e24b6^", "torchvision/csrc", "c33b16a9",
     {"io/image/common.cpp": "io/image/common_stable.cpp",
      "io/image/common.h": "io/image/common_stable.h"}),
    ("torchcodec", "torchcodec", "6f10da06^", "src/torchcodec/_core", "bdccc0b0", {}),
    ("xformers", "xformers", "6d6e6f0a^", "xformers/csrc", "a6991050", {}),
    ("torchao", "ao", "df0fde39^", "torchao/csrc/cuda", "aa9be683", {}))
UNPORTED = re.compile(r"#\s*include\s*<(?:ATen|torch/library\.h)")
SOURCES = r"\.(cpp|cc|cu|cuh|h|hpp)$"
# Two releases on PyPI: what moved from csrc/ to csrc/libtorch_stable/ between them.
VLLM = ("vllm-0.21.0", "vllm-0.22.0")


def export(clone: Path, commit: str, path: str, folder: Path) -> None:
    """Write the sources of a commit into a folder."""
    listed = git(clone, "ls-tree", "-r", "--name-only", commit, path).splitlines()
    for name in listed:
        if re.search(SOURCES, name):
            file = folder / Path(name).relative_to(path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(subprocess.run(
                ["git", "-C", clone, "show", f"{commit}:{name}"], check=True,
                capture_output=True).stdout)


def git(clone: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", clone, *words], check=True, text=True,
                          capture_output=True).stdout


def lines_that_go(old: list[str], new: list[str]) -> set[int]:
    """Return the numbers of the lines that a change removes or replaces, without those
    that are empty or only moved by their indentation."""
    old, new = [[" ".join(line.split()) for line in text] for text in (old, new)]
    found = set()
    for tag, begin, end, *_ in difflib.SequenceMatcher(
            None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            found |= {i + 1 for i in range(begin, end) if old[i]}
    return found


def speaks_of_torch(line: str) -> bool:
    code = line.partition("//")[0]
    if re.search(r"\b(at|c10|torch|pybind11|py)::|\b(TORCH|AT|C10|PYBIND11)_[A-Z0-9_]+|"
                 r"#\s*include\s*[<\"](ATen|c10|torch|pybind11)/", code):
        return True
    return any(aten.schemas_of(name) or name in ("data_ptr", "options", "device_of")
               for name in re.findall(r"(?:\.|->)(\w+)(?=[<(])", code))


def compare(one: report.Ported, finished: str) -> dict[str, int]:
    """Return how the lines that a finished port changed stand after `port`."""
    old = one.old.splitlines()
    changed = lines_that_go(old, finished.splitlines())
    theirs = {number for number in changed if speaks_of_torch(old[number - 1])}
    ours = lines_that_go(old, one.new.splitlines())
    named = {finding.line for finding in one.findings if finding.kind in report.LEFT}
    return {"changed": len(theirs), "done": len(theirs & ours - named),
            "named": len(theirs & named),
            "needless": len(named - changed), "left": len(named)}


def measure(name: str, clone: Path, commit: str, path: str, finished: str = "",
            renamed: dict | None = None) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before"), Path(folder, "after")
        export(clone, commit, path, before)
        files, result = port(git(clone, "rev-parse", commit).strip(), before)
        if finished:
            export(clone, finished, path, after)
            result["finished"] = {
                "commit": git(clone, "rev-parse", finished).strip(),
                **compare_all(files, before, after, renamed or {})}
        return result


def measure_vllm(folder: Path) -> dict:
    old, new = (folder / name / "csrc" for name in VLLM)
    with tempfile.TemporaryDirectory() as copied:
        before, after = Path(copied), new / "libtorch_stable"
        for file in sorted(after.rglob("*")):
            relative = file.relative_to(after)
            if re.search(SOURCES, file.name) and (old / relative).exists() and \
                    not (new / relative).exists():
                (before / relative).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(old / relative, before / relative)
        files, result = port(VLLM[0], before)
        result["finished"] = {"commit": VLLM[1],
                              **compare_all(files, before, after, {})}
        return result


def port(commit: str, folder: Path) -> tuple[list[report.Ported], dict]:
    files, _ = porting.port([str(folder)])
    counts = {kind: sum(f.count(kind) for f in files) for kind in (
        "done", "differs", "yours", "no counterpart", "unknown")}
    headers, target = report.find_floor(files)
    return files, {
        "commit": commit, "files": len(files),
        "lines": sum(f.old.count("\n") for f in files), **counts,
        "headers": headers, "target": target}


def compare_all(files: list[report.Ported], before: Path, after: Path, renamed: dict
                ) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in files:
        relative = str(one.path.relative_to(before))
        other = after / renamed.get(relative, relative)
        text = other.read_text(errors="surrogateescape") if other.exists() else ""
        if text and text != one.old and not UNPORTED.search(text):
            for key, value in compare(one, text).items():
                total[key] = total.get(key, 0) + value
    return total


def main() -> None:
    folder = Path(sys.argv[1])
    results = {}
    for name, clone, *rest in EXTENSIONS:
        results[name] = measure(name, folder / clone, *rest)
        print(name, results[name])
    results["33 files of vLLM"] = measure_vllm(folder)
    print(results["33 files of vLLM"])
    RESULT.write_text(json.dumps({
        "schema": 1, "what": "port", "date": datetime.date.today().isoformat(),
        "extensions": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
