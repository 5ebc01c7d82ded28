// The main of every test executable: doctest's, which first loads the library
// under test, limits the time of a case, writes what happened as JSON lines
// (--report=FILE) and checks for leaks once, after the last case.
//
//   --library=FILE   the implementation under test; "-": its name comes from
//                    stdin, when it has been built
//   --report=FILE    one JSON object a line: loading, case, failure, end, leaks
//   --timeout=N      seconds a case may take (default 60; 0: no limit)
//   --seed=N         of the random shapes (default 1)
//
// Exit status: 0 passed, 1 failed, 2 bad arguments, 3 the library does not
// load, 4 a leak, 124 a case took too long.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS // a crash is the sanitizer's to report
#include "fact.h"
#include "library.h"
#include "random.h"

#include <doctest/doctest.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>

#if defined(__SANITIZE_ADDRESS__)
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

struct Arguments {
  std::string library;
  int report = -1; // file descriptor
  unsigned timeout = 60;
  uint64_t seed = 1;
};
Arguments arguments;
void* handle = nullptr;

// One line of the report: {"event": "case", "name": "01.1 ..."}.
class Event {
 public:
  explicit Event(const char* name) : line_("{\"event\": \"") {
    line_ += name;
    line_ += '"';
  }
  Event& with(const char* key, const char* value) {
    line_ += std::string(", \"") + key + "\": \"";
    for (const char* c = value ? value : ""; *c != 0; ++c) {
      if (*c == '"' || *c == '\\') {
        line_ += '\\';
        line_ += *c;
      } else if (static_cast<unsigned char>(*c) < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof(escaped), "\\u%04x", *c);
        line_ += escaped;
      } else {
        line_ += *c;
      }
    }
    line_ += '"';
    return *this;
  }
  Event& with(const char* key, double value) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.9g", value);
    line_ += std::string(", \"") + key + "\": " + number;
    return *this;
  }
  ~Event() {
    line_ += "}\n";
    if (arguments.report >= 0 &&
        write(arguments.report, line_.data(), line_.size()) < 0) {
      std::perror("writing the report");
    }
  }

 private:
  std::string line_;
};

// The interrupted instruction and its stack name the line that loops; then the
// process ends. (In a stack trace alone the line may be the one before.)
void on_alarm(int, siginfo_t*, [[maybe_unused]] void* context) {
  static const char event[] = "{\"event\": \"timeout\"}\n";
  if (arguments.report >= 0) {
    (void)!write(arguments.report, event, sizeof(event) - 1);
  }
  static const char text[] = "a case took longer than --timeout allows\n";
  (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
#if defined(__SANITIZE_ADDRESS__)
#if defined(__x86_64__)
  const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  char where[512] = {};
  __sanitizer_symbolize_pc(
      reinterpret_cast<void*>(machine.gregs[REG_RIP]),
      "    #0 %p %F %L\n",
      where,
      sizeof(where));
  (void)!write(STDERR_FILENO, where, std::strlen(where));
#endif
  __sanitizer_print_stack_trace();
#endif
  _exit(124);
}

struct Reporter : doctest::IReporter {
  explicit Reporter(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& data) override {
    Event("case")
        .with("name", data.m_name)
        .with("file", data.m_file.c_str())
        .with("line", data.m_line);
    alarm(arguments.timeout);
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    alarm(0);
    Event("end")
        .with("seconds", stats.seconds)
        .with("failures", stats.numAssertsFailedCurrentTest);
  }
  void log_assert(const doctest::AssertData& data) override {
    if (!data.m_failed) {
      return;
    }
    Event("failure")
        .with("file", data.m_file)
        .with("line", data.m_line)
        .with("expression", data.m_expr)
        .with("values", data.m_decomp.c_str())
        .with("exception", data.m_threw ? data.m_exception.c_str() : "")
        .with("context", contexts().c_str());
  }
  void log_message(const doctest::MessageData& data) override {
    if (data.m_severity & doctest::assertType::is_warn) {
      return;
    }
    Event("failure")
        .with("file", data.m_file)
        .with("line", data.m_line)
        .with("expression", data.m_string.c_str());
  }
  void test_case_exception(const doctest::TestCaseException& error) override {
    Event("failure")
        .with("exception", error.error_string.c_str())
        .with("context", contexts().c_str());
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  // What INFO() and CAPTURE() said, and the seed.
  static std::string contexts() {
    std::ostringstream text;
    const auto* const* active = get_active_contexts();
    for (int i = 0; i < get_num_active_contexts(); ++i) {
      active[i]->stringify(&text);
      text << "; ";
    }
    const auto* ended = get_stringified_contexts();
    for (int i = 0; i < get_num_stringified_contexts(); ++i) {
      text << ended[i] << "; ";
    }
    text << "seed " << arguments.seed;
    return text.str();
  }
};
REGISTER_LISTENER("report", 1, Reporter);

bool starts_with(const char* text, const char* prefix, const char*& rest) {
  const size_t length = std::strlen(prefix);
  rest = text + length;
  return std::strncmp(text, prefix, length) == 0;
}

} // namespace

namespace workbook {

void* library_symbol(const std::string& name) {
  if (handle == nullptr) {
    throw std::runtime_error("no --library=FILE was given, so no " + name);
  }
  dlerror();
  void* address = dlsym(handle, name.c_str());
  if (address == nullptr) {
    throw std::runtime_error(
        arguments.library + " does not export " + name + ": " + dlerror());
  }
  return address;
}

uint64_t seed() {
  return arguments.seed;
}

void fact(const std::string& what, const std::string& value) {
  Event("fact").with("what", what.c_str()).with("value", value.c_str());
}

} // namespace workbook

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const char* rest = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (starts_with(argv[i], "--library=", rest)) {
      arguments.library = rest;
    } else if (starts_with(argv[i], "--report=", rest)) {
      arguments.report =
          open(rest, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
      if (arguments.report < 0) {
        std::perror(rest);
        return 2;
      }
    } else if (starts_with(argv[i], "--timeout=", rest)) {
      arguments.timeout =
          static_cast<unsigned>(std::strtoul(rest, nullptr, 10));
    } else if (starts_with(argv[i], "--seed=", rest)) {
      arguments.seed = std::strtoull(rest, nullptr, 10);
    }
  }
  struct sigaction action = {};
  action.sa_sigaction = on_alarm;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGALRM, &action, nullptr);

  if (arguments.library == "-" && !std::getline(std::cin, arguments.library)) {
    return 2;
  }
  if (!arguments.library.empty()) {
    Event("loading"); // may be the last: a registration can end the process
    alarm(arguments.timeout);
    handle = dlopen(arguments.library.c_str(), RTLD_NOW);
    alarm(0);
    if (handle == nullptr) {
      const std::string reason = dlerror();
      Event("load").with("error", reason.c_str());
      std::fprintf(stderr, "the library does not load: %s\n", reason.c_str());
      return 3;
    }
  }

  int status = context.run();
  if (context.shouldExit()) {
    return status;
  }
#if defined(__SANITIZE_ADDRESS__)
  const bool leaked = __lsan_do_recoverable_leak_check() != 0;
  Event("leaks").with("found", leaked ? 1 : 0);
  if (leaked && status == 0) {
    status = 4;
  }
#else
  Event("leaks").with("found", -1); // not checked
#endif
  std::fflush(nullptr);
  _exit(status); // the leak check has been made, and libtorch exits slowly
}
