r"""How near the loops of chapter 08's silu_and_mul come to what their instructions
allow: the cycles an element that the processor's vector units are busy at least,
and those that pass, in the first-level cache. It writes docs/results/bound.json.

    TORCH_ROOT=$(cat .venv/torch-root) PYTHONPATH=common .venv/bin/python \
        docs/tools/bound.py

Of Intel's processors with AVX-512, by g++."""

import datetime
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from base import stamp
from base.project import ROOT
from torch_stable_abi.libtorch.installed import torch_root, torch_version

# Of instructions on 64 bytes two begin in a cycle; a division takes one of the two
# units for 16 cycles. (Intel's optimization manual, and uops.info for Ice Lake and
# later.) Moves between registers take none.
A_CYCLE, DIVISION = 2, 16
# The clock is that of a chain of multiplications with additions, 4 cycles each.
SOURCE = """
#include "activation_row.cpp"
#include <chrono>
#include <cstdio>

using namespace wb;
constexpr int64_t n = 1024;
extern "C" {
[[gnu::noinline]] void loop_float(float* out, const float* gate, const float* up) {
  Row<float, SiluAndMul, Split>{}.loop(out, gate, up, n);
}
[[gnu::noinline]] void loop_half(float* out, const float* gate, const float* up) {
  Row<Half, SiluAndMul, Split>{}.loop(out, gate, up, n);
}
[[gnu::noinline]] void loop_bfloat16(
    BFloat16* out, const BFloat16* gate, const BFloat16* up) {
  Row<BFloat16, SiluAndMul, Split>{}.pairs(out, gate, up, n / 2);
}
}

template <typename F>
double nanoseconds(int64_t count, F f) {
  double best = 1e9;
  for (int i = 0; i < 20000; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const auto end = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::nano> took = end - start;
    best = std::min(best, took.count());
  }
  return best / static_cast<double>(count);
}
template <typename T, typename F>
void show(const char* name, F loop) {
  alignas(64) static T out[n], gate[n], up[n];
  for (int64_t i = 0; i < n; ++i) {
    gate[i] = static_cast<float>(i) * 0.01f - 5;
    up[i] = 1;
  }
  std::printf("%s %f\\n", name, nanoseconds(8 * n, [&] {
    for (int k = 0; k < 8; ++k) {
      loop(out, gate, up);
      asm volatile("" ::: "memory");
    }
  }));
}
typedef float Lanes __attribute__((vector_size(64)));

int main() {
  const int count = 4000;
  const double four = nanoseconds(count, [] {
    Lanes x = {}, y = {};
    for (int i = 0; i < count; ++i) {
      asm volatile("vfmadd231ps %1, %1, %0" : "+v"(x) : "v"(y));
    }
  });
  std::printf("clock %f\\n", 4 / four);
  show<float>("float", loop_float);
  show<float>("half", loop_half);
  show<BFloat16>("bfloat16", loop_bfloat16);
}
"""


def run(*command) -> str:
    return subprocess.run(list(map(str, command)), text=True, check=True,
                          stdout=subprocess.PIPE).stdout


def inner_loop(assembly: str, name: str) -> list[str]:
    """Of a function that has one."""
    body = re.search(rf"^loop_{name}:\n(.*?)\.cfi_endproc", assembly, re.M | re.S)
    assert body, name
    last = re.search(r"^\tj\w+\t(\.L\d+)$", body[1], re.M)
    assert last, body[1]
    loop = body[1][body[1].index(f"\n{last[1]}:\n"):last.end()]
    return [line for line in loop.splitlines() if re.match(r"\t[a-z]", line)]


def elements(loop: list[str], size: int) -> int:
    """Return how many elements one round of the loop computes, by the step of its
    pointers."""
    step = next(m for line in loop if (m := re.match(r"\taddq\t\$(\d+),", line)))
    return int(step[1]) // size


def bound(loop: list[str]) -> float:
    """The cycles of one time round, if the units always had work."""
    vector = [line.split()[0] for line in loop if "%zmm" in line]
    begun = [name for name in vector if not name.startswith("vmov")]
    divisions = begun.count("vdivps")
    return max(len(begun) / A_CYCLE, divisions * DIVISION)


def main() -> None:
    hardware = stamp.machine()
    if hardware["isa"] != "avx512" or "Intel" not in hardware["cpu"]:
        sys.exit(f"bound.py counts for Intel's AVX-512; this is {hardware['cpu']}")
    kernels = ROOT / "solutions/08_hub_packaging"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "bound.cpp")
        source.write_text(SOURCE)
        compiler = [
            "g++", "-std=c++17", "-O3", "-fopenmp-simd", "-fno-trapping-math",
            "-march=x86-64-v4", f"-I{kernels}/activation_cpu",
            f"-I{kernels}/activation_cpu/core", f"-I{kernels}/torch-ext",
            "-isystem", torch_root() / "include", source, "-o"]
        run(*compiler, f"{folder}/bound.s", "-S")
        run(*compiler, f"{folder}/bound")
        assembly = Path(folder, "bound.s").read_text()
        times = {name: float(value) for name, value in map(
            str.split, run(f"{folder}/bound").splitlines())}
    clock, rows = times.pop("clock"), []
    for name, nanoseconds in times.items():
        loop = inner_loop(assembly, name)
        count = elements(loop, 2 if name == "bfloat16" else 4)
        rows.append({"loop": name, "instructions": len(loop), "elements": count,
                     "bound": round(bound(loop) / count, 3),
                     "cycles": round(nanoseconds * clock, 3)})
        print(rows[-1])
    (ROOT / "docs/results/bound.json").write_text(json.dumps({
        "schema": 1, "date": datetime.date.today().isoformat(),
        "hardware": hardware, "clock_ghz": round(clock, 2),
        "software": {"compiler": run("g++", "--version").splitlines()[0],
                     "libtorch": torch_version().split("+")[0]},
        "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
