"""Ops under fire: random tensors against double precision, eight threads under
ThreadSanitizer, many calls, a hundred loads. tests/fire/fire.cpp does the work;
`python3 -m pytest --full tests/meta/test_fire.py --fire=60` takes a minute
where this takes seconds."""

import json
import os
import subprocess

import pytest
from conftest import ROOT
from test_solutions_alone import build
from workspace import find_chapter, torch_root

OPS = {"04": "wb04", "05": "wb05"}  # chapter: the namespace of its ops
FLAGS = ["-std=c++20", "-O2", "-g1", "-fvisibility=hidden",
         "-DTORCH_TARGET_VERSION=0x020a000000000000", "-I", ROOT / "common"]
EACH = pytest.mark.parametrize("number", OPS)
pytestmark = pytest.mark.full


def made(folder, *flags, numbers=tuple(OPS)):
    """fire, and how to build a solution with the same flags."""
    torch = torch_root()
    program = folder / "fire"
    done = subprocess.run(
        list(map(str, ["g++", *FLAGS, *flags, "-isystem", torch / "include",
                       ROOT / "tests/fire/fire.cpp", f"-L{torch}/lib",
                       "-ltorch_cpu", "-ldl", "-o", program])),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    libraries = {number: build(
        find_chapter(number).solution, folder / number,
        f"-DTORCH_ROOT={torch}", "-DCMAKE_CXX_FLAGS=" + " ".join(flags))
        for number in numbers}
    return program, libraries


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return made(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def with_tsan(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tsan"), "-fsanitize=thread")


def fire(programs, number, *arguments):
    program, libraries = programs
    done = subprocess.run(
        [str(program), str(libraries[number]), OPS[number],
         *map(str, arguments)], text=True, capture_output=True,
        env={**os.environ, "LD_LIBRARY_PATH": f"{torch_root()}/lib",
             # libtorch is not instrumented: its locks cannot be seen.
             "TSAN_OPTIONS": "ignore_noninstrumented_modules=1"})
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout)
    print(f"{number}: {result}")  # shown by -s
    return result


@pytest.fixture
def times(request):
    """How much longer than usual: the seconds of --fire over two."""
    return max(1, request.config.getoption("--fire") // 2)


@EACH
@pytest.mark.parametrize("seed", [1, 2])
def test_random_tensors(plain, number, seed, times):
    cases = 20_000 * times
    assert fire(plain, number, "random", cases, seed)["cases"] == cases


@EACH
def test_eight_threads(with_tsan, number, times):
    assert fire(with_tsan, number, "threads", 2 * times)["calls"] > 100


@EACH
def test_memory_stays_flat(plain, number, times):
    fire(plain, number, "calls", 40_000 * times)


@EACH
def test_a_hundred_loads(plain, number):
    fire(plain, number, "loads", 100)


def test_fire_sees_a_race(tmp_path):
    """The same, on a solution that counts its calls."""
    chapter = find_chapter("04")
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in chapter.solution.iterdir():
        if file.is_file():
            text = file.read_text()
            if file.name == "boxed_kernels.cpp":
                new = text.replace(
                    "  check_out(out, input);",
                    "  static int64_t calls = 0;\n  ++calls;\n"
                    "  check_out(out, input);", 1)
                assert new != text
                text = new
            (copy / file.name).write_text(text)
    program, _ = made(tmp_path, "-fsanitize=thread", numbers=())
    library = build(copy, tmp_path / "racy", f"-DTORCH_ROOT={torch_root()}",
                    "-DCMAKE_CXX_FLAGS=-fsanitize=thread -g1")
    with pytest.raises(AssertionError, match="data race"):
        fire((program, {"04": library}), "04", "threads", 2)
