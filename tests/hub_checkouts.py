"""Other people's material, beside solutions/08_hub_packaging. It is not kept
here: each command takes the path of a checkout.

    PYTHONPATH=common hub_checkouts.py suite KERNELS_COMMUNITY [pytest's options]
        kernels-community/activation's own tests, on the CPU, with our package
        in place of theirs; what is relaxed is shown
    PYTHONPATH=common hub_checkouts.py builder KERNELS
        our package, built by the templates of huggingface/kernels'
        kernel-builder, loaded, and tested as the Hub tests it
    PYTHONPATH=common hub_checkouts.py peer KERNELS_COMMUNITY LIBRARY
        kernels-community/activation's CPU kernels, built for
        ./workbook bench 08 --peer LIBRARY"""

import argparse
import difflib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from base.project import ROOT
from torch_stable_abi.files import read_toml

PACKAGE = ROOT / "solutions/08_hub_packaging"
BUILT = ROOT / "build/release/solutions/08_hub_packaging"

# Each with the number of its places. If that is another one the suite has
# changed, and what is relaxed has to be looked at again.
CHANGES = [
    # A machine without a GPU.
    (r"^CUDA_DEVICES = .*$", 'CUDA_DEVICES = ["cpu"]', 1),
    # test_act_and_mul, of functions and of layers: PyTorch's very bits, of two
    # roundings, become torch.testing's default tolerances.
    (r", atol=0\.0, rtol=0\.0\)", ")", 2),
    # test_activation in bfloat16: no worse than a formula that rounds each step.
    (r"^def (?=gelu_(fast|new)\()", "@hub_checkouts.no_worse\ndef ", 2),
    (r"^import kernels$", "import hub_checkouts\nimport kernels", 1),
    # A PyTorch for CUDA takes the variant for the CPU where it is asked for.
    (r"(?<=version=1)\)$", ', backend="cpu")', 1),
]


def no_worse(formula):
    """Return the formula, for bfloat16 taken in float64. The caller's `out`, which is
    then compared with that, must not be further from it than the formula's own result
    in bfloat16 is."""
    @functools.wraps(formula)
    def reference(x):
        if x.dtype != torch.bfloat16:
            return formula(x)
        exact = formula(x.double())
        out = sys._getframe(1).f_locals["out"]
        ours, theirs = ((y.double() - exact).abs().max()
                        for y in (out, formula(x)))
        assert ours <= theirs, f"off by {ours}, and the original by {theirs}"
        return exact.to(x.dtype)
    return reference


def relaxed(text: str) -> str:
    """Return the suite's text with CHANGES made, which are printed."""
    new = text
    for pattern, replacement, places in CHANGES:
        new, found = re.subn(pattern, replacement, new, flags=re.M)
        if found != places:
            sys.exit(f"hub_checkouts: the suite has {found} x {pattern}, not "
                     f"{places}: look at CHANGES again")
    for line in difflib.unified_diff(
            text.splitlines(), new.splitlines(), "theirs", "run here",
            lineterm="", n=0):
        print(line)
    return new


def environment(**more) -> dict:
    """For a Python that sees this file, torch and the Hub's loader, and no
    network."""
    path = [str(Path(__file__).parent), str(ROOT / "common"),
            *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path),
            "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", **more}


def suite(checkout: Path, *options: str, built: Path = BUILT) -> int:
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder, "tests")
        shutil.copytree(checkout / "activation/tests", tests)
        file = tests / "kernels/test_activation.py"
        file.write_text(relaxed(file.read_text()))
        print(flush=True)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "-W", "ignore::pytest.PytestUnknownMarkWarning", *options, tests],
            cwd=folder, env=environment(
                LOCAL_KERNELS=f"kernels-community/activation={built}")
        ).returncode


