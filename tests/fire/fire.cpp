// Ops under fire: random tensors against double precision, eight threads, a
// million calls, a hundred loads. A program of stable headers alone:
//
//   fire LIBRARY NAMESPACE random N [SEED] | threads SECONDS | calls N | loads
//   N
//
// Prints one JSON object; exit status 1 if something was wrong.
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

namespace {

using fire::Failure;
using fire::Op;
using fire::Random;

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

long random_cases(const std::vector<Op>& ops, long n, uint64_t seed) {
  Random random(seed);
  for (long i = 0; i < n; ++i) {
    fire::try_once(ops[static_cast<size_t>(i) % ops.size()], random);
  }
  std::printf("\"cases\": %ld, \"seed\": %lu, ", n, seed);
  return n;
}

void threads(const std::vector<Op>& ops, long seconds) {
  constexpr int kThreads = 8;
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::atomic<long> calls = 0;
  std::atomic<bool> failed = false;
  std::string failure; // of the thread that was first to set `failed`
  std::vector<std::thread> all;
  for (int t = 0; t < kThreads; ++t) {
    all.emplace_back([&, t] {
      Random random(static_cast<uint64_t>(t) + 1);
      try {
        while (!failed && std::chrono::steady_clock::now() < end) {
          for (const Op& op : ops) {
            fire::try_once(op, random);
            ++calls;
          }
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
  std::printf("\"threads\": %d, \"calls\": %ld, ", kThreads, calls.load());
}

// Memory of the second half of the calls: none, if nothing is kept.
void calls(const std::vector<Op>& ops, long n) {
  long most = 0;
  for (const Op& op : ops) {
    Random random(1);
    const fire::Prepared call(op, random);
    for (long i = 0; i < n / 2; ++i) {
      call();
    }
    const long before = resident_kib();
    for (long i = n / 2; i < n; ++i) {
      call();
    }
    const long grown = resident_kib() - before;
    most = std::max(most, grown);
    if (grown > 1024) {
      throw Failure(
          op.name + " keeps memory: " + std::to_string(grown) + " KiB in " +
          std::to_string(n / 2) + " calls");
    }
  }
  std::printf("\"calls_of_each\": %ld, \"grown_kib\": %ld, ", n, most);
}

void loads(const char* path, const std::string& ns, long n) {
  for (long i = 0; i < n; ++i) {
    const Library library(path);
    Random random(static_cast<uint64_t>(i));
    for (const Op& op : fire::ops_of(ns)) {
      fire::try_once(op, random);
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
  try {
    if (mode == "loads") {
      loads(argv[1], ns, n);
    } else {
      const Library library(argv[1]);
      const std::vector<Op> ops = fire::ops_of(ns);
      std::printf("\"ops\": %zu, ", ops.size());
      if (mode == "random") {
        random_cases(
            ops, n, argc > 5 ? std::strtoull(argv[5], nullptr, 10) : 1);
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
  std::printf("\"passed\": %s}\n", error.empty() ? "true" : "false");
  return error.empty() ? 0 : 1;
}
