// What would end the process, tried in a child of it.
#pragma once

#include "dispatcher.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

namespace workbook {

// How a child ended: by a signal, or with an exit status if `signal` is 0.
struct Ending {
  int signal;
  int status;
  std::string text; // what it wrote to stderr
};

// Calls `f` in a forked child, which must start no parallel op: OpenMP's
// threads are not there. An exception that leaves `f` ends the child as one
// does that leaves a static initialiser. The child reports no leaks.
template <class F>
Ending in_child(const F& f) {
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

} // namespace workbook
