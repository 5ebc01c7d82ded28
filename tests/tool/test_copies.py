"""A checkout that is copied, moved or renamed tests its own files, never those of
another place; and a configuration that failed is not trusted later."""

import os
import shutil
import subprocess

import pytest

from base.project import ROOT
from support import copy_checkout
from torch_stable_abi.libtorch.installed import torch_root

FILE = "my/00_first_extension/first_extension.cpp"


def check(checkout, **environment):
    return call(checkout, "check", "00", **environment)


def call(checkout, *words, **environment):
    done = subprocess.run(
        [checkout / "workbook", *words], text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        env={**{k: v for k, v in os.environ.items()
                if k not in ("PYTHONPATH", "TORCH_ROOT")}, **environment})
    return done.stdout


def solve(checkout):
    shutil.copy(ROOT / "solutions/00_first_extension/first_extension.cpp",
                checkout / FILE)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """One in which 00 has been checked, as an instructor does before it is copied."""
    folder = copy_checkout(tmp_path_factory.mktemp("copies") / "original")
    assert "00.1 Fill in the line: to do" in check(folder)
    return folder


@pytest.mark.full
def test_a_copy_checks_its_own_files(checkout):
    copy = checkout.with_name("copy")
    shutil.copytree(checkout, copy, symlinks=True)
    solve(checkout)
    with open(copy / FILE, "a") as file:
        file.write("no C++\n")
    assert "00 First extension: does not compile" in check(copy)
    assert "00.1 Fill in the line: pass" in check(checkout)
    solve(copy)
    (checkout / FILE).write_text("no C++\n")
    text = check(copy)
    assert "00.1 Fill in the line: pass" in text, text


@pytest.mark.full
def test_a_checkout_that_was_moved(checkout):
    check(checkout)  # other tests of this module write into the file
    moved = checkout.with_name("moved")
    shutil.copytree(checkout, checkout.with_name("kept"), symlinks=True)
    checkout.with_name("kept").rename(moved)
    torch = moved.with_name("torch")  # as in its own .venv, which is moved with it
    torch.symlink_to(torch_root())
    assert "changed since" not in call(moved, "list", TORCH_ROOT=str(torch))
    solve(moved)
    assert "changed since" in call(moved, "list")
    assert "00.1 Fill in the line: pass" in check(moved)


@pytest.mark.full
@pytest.mark.parametrize("compiler", ["that is not there", "that CMake refuses"])
def test_a_compiler_that_fails_breaks_nothing(checkout, tmp_path, compiler):
    solve(checkout)
    cxx = tmp_path / "c++"
    if compiler == "that CMake refuses":
        cxx.write_text('#!/bin/sh\ncase "$*" in *CMake*) exit 1 ;; esac\n'
                       'exec c++ "$@"\n')
        cxx.chmod(0o755)
    text = check(checkout, CXX=str(cxx))
    assert "00.1 ok" not in text and str(cxx) in text, text
    text = check(checkout)
    assert "00.1 ok" in text, text