def write_build(checkout: Path, package: Path, id: str) -> None:
    """Lays over a package what kernel-builder writes: see its
    src/pyproject/torch/mod.rs."""
    from jinja2 import Environment, FileSystemLoader
    templates = checkout / "kernel-builder/src/pyproject/templates"
    env = Environment(loader=FileSystemLoader(templates), trim_blocks=True)
    toml = read_toml(package / "build.toml")
    general, parts = toml["general"], toml["torch"]
    python_name = general["name"].replace("-", "_")

    def flags(section):
        return {
            "cxx_flags": ";".join(section.get("cxx-flags", [])) or None,
            "includes": ";".join("${CMAKE_SOURCE_DIR}/" + folder
                                 for folder in section.get("include", []))}

    text = env.get_template("torch/preamble.cmake").render(
        name=general["name"], kernel_name=python_name, kernel_unique_id=id,
        python_name=python_name, stable_abi=[
            {"backend": b, "version": v}
            for b, v in parts["stable-abi"].items()])
    text += "\n" + env.get_template("torch/torch-binding.cmake").render(
        name=general["name"], src=parts["src"], **flags(parts))
    for name, kernel in toml["kernel"].items():
        text += "\n" + env.get_template(
            f"kernel-component/{kernel['backend']}.cmake").render(
                name=name, sources="\n".join(f'"{s}"' for s in kernel["src"]),
                **flags(kernel))
    text += "\n" + env.get_template("torch/torch-extension.cmake").render(
        python_name=python_name, data_extensions=[])
    (package / "CMakeLists.txt").write_text(text)
    (package / "cmake").mkdir()
    for name in ("utils.cmake", "kernel.cmake", "torch/build-variants.cmake",
                 "torch/add_build_metadata.py", "torch/get_gpu_lang.cmake",
                 "torch/get_gpu_lang.py", "torch/_ops.py.in"):
        shutil.copy(templates / name, package / "cmake")
    shutil.copy(templates / "torch/registration.h", package / "torch-ext")
    (package / "metadata-cpu.json").write_text(json.dumps({
        "name": general["name"], "id": f"_{python_name}_cpu_{id}",
        "version": general["version"], "license": general["license"],
        "python-depends": [], "backend": {"type": "cpu"}}))


def builder(checkout: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "activation")
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("build"))
        for ours in ("package.py", "CMakeLists.txt", "torch-ext/registration.h",
                     "torch-ext/activation/_ops.py.in"):
            (package / ours).unlink()
        write_build(checkout, package, "1a2b3c4")

        def run(*command, **more):
            subprocess.run(list(map(str, command)), cwd=package, check=True,
                           env=environment(**more))

        run("cmake", "-G", "Ninja", "-B", "cmake-build",
            "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-Wfatal-errors",
            f"-DPython3_EXECUTABLE={sys.executable}")
        run("cmake", "--build", "cmake-build", "-j2")
        run("cmake", "--build", "cmake-build", "--target", "local_install")
        library, = package.glob("build/torch-stable-abi210-cpu-*/*.abi3.so")
        print(f"built: {library.relative_to(package)}", flush=True)
        from kernel_abi_check import ObjectFile
        for found in (ObjectFile(library).check_manylinux("manylinux_2_28"),
                      ObjectFile(library).check_python_abi("3.9")):
            assert found == [], found
        # As its check-abi --torch-stable-abi 2.10 does, by names.
        shims = (checkout / "kernel-abi-check/src/torch_stable_abi/"
                 "shim_function_versions.txt").read_text()
        newer = set(re.findall(r"^(\w+): TORCH_VERSION_2_1[1-9]_", shims, re.M))
        wanted = subprocess.run(
            ["nm", "-D", "--undefined-only", "--format=just-symbols", library],
            text=True, capture_output=True, check=True).stdout.split()
        assert newer and not newer & set(wanted), newer & set(wanted)
        run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "-m", "kernels_ci", "tests",
            LOCAL_KERNELS=f"your-name/activation={package}")
        return 0


def peer(checkout: Path, library: str) -> int:
    """Build the peer's sources as its build.toml says, but with one namespace of ops
    and no Python module. No OpenMP library is linked, since torch has loaded one."""
    source, include = checkout / "activation", Path(torch.__file__).parent / "include"
    toml = read_toml(source / "build.toml")
    compiler = os.environ.get("CXX", "c++")
    objects: list[Path] = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "registration.h").write_text(
            "#define TORCH_LIBRARY_EXPAND(NAME, MODULE) "
            "TORCH_LIBRARY(NAME, MODULE)\n#define REGISTER_EXTENSION(NAME)\n")
        for part in [toml["torch"], *(kernel for kernel in toml["kernel"].values()
                                      if kernel["backend"] == "cpu")]:
            for file in [name for name in part["src"] if name.endswith(".cpp")]:
                objects.append(Path(folder, Path(file).stem + ".o"))
                subprocess.run([
                    compiler, "-std=c++17", "-O3", "-DNDEBUG", "-fPIC",
                    "-DCPU_KERNEL", "-DTORCH_EXTENSION_NAME=kernels_community",
                    f"-I{folder}", "-isystem", include, "-isystem",
                    include / "torch/csrc/api/include",
                    *part.get("cxx-flags", []), "-c", source / file,
                    "-o", objects[-1]], check=True)
        subprocess.run([
            compiler, "-shared", *objects, "-o", library,
            f"-L{include.parent / 'lib'}", "-ltorch_cpu", "-lc10"], check=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["suite", "builder", "peer"])
    parser.add_argument("checkout", type=Path)
    arguments, options = parser.parse_known_args()
    if arguments.what == "suite":
        return suite(arguments.checkout, *options)
    if arguments.what == "peer":
        return peer(arguments.checkout, *options)
    return builder(arguments.checkout)


if __name__ == "__main__":
    sys.exit(main())
