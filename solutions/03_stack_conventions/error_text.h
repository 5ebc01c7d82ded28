// Why a call of libtorch failed, with any libtorch since 2.10.
#pragma once

#include <string>

// libtorch has it since 2.13. It is declared weak: where libtorch has no such
// function, the library loads all the same, and the function's address is null
// (unless mold links it: see page 05). dlsym, built on a new Linux, would ask
// for glibc 2.34.
extern "C" __attribute__((weak)) const char*
torch_exception_get_what_without_backtrace();

namespace wb {

//! [error_text]
// The reason of this thread's last failed call.
inline std::string error_text() {
  return torch_exception_get_what_without_backtrace != nullptr
      ? torch_exception_get_what_without_backtrace()
      : "libtorch before 2.13 wrote the reason to stderr";
}
//! [error_text]

} // namespace wb
