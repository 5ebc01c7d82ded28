// What a function gives in a child process, where it may crash, write to stderr
// or set a static for good without a trace in this one.
#pragma once

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

// The text that `function` gives; what it throws, as text; or "(SIGSEGV)". Call
// it before libtorch's threads are running: they are not in the child.
template <class Function>
std::string in_child(const Function& function) {
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
      text = function();
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
