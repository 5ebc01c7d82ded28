// Ops under fire: random calls against long double, eight threads, a million
// calls, a hundred loads. A program of stable headers alone:
//
//   fire LIBRARY NAMESPACE random N [FIRST] | threads SECONDS | calls N |
//        loads N | list 0
//
// Prints one JSON object; exit status 1 if something was wrong. A case is a
// number: `random 1 NUMBER` makes one again.
#include "ops.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

// Chapter 08's library names this function of Python's, which is not here; only
// an import would call it.
extern "C" __attribute__((visibility("default"))) void* PyModule_Create2(
    void*, int) {
  return nullptr;
}

namespace {

using fire::Failure;
using fire::Op;
using fire::Random;
using Clock = std::chrono::steady_clock;

struct Library {
  explicit Library(const char* path) : handle(dlopen(path, RTLD_LAZY)) {
    if (handle == nullptr) {
      throw std::runtime_error(dlerror());
    }
  }
  ~Library() {
    dlclose(handle);
  }
  void* handle;
};

long resident_kib() {
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

// The case of this number, of whichever op it falls to.
void run_case(const std::vector<Op>& ops, uint64_t number) {
  const Op& op = ops[number % ops.size()];
  Random random(number);
  fire::check(op, op.make(random));
}

void random_cases(
    const std::vector<Op>& ops,
    uint64_t n,
    uint64_t first,
    const std::string& command) {
  struct Worst {
    double wide = 0, narrow = 0;
  };
  std::vector<Worst> all(ops.size());
  for (uint64_t number = first; number < first + n; ++number) {
    try {
      fire::worst[0] = fire::worst[1] = 0;
      run_case(ops, number);
      Worst& worst = all[number % ops.size()];
      worst.wide = std::max(worst.wide, fire::worst[0]);
      worst.narrow = std::max(worst.narrow, fire::worst[1]);
    } catch (const std::exception& error) {
      throw Failure(
          error.what() + std::string("\nagain: ") + command + " random 1 " +
          std::to_string(number));
    }
  }
  std::printf("\"cases\": %lu, \"first\": %lu, \"worst_ulp\": {", n, first);
  for (size_t i = 0; i < ops.size(); ++i) {
    std::printf(
        "%s\"%s\": [%.4f, %.4f]",
        i == 0 ? "" : ", ",
        ops[i].name.c_str(),
        all[i].wide,
        all[i].narrow);
  }
  std::printf("}, ");
}

void threads(const std::vector<Op>& ops, long seconds) {
  constexpr int kThreads = 8;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  std::atomic<uint64_t> next = 0;
  std::atomic<bool> failed = false;
  std::string failure; // of the thread that was first to set `failed`
  std::vector<std::thread> all;
  for (int t = 0; t < kThreads; ++t) {
    all.emplace_back([&] {
      try {
        while (!failed && Clock::now() < end) {
          run_case(ops, next++);
        }
      } catch (const std::exception& error) {
        if (!failed.exchange(true)) {
          failure = error.what();
        }
      }
    });
  }
  for (std::thread& thread : all) {
    thread.join();
  }
  if (failed) {
    throw Failure(failure);
  }
  std::printf("\"threads\": %d, \"calls\": %lu, ", kThreads, next.load());
}

// A call of few elements that is not refused.
fire::Case small_case(const Op& op) {
  for (uint64_t seed = 1;; ++seed) {
    Random random(seed);
    fire::Case one = op.make(random);
    const int64_t n = one.want.empty() ? 1 : fire::count(one.want[0].sizes);
    const bool small = n > 0 && n <= 64 && !one.meta;
    if (small && one.refusal.empty()) {
      return one;
    }
  }
}

// Memory of the second half of the calls: none, if nothing is kept.
void calls(const std::vector<Op>& ops, long n) {
  long most = 0;
  std::string leaks;
  for (const Op& op : ops) {
    const fire::Case one = small_case(op);
    for (long i = 0; i < n / 2; ++i) {
      one.call();
    }
    const long before = resident_kib();
    for (long i = n / 2; i < n; ++i) {
      one.call();
    }
    const long grown = resident_kib() - before;
    if (op.libtorch_leaks) {
      leaks += (leaks.empty() ? "\"" : ", \"") + op.name +
          "\": " + std::to_string(1024.0 * grown / (n - n / 2));
      continue;
    }
    most = std::max(most, grown);
    if (grown > 1024) {
      throw Failure(
          op.name + " keeps memory: " + std::to_string(grown) + " KiB in " +
          std::to_string(n / 2) + " calls");
    }
  }
  std::printf("\"calls_of_each\": %ld, \"grown_kib\": %ld, ", n, most);
  std::printf("\"bytes_lost_by_libtorch\": {%s}, ", leaks.c_str());
}

void loads(const char* path, const std::string& ns, long n) {
  for (long i = 0; i < n; ++i) {
    const Library library(path);
    const std::vector<Op> ops = fire::ops_of(ns, library.handle);
    for (size_t j = 0; j < ops.size(); ++j) {
      run_case(ops, static_cast<uint64_t>(i) * ops.size() + j);
    }
  }
  std::printf("\"loads\": %ld, ", n);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("fire LIBRARY NAMESPACE random|threads|calls|loads N\n", stderr);
    return 2;
  }
  const std::string ns = argv[2], mode = argv[3];
  const long n = std::atol(argv[4]);
  std::string error;
  std::printf("{\"mode\": \"%s\", ", mode.c_str());
  const auto start = Clock::now();
  try {
    if (mode == "loads") {
      loads(argv[1], ns, n);
    } else {
      const Library library(argv[1]);
      const std::vector<Op> ops = fire::ops_of(ns, library.handle);
      std::printf("\"ops\": %zu, ", ops.size());
      if (mode == "random") {
        random_cases(
            ops,
            static_cast<uint64_t>(n),
            argc > 5 ? std::strtoull(argv[5], nullptr, 10) : 0,
            std::string(argv[0]) + " " + argv[1] + " " + ns);
      } else if (mode == "threads") {
        threads(ops, n);
      } else {
        calls(ops, n);
      }
    }
  } catch (const std::exception& thrown) {
    error = thrown.what();
    std::fprintf(stderr, "%s\n", error.c_str());
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  std::printf("\"seconds\": %.2f, ", seconds.count());
  std::printf("\"passed\": %s}\n", error.empty() ? "true" : "false");
  return error.empty() ? 0 : 1;
}
