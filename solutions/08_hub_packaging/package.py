"""What CMakeLists.txt asks for around the library:

    package.py id BACKEND HEADER
        writes a header with the build's id, if it has changed
    package.py variant BACKEND HEADER LIBRARY BUILD [ARCH...]
        makes BUILD/<variant>/ as the Kernel Hub's loader wants it

BACKEND is cpu, or cuda and its version as in cu130. Python 3.9 or later."""

import base64
import hashlib
import json
import platform
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
NAME = "activation"


def build_toml(section, key):
    """Return a plain value of build.toml. Python 3.9 has no reader of TOML."""
    text = (SOURCE / "build.toml").read_text().split(f"[{section}]\n")[1]
    return re.search(rf'^{key} = "?([^"\n]*)"?$', text, re.M)[1]


def git(*arguments):
    """Return what git says of this folder, or None where there is no git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=SOURCE, text=True,
                              capture_output=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


#! [id]
def unique_id():
    """Return an id of what is committed here; a random one without git."""
    tree = git("rev-parse", "HEAD:./")
    if tree is None:
        return secrets.token_hex(4)
    changed = git("status", "--porcelain", "--untracked-files=no", ".")
    return tree[:7] if changed == "" else f"{tree[:7]}_dirty"  # None: nobody knows
#! [id]


def kind(backend):
    return "cuda" if backend.startswith("cu") else backend


def write_id(backend, header):
    old = Path(header).read_text() if Path(header).exists() else ""
    prefix = f"_{NAME}_{kind(backend)}_"
    if re.search(rf"{prefix}\w{{8}}$", old) and git("rev-parse", "HEAD:./") is None:
        return  # a random id stays what it is
    new = f"#define TORCH_EXTENSION_NAME {prefix}{unique_id()}\n"
    if new != old:
        Path(header).parent.mkdir(parents=True, exist_ok=True)
        Path(header).write_text(new)


#! [digest]
def digest(folder):
    """Return the SHA-256 of every file of the variant but its own metadata."""
    files = {
        path.relative_to(folder).as_posix():
            base64.b64encode(hashlib.sha256(path.read_bytes()).digest()).decode()
        for path in sorted(folder.rglob("*")) if path.is_file()}
    return {"algorithm": "sha256", "files": files}
#! [digest]


def capability(arch):
    """Return what the Hub calls an architecture of CMake: 7.5 of 75-real, 9.0a+PTX
    of 90a."""
    found = re.fullmatch(r"(\d+)(\d)([af]?)(-real|-virtual)?", arch)
    if found is None:
        sys.exit(f"package.py: CMAKE_CUDA_ARCHITECTURES has {arch!r}: the Hub's "
                 "metadata lists each architecture by its number, as in "
                 "80-real;90a")
    major, minor, feature, kind = found.groups()
    return f"{major}.{minor}{feature}" + ("" if kind == "-real" else "+PTX")


#! [metadata]
def metadata(id, backend, archs, folder):
    """Return what the loader reads before it imports anything."""
    about = {"type": kind(backend)}
    if archs:
        about["archs"] = [capability(arch) for arch in archs]
    return {
        "name": NAME.replace("_", "-"),
        "id": id,
        "version": int(build_toml("general", "version")),
        "license": build_toml("general", "license"),
        "python-depends": [],
        "backend": about,
        "digest": digest(folder),
    }
#! [metadata]


#! [variant]
def variant_name(backend):
    """Return the name of a variant, which has the oldest torch that it runs with."""
    oldest = build_toml("torch.stable-abi", kind(backend)).replace(".", "")
    return f"torch-stable-abi{oldest}-{backend}-{platform.machine()}-linux"
#! [variant]


def make_variant(backend, header, library, build, *archs):
    id = Path(header).read_text().split()[-1]
    for stale in Path(build).glob(f"torch*-{backend}-*"):
        shutil.rmtree(stale)  # of whatever name: all would be published
    folder = Path(build) / variant_name(backend)
    shutil.copytree(SOURCE / "torch-ext" / NAME, folder,
                    ignore=shutil.ignore_patterns("__pycache__", "*.in"))
    template = (SOURCE / "torch-ext" / NAME / "_ops.py.in").read_text()
    (folder / "_ops.py").write_text(template.replace("@ID@", id))
    shutil.copy(library, folder / f"{id}.abi3.so")
    (folder / "metadata.json").write_text(
        json.dumps(metadata(id, backend, list(archs), folder), indent=2) + "\n")
    shutil.copy(SOURCE / "CARD.md", build)


if __name__ == "__main__":
    {"id": write_id, "variant": make_variant}[sys.argv[1]](*sys.argv[2:])
