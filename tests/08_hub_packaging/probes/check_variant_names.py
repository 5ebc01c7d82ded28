"""Asks package.py for the names of variants: of any backend and machine, by the
oldest torch, also by one that is older still."""

import os
import platform
import re

import package

from places import point_at

MACHINE = platform.machine()


def check_variant_names():
    for backend, kind in {"cpu": "cpu", "cu130": "cuda", "cu126": "cuda"}.items():
        found = package.kind(backend)
        assert found == kind, f'kind("{backend}") is {found}, and should be {kind}'
        check_name(backend, f"abi210-{backend}-{MACHINE}")
    check_names_of_other_versions()
    check_name_on_another_machine()


def check_name(backend, want, said=""):
    found = package.variant_name(backend)
    want = f"torch-stable-{want}-linux"
    assert found == want, \
        f'{said}variant_name("{backend}") is {found}, and should be {want}' + \
        point_at("package.py", "variant_name(")


def check_names_of_other_versions():
    """Write other versions into build.toml, and brings it back."""
    file = package.SOURCE / "build.toml"
    sections = file.read_text()
    for cpu, cuda in ("2.11", "2.12"), ("2.28", "2.9"), ("3.0", "2.26"):
        file.write_text(re.sub(r"(?m)^cpu = .*", f'cpu = "{cpu}"', re.sub(
            r"(?m)^cuda = .*", f'cuda = "{cuda}"', sections)))
        for backend, oldest in ("cpu", cpu), ("cu126", cuda):
            check_name(backend, f"abi{oldest.replace('.', '')}-{backend}-{MACHINE}",
                       f"with {package.kind(backend)} = {oldest} in build.toml ")
    file.write_text(sections)


def check_name_on_another_machine():
    """Pretends to be one, in all ways in which Python tells it."""
    here, there = os.uname(), "riscv64" if MACHINE == "aarch64" else "aarch64"
    own = os.uname, platform.machine, platform.uname
    os.uname = lambda: os.uname_result((*here[:4], there))
    platform.machine = lambda: there
    platform.uname = lambda: platform.uname_result(*here[:4], there)
    check_name("cpu", f"abi210-cpu-{there}", f"on a machine of {there} ")
    os.uname, platform.machine, platform.uname = own
