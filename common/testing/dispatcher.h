// Calling an op by name, with libtorch's reason when it fails. Up to libtorch
// 2.12 the reason is written to stderr; since 2.13 stderr stays silent and a
// function has it. Both are read, so that one test runs on every version.
#pragma once

#include "asan.h"

#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/stableivalue_conversions.h>
#include <torch/headeronly/util/shim_utils.h>
#include <torch/headeronly/version.h>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#if WORKBOOK_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace workbook {

// What this thread's last failed shim call said; null before libtorch 2.13.
inline const char* (*exception_text())() {
  static void* const address =
      dlsym(RTLD_DEFAULT, "torch_exception_get_what_without_backtrace");
  return reinterpret_cast<const char* (*)()>(address);
}

// Collects what is written to stderr from its construction to text().
class CapturedStderr {
 public:
  CapturedStderr() {
    std::fflush(stderr);
    dup2(file_, STDERR_FILENO);
    report_to(stderr_);
  }
  ~CapturedStderr() {
    std::fflush(stderr);
    dup2(stderr_, STDERR_FILENO);
    report_to(STDERR_FILENO);
    close(stderr_);
    close(file_);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  std::string text() const {
    std::fflush(stderr);
    std::string text(static_cast<size_t>(lseek(file_, 0, SEEK_END)), '\0');
    const ssize_t size = pread(file_, text.data(), text.size(), 0);
    text.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return text;
  }

 private:
  // A sanitizer's report goes to the real stderr, since the process ends then.
  static void report_to([[maybe_unused]] int file) {
#if WORKBOOK_ASAN
    __sanitizer_set_report_fd(
        reinterpret_cast<void*>(static_cast<intptr_t>(file)));
#endif
  }

  int stderr_ = dup(STDERR_FILENO);
  int file_ = memfd_create("stderr", 0);
};

// Makes a call to a shim; throws std::runtime_error with libtorch's reason if
// it fails. `name` begins the text.
template <class Call>
void call_shim(const std::string& name, const Call& call) {
  if (exception_text() != nullptr) {
    if (call() != TORCH_SUCCESS) {
      throw std::runtime_error(name + ": " + exception_text()());
    }
    return;
  }
  bool success = false;
  std::string text;
  {
    const CapturedStderr captured;
    success = call() == TORCH_SUCCESS;
    text = captured.text();
  }
  if (!success) {
    throw std::runtime_error(name + ": " + text);
  }
  std::fputs(text.c_str(), stderr); // a warning, say
}

// Calls an op. `stack` holds its arguments, then its returns; the arguments are
// consumed as far as libtorch came.
inline void call_op(
    const std::string& op, const std::string& overload, StableIValue* stack) {
  call_shim(op, [&] {
    return torch_call_dispatcher(
        op.c_str(), overload.c_str(), stack, TORCH_ABI_VERSION);
  });
}

// Calls an op by its name. Results are the types of its returns, none or more.
template <class... Results, class... Arguments>
auto call(
    const std::string& op,
    const std::string& overload,
    const Arguments&... arguments) {
  constexpr size_t kSlots =
      std::max<size_t>({1, sizeof...(Results), sizeof...(Arguments)});
  StableIValue stack[kSlots] = {torch::stable::detail::from(arguments)...};
  call_op(op, overload, stack);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::tuple<Results...>{
        torch::stable::detail::to<Results>(stack[I])...};
  }
  (std::index_sequence_for<Results...>());
}

// Returns whether the running libtorch is 2.`minor` or newer.
inline bool libtorch_at_least(uint64_t minor) {
  return aoti_torch_abi_version() >= (uint64_t{2} << 56 | minor << 48);
}

} // namespace workbook
