// Ops under stress. A program of stable headers alone:
//
//   stress LIBRARY NAMESPACE MODE N [...]
//     random N [FIRST]                  N random calls, against long double
//     beside N [LIBRARY NAMESPACE ...]  the same, of several libraries in turn
//     threads SECONDS                   64 threads call at once
//     forks N                           after a call a child process calls too
//     calls N                           each op as often: does memory stay
//     flat? loads N                           loaded, called, and closed again
//
// Prints one JSON object; exit status 1 if something was wrong. A case is a
// number: `random 1 NUMBER` makes one again.
#include "ops.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
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

using stress::Failure;
using stress::Op;
using stress::Random;
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
  stress::check(op, op.make(random));
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
      stress::worst[0] = stress::worst[1] = 0;
      run_case(ops, number);
      Worst& worst = all[number % ops.size()];
      worst.wide = std::max(worst.wide, stress::worst[0]);
      worst.narrow = std::max(worst.narrow, stress::worst[1]);
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
  constexpr int kThreads = 64;
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

// What libtorch, and a library, keep of calls goes into a child process.
void forks(const std::vector<Op>& ops, long n) {
  constexpr uint64_t kCalls = 50;
  for (long i = 0; i < n; ++i) {
    const uint64_t first = static_cast<uint64_t>(i) * kCalls;
    run_case(ops, first);
    const pid_t child = fork();
    if (child == 0) {
      try {
        for (uint64_t number = first; number < first + kCalls; ++number) {
          run_case(ops, number);
        }
        _exit(0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        _exit(1);
      }
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) {
      throw Failure(
          "child " + std::to_string(i) + " ended with status " +
          std::to_string(status));
    }
  }
  std::printf("\"forks\": %ld, ", n);
}

// A call of few elements that is not refused.
stress::Case small_case(const Op& op) {
  for (uint64_t seed = 1;; ++seed) {
    Random random(seed);
    stress::Case one = op.make(random);
    const int64_t n = one.want.empty() ? 1 : stress::count(one.want[0].sizes);
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
    const stress::Case one = small_case(op);
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
    const std::vector<Op> ops = stress::ops_of(ns, library.handle);
    for (size_t j = 0; j < ops.size(); ++j) {
      run_case(ops, static_cast<uint64_t>(i) * ops.size() + j);
    }
  }
  std::printf("\"loads\": %ld, ", n);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs(
        "stress LIBRARY NAMESPACE random|beside|threads|forks|calls|loads N\n",
        stderr);
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
      std::vector<Op> ops = stress::ops_of(ns, library.handle);
      std::deque<Library> others;
      for (int i = 5; mode == "beside" && i + 1 < argc; i += 2) {
        others.emplace_back(argv[i]);
        for (Op& op : stress::ops_of(argv[i + 1], others.back().handle)) {
          ops.push_back(std::move(op));
        }
      }
      std::printf("\"ops\": %zu, ", ops.size());
      const bool at = mode == "random" && argc > 5;
      if (mode == "random" || mode == "beside") {
        random_cases(
            ops,
            static_cast<uint64_t>(n),
            at ? std::strtoull(argv[5], nullptr, 10) : 0,
            std::string(argv[0]) + " " + argv[1] + " " + ns);
      } else if (mode == "threads") {
        threads(ops, n);
      } else if (mode == "forks") {
        forks(ops, n);
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
