// What stands before an entry's provoke() in snippets.toml. The reason of a
// failed call is asked for as in chapter 06; libtorch before 2.13 has written
// it to stderr.
#pragma once

#include "../../solutions/06_version_gating/error_text.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdio>
#include <stdexcept>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
namespace detail = torch::stable::detail;

static void provoke();

[[noreturn, maybe_unused]] static void throw_reason() {
  throw std::runtime_error(wb::error_text());
}

[[maybe_unused]] static void call(
    const char* op, const char* overload, StableIValue* stack) {
  if (torch_call_dispatcher(op, overload, stack, TORCH_ABI_VERSION)) {
    throw_reason();
  }
}

int main() {
  try {
    provoke();
    std::puts("nothing was thrown");
  } catch (const std::exception& error) {
    std::puts(error.what());
  }
}
