// Every allocation, and every call into libtorch, that an op's own code makes
// fails in turn: the op must say so, lose nothing, and be right the next time.
//
//   failures LIBRARY NAMESPACE [CASES [SKIP]]
//
// Compiled with -DSHIMS="file", a list of X(name): the shims that libraries
// use. Prints one JSON object; exit status 1 if something was wrong.
#include "failing.h"
#include "ops.h"

#include <dlfcn.h>

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

// --- what the libraries meet in libtorch's place
// ------------------------------

extern "C" {

__attribute__((visibility("default"))) void* PyModule_Create2(void*, int) {
  return nullptr;
}

#define REAL(name) reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name))

static AOTITorchError note(
    AOTITorchError code, TorchLibraryHandle* made, const std::string& name) {
  failing::state().libraries[*made] = name;
  return code;
}
AOTITorchError aoti_torch_library_init_def(
    const char* ns, const char* file, uint32_t line, TorchLibraryHandle* made) {
  static const auto real = REAL(aoti_torch_library_init_def);
  return note(real(ns, file, line, made), made, ns);
}
AOTITorchError aoti_torch_library_init_fragment(
    const char* ns, const char* file, uint32_t line, TorchLibraryHandle* made) {
  static const auto real = REAL(aoti_torch_library_init_fragment);
  return note(real(ns, file, line, made), made, ns);
}
AOTITorchError aoti_torch_library_init_impl(
    const char* ns,
    const char* key,
    const char* file,
    uint32_t line,
    TorchLibraryHandle* made) {
  static const auto real = REAL(aoti_torch_library_init_impl);
  return note(
      real(ns, key, file, line, made), made, std::string(ns) + " " + key);
}
AOTITorchError aoti_torch_library_def(
    TorchLibraryHandle self, const char* schema) {
  static const auto real = REAL(aoti_torch_library_def);
  failing::define(failing::state().libraries[self], schema);
  return real(self, schema);
}
AOTITorchError torch_library_impl(
    TorchLibraryHandle self,
    const char* name,
    failing::Kernel kernel,
    uint64_t version) {
  static const auto real = REAL(torch_library_impl);
  auto& state = failing::state();
  state.kernels[state.libraries[self] + " " + name] = kernel;
  return real(self, name, kernel, version);
}
static std::string key; // of the kernels that a case calls directly
AOTITorchError torch_call_dispatcher(
    const char* op, const char* overload, StableIValue* stack, uint64_t) {
  static const auto real = REAL(torch_call_dispatcher);
  return failing::dispatch(real, op, overload, stack, key);
}

} // extern "C"

