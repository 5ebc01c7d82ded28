"""Ops under stress: random calls against long double, 64 threads under
ThreadSanitizer, child processes, all libraries in one process, many calls, a
hundred loads, and each allocation and each call into libtorch failing in turn.
--stress=60 takes a minute where this takes two seconds."""

import json
import os
import re
import subprocess

import pytest

from base.building import compiler
from base.project import ROOT
from base.sheets import chapters, find_chapter, source_files
from support import at_once, build_alone, copy_solution
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.projects import library_of

ALL = ("01", "02", "03", "04", "05", "06", "07", "08")
EACH = pytest.mark.parametrize("number", ALL)
FLAGS = ["-std=c++20", "-O2", "-g1", "-fvisibility=hidden",
         "-DTORCH_TARGET_VERSION=0x020a000000000000", "-I", ROOT / "common"]
# Random calls of a chapter; long double takes the time.
CASES = {"01": 30_000, "02": 50_000, "03": 10_000, "04": 40_000, "05": 30_000,
         "06": 30_000, "07": 40_000, "08": 60_000}
pytestmark = pytest.mark.full

# What is lost when something fails that an op needs, and by whom. A list that
# is read, or filled within the room it has, cannot fail: it does here.
LISTS = r"torch_list_(size|get_item|push_back)"
BOX = "operator new, before any call"
LOST = {
    "02": [(LISTS, "the conversions by hand give a list up that cannot be read")],
    "03": [("aoti_torch_new_tensor_handle|" + BOX,
            "by hand: stack.h is there to lose nothing")],
    "headers": [  # of 2.13
        (BOX, "detail::to: slots that are not taken yet"),
        ("operator new", "detail::to<std::vector>, new_empty: what they hold"),
        ("aoti_torch_new_tensor_handle", "TORCH_BOX, copy_: the slots before"),
        (LISTS, "detail::from, to<std::vector>: the elements")]}


