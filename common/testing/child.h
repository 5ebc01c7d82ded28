// What would crash, write to stderr or set a static for good, tried in a child
// process. Fork before libtorch's threads run, and start no parallel op in the
// child: OpenMP's threads are not there. The child reports no leaks.
#pragma once

#include "dispatcher.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

namespace workbook {

// How a child ended: by a signal, or with an exit status if `signal` is 0.
struct Ending {
  int signal;
  int status;
  std::string text; // what it wrote to stderr
};

// Calls `f` in a child. An exception that leaves `f` ends the child as one does
// that leaves a static initialiser.
template <class F>
Ending ending_in_child(const F& f) {
  std::fflush(nullptr); // else the child would write it once more
  const CapturedStderr captured;
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE}) {
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

// The text that `f` gives in a child; what it throws, as text; or "(SIGSEGV)".
template <class F>
std::string text_in_child(const F& f) {
  int ends[2];
  if (pipe(ends) != 0) {
    throw std::runtime_error("pipe");
  }
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::string text;
    try {
      text = f();
    } catch (const std::exception& error) {
      text = error.what();
    }
    (void)!write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t size = 0;
       (size = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    return std::string("(SIG") + sigabbrev_np(WTERMSIG(status)) + ")";
  }
  return status == 0 ? text : "(the process ended early)";
}

} // namespace workbook
