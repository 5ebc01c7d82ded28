"""./workbook matrix where it cannot do its work: it says so, and what it had
begun is gone."""

import base64
import hashlib
import os
import shutil
import threading
import zipfile

import pytest

from torch_stable_abi.libtorch import runtimes
from torch_stable_abi.programs import CannotRun

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/nowhere",
           "PIP_CONFIG_FILE": os.devnull}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(runtimes, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def wheel_of(content, listed):
    """Return a stand-in for a download, which makes a wheel of these files. The
    wheel's own list has the sums of `listed`."""
    def download(requirement, machine, partial):
        folder = partial / "wheels"
        folder.mkdir(parents=True, exist_ok=True)
        record = ""
        with zipfile.ZipFile(folder / "a.whl", "w") as archive:
            for name, data in content.items():
                archive.writestr(name, data)
            for name, data in listed.items():
                digest = base64.urlsafe_b64encode(
                    hashlib.sha256(data).digest()).decode().rstrip("=")
                record += f"{name},sha256={digest},{len(data)}\n"
            archive.writestr("torch-2.10.0.dist-info/RECORD", record)
            archive.writestr("torch-2.10.0.dist-info/METADATA", "Name: torch\n")
        return folder / "a.whl"
    return download


FILES = {"torch/lib/libtorch_cpu.so": b"libtorch", "torch/lib/libc10.so": b"c",
         "torch/include/torch/csrc/stable/library.h": b"header",
         "torch/lib/libtorch_cuda.so": b"large", "torch/__init__.py": b"python"}


def test_only_what_is_needed_is_kept_and_damage_is_seen(cache, monkeypatch):
    monkeypatch.setattr(runtimes, "_download", wheel_of(FILES, FILES))
    assert not runtimes.whole("2.10.0")
    runtimes.fetch("2.10.0")
    kept = {str(p.relative_to(cache / "2.10.0"))
            for p in cache.rglob("*") if p.is_file() and p.name != ".lock"}
    assert kept == {"sums.json", *list(FILES)[:3]}
    assert runtimes.whole("2.10.0")
    (cache / "2.10.0/torch/lib/libc10.so").write_bytes(b"d")
    assert not runtimes.whole("2.10.0")
    runtimes.fetch("2.10.0")
    assert runtimes.whole("2.10.0")


def test_a_wheel_that_is_not_what_its_list_says(cache, monkeypatch):
    listed = {**FILES, "torch/lib/libc10.so": b"x"}
    monkeypatch.setattr(runtimes, "_download", wheel_of(FILES, listed))
    with pytest.raises(CannotRun, match="libc10.so differs"):
        runtimes.fetch("2.10.0")
    assert {p.name for p in cache.iterdir()} == {".lock"}


def test_no_room(cache, monkeypatch):
    monkeypatch.setattr(runtimes, "NEEDED_GB", 1e9)
    with pytest.raises(CannotRun, match="GB are free. Make room"):
        runtimes.fetch("2.10.0")
    assert {p.name for p in cache.iterdir()} == {".lock"}


def test_a_disk_that_fills_up(cache, monkeypatch):
    def full(requirement, machine, partial):
        (partial / "wheels").mkdir(parents=True)
        (partial / "wheels/half").write_bytes(b"half")
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(runtimes, "_download", full)
    with pytest.raises(CannotRun, match="No space left on device"):
        runtimes.fetch("2.10.0")
    assert {p.name for p in cache.iterdir()} == {".lock"}


def test_no_network(cache, monkeypatch):
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CannotRun, match="could not be fetched .a network"):
        runtimes.fetch("2.10.0")
    assert {p.name for p in cache.iterdir()} == {".lock"}


def test_the_size_of_a_folder_that_pip_works_in(tmp_path):
    """It makes and removes folders meanwhile."""
    done = threading.Event()

    def work():
        while not done.is_set():
            (tmp_path / "a/b").mkdir(parents=True, exist_ok=True)
            shutil.rmtree(tmp_path / "a")
    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(3000):
            assert runtimes._size(tmp_path) == 0
    finally:
        done.set()
        worker.join()


def test_stopped_while_it_fetches(cache, monkeypatch):
    def stop(text):
        raise KeyboardInterrupt
    monkeypatch.setattr(runtimes, "_progress", stop)
    with pytest.raises(KeyboardInterrupt):
        runtimes.fetch("2.10.0")
    assert {p.name for p in cache.iterdir()} == {".lock"}


@pytest.mark.parametrize("arguments, text", [
    (["2.10"], "2.10 is no version of torch such as 2.10.0"),
    (["new"], "new is no library, and no version such as 2.10.0"),
])
def test_bad_arguments(workbook, arguments, text):
    done = workbook("matrix", *arguments)
    assert done.returncode == 2
    assert text in done.stderr
