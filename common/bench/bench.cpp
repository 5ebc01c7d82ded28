#include "bench.h"
#include "testing/library.h"

#include <benchmark/benchmark.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace workbook {
namespace {

std::string library;
void* handle = nullptr;

double now() { // in seconds
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void time(benchmark::State& state, const Member& member) {
  const auto require_right = [&](const std::string& when) {
    const std::string wrong = member.check();
    if (!wrong.empty()) {
      throw std::runtime_error("wrong " + when + " timing: " + wrong);
    }
  };
  member.poison();
  member.run(); // not timed: the caches hold what another member left
  require_right("before");
  member.poison();
  const double begin = now();
  for (auto _ : state) {
    member.run();
    benchmark::ClobberMemory();
  }
  state.counters["at"] = (begin + now()) / 2;
  require_right("after");
}

void count(benchmark::State& state, const Member& member) {
  const Instructions instructions = member.count();
  for (const auto& [place, number] : instructions) {
    state.counters["instructions/" + place] = number;
  }
  if (instructions.empty()) {
    state.SkipWithError("not counted: is valgrind installed?");
  }
  for (auto _ : state) {
  }
}

void add(const Group& group, const Member& member, bool quick) {
  constexpr const char* kRoles[] = {"floor", "subject", "peer"};
  const std::string name = group.name + "/" + member.name;
  const std::string label =
      std::string(kRoles[static_cast<size_t>(member.role)]) + " | " +
      group.dtype + " | " + group.shape + " | " + group.cache;
  auto* const added = benchmark::RegisterBenchmark(
      name.c_str(), [=, &group, &member](benchmark::State& state) {
        state.SetLabel(label);
        state.counters["bytes"] = static_cast<double>(group.bytes);
        state.counters["libtorch_threads"] = group.threads;
        try {
          if (member.count) {
            count(state, member);
          } else {
            time(state, member);
          }
        } catch (const std::exception& error) {
          // It ends the run. SkipWithError() does not: Google Benchmark 1.7.1
          // aborts where repetitions then differ in iterations.
          throw std::runtime_error(name + ": " + error.what());
        }
      });
  if (member.count) {
    added->Iterations(1)->Repetitions(1);
  } else {
    added->MinTime(0.002)->UseRealTime();
  }
  if (member.slow) {
    added->Repetitions(quick ? 2 : 12);
  }
}

// What the program alone knows of what it was built with and runs on.
void add_context() {
#if defined(__clang__)
  benchmark::AddCustomContext("compiler", "clang++ " __clang_version__);
#else
  benchmark::AddCustomContext("compiler", "g++ " __VERSION__);
#endif
  const auto add = [](const char* key, uint64_t version) {
    const auto byte = [&](int i) {
      return std::to_string(version >> (56 - 8 * i) & 0xff);
    };
    benchmark::AddCustomContext(key, byte(0) + "." + byte(1) + "." + byte(2));
  };
  add("libtorch", aoti_torch_abi_version());
  add("headers", TORCH_ABI_VERSION);
  add("target", TORCH_TARGET_VERSION);
}

} // namespace

void* library_symbol(const std::string& name) {
  void* address = handle == nullptr ? nullptr : dlsym(handle, name.c_str());
  if (address == nullptr) {
    throw std::runtime_error(library + " does not export " + name);
  }
  return address;
}

int run_benchmarks(const Groups& groups, int argc, char** argv) {
  benchmark::Initialize(&argc, argv); // takes its own options out of argv
  bool quick = false;
  int unknown = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--library=")) {
      library = argument.substr(argument.find('=') + 1);
    } else if (argument == "--quick") {
      quick = true;
    } else {
      argv[unknown++] = argv[i];
    }
  }
  if (benchmark::ReportUnrecognizedArguments(unknown, argv) ||
      library.empty()) {
    std::fputs("usage: --library=FILE [--quick] [--benchmark_...]\n", stderr);
    return 2;
  }
  handle = dlopen(library.c_str(), RTLD_NOW);
  if (handle == nullptr) {
    std::fprintf(stderr, "the library does not load: %s\n", dlerror());
    return 3;
  }
  try {
    const std::vector<Group> all = groups(quick);
    for (const Group& group : all) {
      for (const Member& member : group.members) {
        add(group, member, quick);
      }
    }
    add_context();
    return benchmark::RunSpecifiedBenchmarks() == 0 ? 2 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

} // namespace workbook