namespace {

using failing::What;
using workbook::Ledger;
using workbook::Replaced;

char progress[512];

void on_signal(int number) {
  const std::string text = failing::failed + ": ";
  (void)!write(STDERR_FILENO, text.data(), text.size());
  (void)!write(STDERR_FILENO, progress, std::strlen(progress));
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// The functions of `library` that can fail, replaced; but not `skip`.
std::vector<std::unique_ptr<Replaced>> replace(
    const void* library, const std::string& skip) {
  std::vector<std::unique_ptr<Replaced>> all;
#define X(shim)                                          \
  if (failing::Shim<&shim>::can_fail && skip != #shim) { \
    failing::Shim<& shim>::name = #shim;                 \
    all.push_back(std::make_unique<Replaced>(            \
        library, #shim, &failing::Shim<&shim>::call));   \
  }
#include SHIMS
#undef X
  const auto* runtime = dlsym(RTLD_DEFAULT, "_ZSt20__throw_length_errorPKc");
  for (const void* inside : {library, static_cast<const void*>(runtime)}) {
    all.push_back(
        std::make_unique<Replaced>(inside, "_Znwm", &failing::allocate));
  }
  return all;
}

// "" if there is none.
std::string difference(const stress::Want& want, const stress::Tensor& got) {
  try {
    stress::compare(want, got);
  } catch (const stress::Failure& failure) {
    return failure.what();
  }
  return "";
}

struct Report {
  long failures = 0;
  std::map<std::string, size_t> lost; // blocks by "op: what failed"
};

// Lets the k-th fail; false if there are fewer.
bool fail(
    const stress::Op& op,
    const stress::Case& one,
    What what,
    long k,
    Report& report) {
  failing::what = what;
  failing::left = k;
  failing::calls = 0;
  failing::failed.clear();
  std::string wrong; // with a result that it gives all the same
  size_t alive = 0, twice = 0;
  {
    const Ledger ledger;
    try {
      const auto result = one.call();
      const Ledger::Pause pause;
      for (size_t i = 0; i < result.size(); ++i) {
        wrong += difference(one.want[i], result[i]);
      }
    } catch (const std::exception&) {
      // as it should
    }
    alive = Ledger::alive();
    twice = Ledger::deleted_twice();
  }
  failing::left = -1;
  if (failing::failed.empty()) {
    return false;
  }
  ++report.failures;
  const std::string text = op.name + ": " + failing::failed +
      (failing::calls == 0 ? ", before any call" : "");
  if (!wrong.empty()) {
    throw stress::Failure(text + " fails, and the op says nothing; " + wrong);
  }
  if (twice > 0) {
    throw stress::Failure(text + " fails: a block is deleted twice");
  }
  if (alive > 0) {
    size_t& most = report.lost[text];
    most = std::max(most, alive);
  }
  stress::check(op, one); // the next call is right
  return true;
}

void fail_each(const stress::Op& op, const stress::Case& one, Report& report) {
  for (const What what : {What::kAllocation, What::kCall}) {
    for (long k = 0;; ++k) {
      std::snprintf(
          progress,
          sizeof(progress),
          "%s: %s %ld fails: this process ends\n",
          op.name.c_str(),
          what == What::kAllocation ? "allocation" : "call",
          k);
      if (!fail(op, one, what, k, report)) {
        break;
      }
    }
  }
}

void run(
    const char* path,
    const std::string& ns,
    int cases,
    const std::string& skip) {
  void* const library = dlopen(path, RTLD_LAZY);
  if (library == nullptr) {
    throw std::runtime_error(dlerror());
  }
  const auto ops = stress::ops_of(ns, library);
  const auto& kernels = failing::state().kernels;
  if (kernels.empty()) {
    throw stress::Failure("no kernel was registered");
  }
  const auto replaced =
      replace(reinterpret_cast<const void*>(kernels.begin()->second), skip);
  Report report;
  for (const stress::Op& op : ops) {
    for (int seed = 1; seed <= cases; ++seed) {
      stress::Random random(static_cast<uint64_t>(seed));
      const stress::Case one = op.make(random);
      const std::string name = op.name.substr(op.name.find("::") + 2);
      key = one.meta ? "Meta" : "CPU";
      for (const char* other :
           {"CompositeExplicitAutograd", "CompositeImplicitAutograd"}) {
        if (kernels.count(ns + " " + other + " " + name) != 0) {
          key = other;
        }
      }
      if (kernels.count(ns + " " + key + " " + name) == 0) {
        throw stress::Failure("no kernel is known of " + op.name);
      }
      stress::check(op, one); // what is made once is made
      if (!one.refusal.empty()) {
        continue;
      }
      fail_each(op, one, report);
    }
  }
  std::printf(
      "\"ops\": %zu, \"failures\": %ld, \"lost\": {",
      ops.size(),
      report.failures);
  const char* separator = "";
  for (const auto& [text, blocks] : report.lost) {
    std::printf("%s\n \"%s\": %zu", separator, text.c_str(), blocks);
    separator = ",";
  }
  std::printf("}, ");
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("failures LIBRARY NAMESPACE [CASES [SKIP]]\n", stderr);
    return 2;
  }
  for (const int number : {SIGSEGV, SIGABRT, SIGBUS}) {
    std::signal(number, on_signal);
  }
  std::string error;
  std::printf("{");
  try {
    run(argv[1],
        argv[2],
        argc > 3 ? std::atoi(argv[3]) : 20,
        argc > 4 ? argv[4] : "");
  } catch (const std::exception& thrown) {
    error = thrown.what();
    std::fprintf(stderr, "%s\n", error.c_str());
  }
  std::printf("\"passed\": %s}\n", error.empty() ? "true" : "false");
  return error.empty() ? 0 : 1;
}
