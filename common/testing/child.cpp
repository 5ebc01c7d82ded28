#include "child.h"

#include "dispatcher.h"
#include "guarded_stack.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>

namespace workbook {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE};

// Of the child, for its handler.
const GuardedStack* guarded = nullptr;
int report = -1;

void say(const std::string& text) {
  (void)!write(report, text.data(), text.size());
}

void on_signal(int number, siginfo_t* info, void*) {
  const long slot =
      guarded == nullptr ? -1 : guarded->slot_beyond(info->si_addr);
  say(std::string("SIG") + sigabbrev_np(number));
  if (slot >= 0) {
    say(" at slot " + std::to_string(slot) + " of a stack of " +
        std::to_string(guarded->size()));
  }
  _exit(1);
}

std::string read_to_end(int file) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t size = 0;
       (size = read(file, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(size));
  }
  return text;
}

} // namespace

std::string detail::text_in_child(
    const std::function<std::string()>& f, const GuardedStack* stack) {
  int ends[2];
  if (pipe(ends) != 0) {
    throw std::runtime_error("pipe");
  }
  std::fflush(nullptr); // else the child would write it once more
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    guarded = stack;
    report = ends[1];
    struct sigaction action = {};
    action.sa_sigaction = &on_signal;
    action.sa_flags = SA_SIGINFO;
    for (const int number : kSignals) {
      sigaction(number, &action, nullptr);
    }
    try {
      say(f());
    } catch (const std::exception& error) {
      say(std::string("threw: ") + error.what());
    }
    _exit(0);
  }
  close(ends[1]);
  const std::string text = read_to_end(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0 && text.empty()
      ? "ended with status " + std::to_string(status)
      : text;
}

Ending ending_in_child(const std::function<void()>& f) {
  std::fflush(nullptr);
  const CapturedStderr captured;
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : kSignals) {
      std::signal(signal, SIG_DFL); // not the sanitizer's report
    }
    const rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    try {
      f();
    } catch (...) {
      std::terminate();
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {
      WIFSIGNALED(status) ? WTERMSIG(status) : 0,
      WIFEXITED(status) ? WEXITSTATUS(status) : 0,
      captured.text()};
}

} // namespace workbook