def compile(program, folder, *flags):
    torch = torch_root()
    # The sanitizer is of one compiler; long double is faster by g++.
    cxx = compiler() if "-fsanitize=thread" in flags else "g++"
    sources = [ROOT / f"tests/stress/{program}.cpp"]
    if program == "failures":
        sources += [ROOT / f"common/{name}.cpp" for name in (
            "testing/ledger", "testing/operator_new",
            "abi/torch_stable_abi/trace/slots")]
    done = subprocess.run(
        list(map(str, [cxx, *FLAGS, *flags, "-isystem", torch / "include",
                       *sources, f"-L{torch}/lib",
                       "-ltorch_cpu", "-ldl", "-o", folder / program])),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return folder / program


def in_folder(number, folder):
    """Return the library in a build folder, and the namespace of its ops."""
    if number == "08":  # not of the variant, which each build makes anew
        library, header = folder / "cpu/activation.abi3.so", folder / \
            "cpu/extension_name.h"
        return (library, header.read_text().split()[-1]) if library.exists() else None
    name = {"06": "libversion_gating.so",
            "07": "libcuda_activation_kernel.so"}.get(number)
    library = folder / name if name else library_of(folder)
    return library and (library, f"wb{number}")


def built(number, folder, *options):
    build_alone(find_chapter(number).solution, folder / number, *options,
                by=compiler())
    return in_folder(number, folder / number)


def released(number, folder):
    """Return what is in build/release if that is newer than its sources."""
    chapter = find_chapter(number)
    newest = max(p.stat().st_mtime for p in source_files(chapter.solution))
    try:
        found = in_folder(number, ROOT / "build/release/solutions" / chapter.name)
        if found and found[0].stat().st_mtime > newest:
            return found
    except FileNotFoundError:
        pass
    return built(number, folder)


def made(folder, *flags, numbers=ALL):
    """stress, and how to build a solution with the same flags."""
    options = ["-DCMAKE_CXX_FLAGS_DEBUG=" + " ".join(["-O1 -g1", *flags]),
               "-DCMAKE_BUILD_TYPE=Debug"] if flags else []
    program, *libraries = at_once(
        (compile, "stress", folder, *flags),
        *((built, n, folder, *options) if flags else (released, n, folder)
          for n in numbers))
    return program, dict(zip(numbers, libraries))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return made(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def with_tsan(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tsan"), "-fsanitize=thread")


def shims(libraries, folder):
    """X(name) for each function of libtorch that a library uses and that says
    by a code whether it has failed; failures.cpp lets them fail."""
    names = set()
    for library, _ in libraries:
        text = subprocess.run(["nm", "-D", "--undefined-only", library],
                              text=True, capture_output=True, check=True).stdout
        names.update(re.findall(r" U ((?:aoti_torch|torch)_\w+)", text))
    other = re.compile("library|delete|torch_call_dispatcher|exception")
    names = sorted(n for n in names if not other.search(n))
    assert len(names) > 20
    file = folder / "shims.h"
    file.write_text("".join(f"X({name})\n" for name in names))
    return file


@pytest.fixture(scope="module")
def failures(plain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("failures")
    _, libraries = plain
    list_ = shims([libraries[n] for n in ALL[1:]], folder)
    return compile("failures", folder, f'-DSHIMS="{list_}"'), libraries


def run(program, *arguments, **environment):
    done = subprocess.run(
        list(map(str, [program, *arguments])), text=True, capture_output=True,
        env={**os.environ, "LD_LIBRARY_PATH": f"{torch_root()}/lib",
             # libtorch and OpenMP are not instrumented: their locks cannot be
             # seen, so each thread that calls works alone. A race is reported
             # only while the older access is remembered; if the first is not,
             # ThreadSanitizer would be silent on that address ever after.
             "OMP_NUM_THREADS": "1",
             "TSAN_OPTIONS": "ignore_noninstrumented_modules=1 "
                             "suppress_equal_addresses=0",
             **environment})
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def stress(programs, number, mode, *arguments, **environment):
    program, libraries = programs
    if mode == "random":  # the ops may share out their work
        environment |= {"OMP_NUM_THREADS": "3"}
    result = run(program, *libraries[number], mode, *arguments, **environment)
    print(f"{number}: {result}")  # shown by -s
    return result


def fail(programs, number, cases=20):
    """Return what is lost in each op when its k-th allocation or call fails."""
    program, libraries = programs
    # The headers delete a list that they could not make: a crash.
    skip = () if number in ("02", "03") else ("torch_new_list_reserve_size",)
    return run(program, *libraries[number], cases, *skip)


def unexpected(number, lost):
    """Return what is lost and not listed."""
    known = LOST.get(number, LOST["headers"])
    return [what for what in lost if not any(
        re.fullmatch(pattern, what.split(": ")[1]) for pattern, _ in known)]


@pytest.fixture
def times(request):
    """Return how much longer than usual it is: the seconds of --stress over two."""
    return max(1, request.config.getoption("--stress") // 2)


@EACH
def test_random_calls(plain, number, times):
    cases = CASES[number] * times
    assert stress(plain, number, "random", cases)["cases"] == cases


@pytest.mark.parametrize("level", ["v3", "baseline"])
def test_random_calls_of_lesser_machines(plain, level, times):
    stress(plain, "08", "random", 26_000 * times, ACTIVATION_CPU_LEVEL=level)


@EACH
def test_sixty_four_threads(with_tsan, number, times):
    assert stress(with_tsan, number, "threads", 2 * times)["calls"] > 100


@EACH
def test_child_processes(plain, number):
    assert stress(plain, number, "forks", 20)["forks"] == 20


def test_all_in_one_process(plain, times):
    """One kernel is there four times: in 01, 04, 07 and 08."""
    _, libraries = plain
    others = [word for number in ALL[1:] for word in libraries[number]]
    cases = 20_000 * times
    assert stress(plain, "01", "beside", cases, *others)["cases"] == cases


@EACH
def test_memory_stays_flat(plain, number, times):
    stress(plain, number, "calls", 40_000 * times)


@EACH
def test_a_hundred_loads(plain, number):
    stress(plain, number, "loads", 100)


@pytest.mark.parametrize("number", ALL[1:])
def test_each_failure_is_reported(failures, number):
    """01 makes no allocation and no call."""
    result = fail(failures, number)
    assert result["failures"] > 100
    assert unexpected(number, result["lost"]) == []


def test_stack_h_loses_nothing(failures):
    """Whatever fails in an op that is written with stack.h."""
    lost = fail(failures, "03")["lost"]
    assert not [what for what in lost if "wb03::silu_and_mul" in what]


# --- that these tests can fail ------------------------------------------------


def planted(number, folder, name, old, new):
    """Return a copy of a solution with a fault in it."""
    copy = copy_solution(find_chapter(number), folder / number)
    file, = copy.rglob(name)
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return copy


def built_copy(copy, folder, number, *options):
    build_alone(copy, folder, *options, by=compiler())
    return {number: in_folder(number, folder)}


CHECKS = '  check_rows("out", TensorInfo(out), info, info.sizes.back() / 2);'


def test_stress_sees_a_race(with_tsan, tmp_path):
    """The same, on a solution that counts its calls, and then does so much that
    ThreadSanitizer mostly forgets who counted last."""
    copy = planted("04", tmp_path, "silu_and_mul.h", CHECKS,
                   "  static int64_t calls = 0;\n  ++calls;\n"
                   "  thread_local int64_t own[100'000];\n"
                   "  for (int64_t& n : own) ++n;\n" + CHECKS)
    library = built_copy(copy, tmp_path / "racy", "04",
                         "-DCMAKE_CXX_FLAGS=-fsanitize=thread -g1")
    with pytest.raises(AssertionError, match="data race"):
        stress((with_tsan[0], library), "04", "threads", 2)


def test_stress_sees_a_wrong_result(plain, tmp_path):
    copy = planted("04", tmp_path, "swiglu.h",
                   "  gate = gate > limit ? limit : gate;\n",
                   "  gate = gate > limit ? limit : gate;\n"
                   "  up = up == 0 ? C(*new int(1)) : up;\n")
    programs = (plain[0], built_copy(copy, tmp_path / "b", "04"))
    with pytest.raises(AssertionError, match="got") as caught:
        stress(programs, "04", "random", 60_000)
    again = re.search(r"again: (.*)", str(caught.value))[1].split()
    with pytest.raises(AssertionError, match="again"):
        run(*again)  # one case, and it fails again


def test_stress_sees_a_leak(plain, tmp_path):
    copy = planted("04", tmp_path, "silu_and_mul.h",
                   CHECKS, "  new Tensor(input);\n" + CHECKS)
    programs = (plain[0], built_copy(copy, tmp_path / "b", "04"))
    with pytest.raises(AssertionError, match="keeps memory"):
        stress(programs, "04", "calls", 40_000)


def test_a_loss_at_a_failure_is_seen(failures, tmp_path):
    copy = planted("03", tmp_path, "stack.h",
                   "      kRelease[first](slots[first]);", "")
    programs = (failures[0], built_copy(copy, tmp_path / "b", "03"))
    lost = fail(programs, "03")["lost"]
    assert [what for what in lost if "wb03::silu_and_mul" in what]


def test_every_solution_is_under_stress():
    # 00 is 01 in small; 09 is compared with the library that it was.
    assert {c.number for c in chapters()} == {"00", "09", *ALL}
