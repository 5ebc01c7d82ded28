"""A package as its user has it: built alone, with the tools of this Python."""

import json
import os
import sysconfig
from pathlib import Path

from hub.processes import ENVIRONMENT
from support import passes
from torch_stable_abi.libtorch.installed import torch_root


def run(*command, cwd, **environment):
    """Return what a command prints that sees torch and the Hub's loader."""
    return passes(*command, cwd=cwd, env={
        **os.environ, **ENVIRONMENT, **environment})


def find_script(name):
    return Path(sysconfig.get_path("scripts"), name)


def build_package(folder, *options, by=""):
    """Run the first command of the package's README. Returns the variants."""
    run("cmake", "-G", "Ninja", "-B", "build", f"-DTORCH_ROOT={torch_root()}",
        "-DACTIVATION_CUDA=OFF", *options, cwd=folder,
        CXX=by or os.environ.get("CXX", "c++"))
    run("cmake", "--build", "build", cwd=folder)
    return sorted((folder / "build").glob("torch*"))


def read_id(variant):
    return json.loads((variant / "metadata.json").read_text())["id"]
