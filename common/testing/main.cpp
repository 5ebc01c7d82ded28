// The main function of every test program: doctest's, which first loads the
// library under test, limits the time of a case and checks for leaks once,
// after the last case, unless one failed. Besides doctest's options:
//
//   --library=FILE   the implementation under test
//   --serve          each line of stdin is a library, which cases to run on it,
//                    in a process of their own, and a KEY, with tabs between;
//                    "\0ran KEY STATUS" says that all of them were run, and
//                    when the process has ended, "\0ended N KEY" has its
//                    status, or minus its signal
//   --serve=lasting  the same; a library may be built anew between two lines
//   --timeout=N      seconds a case may take (default 60; 0: no limit)
//
// ./workbook check starts a server while the compiler works: libtorch, and the
// symbolizer that reads it, are loaded once, and each process is a fork. (The
// symbolizer keeps what it has read of a library: --serve=lasting starts none,
// nor does a server whose first line waits already.)
// Of --reporters=xml --out=FILE the file is empty while the library is loaded,
// and ends early where the process does. What the library itself prints or
// writes to that file is not believed: it does not know the KEY, unless it
// searches the memory of its process.
//
// Exit status: 0 passed, 1 failed, 3 the library does not
// load, 4 a leak, 124 a case took too long.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS // a crash is the sanitizer's to report
#include "asan.h"
#include "library.h"

#include <doctest/doctest.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>

#if WORKBOOK_ASAN
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>

extern "C" const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:handle_abort=1:handle_sigill=1:"
         "allocator_may_return_null=1:print_legend=0";
}
extern "C" const char* __ubsan_default_options() {
  return "print_stacktrace=1";
}
// libtorch up to 2.13 itself leaks one std::string for each string passed to
// an op. Suppressed by name; the report says when it was.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:to_ivalue\n";
}
#endif

namespace {

enum Status { kFailed = 1, kDoesNotLoad = 3, kLeaked };

std::string library;
void* handle = nullptr;
unsigned timeout = 60;

// The interrupted instruction and its stack name the line that loops; then the
// process ends. (In a stack trace alone the line may be the one before.)
void on_alarm(int, siginfo_t*, [[maybe_unused]] void* context) {
  static const char text[] = "a case took longer than --timeout allows\n";
  (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
#if WORKBOOK_ASAN
#if defined(__x86_64__)
  const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  char* pc = reinterpret_cast<char*>(machine.gregs[REG_RIP]);
  char where[512] = {};
  // What a sanitizer has put before an access has line 0: the access follows.
  for (const char* end = pc + 256; pc != end; ++pc) {
    __sanitizer_symbolize_pc(pc, "%l", where, sizeof(where));
    if (std::strcmp(where, "0") != 0) {
      break;
    }
  }
  __sanitizer_symbolize_pc(pc, "    #0 %p %F %L\n", where, sizeof(where));
  (void)!write(STDERR_FILENO, where, std::strlen(where));
#endif
  __sanitizer_print_stack_trace();
#endif
  _exit(124);
}

void load() {
  if (library.empty()) {
    return;
  }
  alarm(timeout);
  handle = dlopen(library.c_str(), RTLD_NOW);
  alarm(0);
  if (handle == nullptr) {
    std::fprintf(stderr, "the library does not load: %s\n", dlerror());
    _exit(kDoesNotLoad);
  }
}

// Hears of each case before doctest's reporters do.
struct Listener : doctest::IReporter {
  explicit Listener(const doctest::ContextOptions&) {}

  void test_run_start() override {
    load();
  }
  void test_case_start(const doctest::TestCaseData&) override {
    alarm(timeout);
  }
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    alarm(0);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("workbook", 1, Listener);

bool starts_with(const char* text, const char* prefix, const char*& rest) {
  const size_t length = std::strlen(prefix);
  rest = text + length;
  return std::strncmp(text, prefix, length) == 0;
}

} // namespace

void* workbook::library_symbol(const std::string& name) {
  if (handle == nullptr) {
    throw std::runtime_error("no --library=FILE was given, so no " + name);
  }
  dlerror();
  void* address = dlsym(handle, name.c_str());
  if (address == nullptr) {
    throw std::runtime_error(
        library + " does not export " + name + ": " + dlerror());
  }
  return address;
}

namespace {

// Those of `cases`, or all that the arguments ask for.
int run(
    int argc, char** argv, const std::string& cases, const std::string& key) {
  doctest::Context context(1, argv);
  context.setOption("rand-seed", 1);
  context.applyCommandLine(argc, argv);
  if (!cases.empty()) {
    context.addFilter("test-case", cases.c_str());
  }
  int status = context.run();
  if (context.shouldExit()) {
    return status;
  }
  if (!key.empty()) {
    std::printf("%cran %s %d\n", '\0', key.c_str(), status);
    std::fflush(stdout);
  }
#if WORKBOOK_ASAN // what fails half-way may well leak
  if (status == 0 && __lsan_do_recoverable_leak_check() != 0) {
    status = kLeaked;
  }
#endif
  std::fflush(nullptr);
  return status;
}

int serve(int argc, char** argv, [[maybe_unused]] bool lasting) {
  // That of g++ would know no library that is loaded after it was first asked.
#if WORKBOOK_ASAN && defined(__clang__)
  void* torch = dlsym(RTLD_DEFAULT, "aoti_torch_delete_tensor_object");
  pollfd line_waits = {STDIN_FILENO, POLLIN, 0};
  if (torch != nullptr && !lasting && poll(&line_waits, 1, 0) == 0) {
    char name[8];
    __sanitizer_symbolize_pc(torch, "%f", name, sizeof(name));
  }
#endif
  std::setvbuf(stdin, nullptr, _IONBF, 0); // no copy of a key is left there
  std::string line;
  while (std::getline(std::cin, line)) {
    const size_t tab = line.find('\t');
    const size_t last = line.rfind('\t');
    const std::string key = line.substr(last + 1);
    const pid_t child = fork();
    if (child == 0) {
      dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
      setvbuf(stdout, nullptr, _IOLBF, 0); // what is printed before a crash
      library = line.substr(0, tab);
      _exit(run(argc, argv, line.substr(tab + 1, last - tab - 1), key));
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf(
        "%cended %d %s\n",
        '\0',
        WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
        key.c_str());
    std::fflush(stdout);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  bool serves = false;
  bool lasting = false;
  const char* rest = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (starts_with(argv[i], "--library=", rest)) {
      library = rest;
    } else if (starts_with(argv[i], "--timeout=", rest)) {
      timeout = static_cast<unsigned>(std::strtoul(rest, nullptr, 10));
    }
    lasting = lasting || std::strcmp(argv[i], "--serve=lasting") == 0;
    serves = serves || lasting || std::strcmp(argv[i], "--serve") == 0;
  }
  struct sigaction action = {};
  action.sa_sigaction = on_alarm;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGALRM, &action, nullptr);
  // Leaks have been looked for, and libtorch exits slowly.
  _exit(serves ? serve(argc, argv, lasting) : run(argc, argv, "", ""));
}
