// The library as it was, beside the one under test: its ops are those of the
// namespace `before`. It is an oracle: for values, for the texts of errors, for
// gradients. It is of one libtorch, that of the headers. On another the ops
// under test are called, and nothing is compared.
#pragma once

#include "testing/checks.h"
#include "testing/dispatcher.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace workbook::chapter_09 {

using torch::stable::Tensor;

// Returns its handle; null, which is said once, on a libtorch of another
// version and where it was not built. Throws if it should load and does not.
inline void* original() {
  static void* const handle = [] {
    const bool same = aoti_torch_abi_version() == TORCH_ABI_VERSION &&
        *WORKBOOK_ORIGINAL != '\0';
    void* const found = same ? dlopen(WORKBOOK_ORIGINAL, RTLD_NOW) : nullptr;
    if (same && found == nullptr) {
      throw std::runtime_error(dlerror());
    }
    if (!same) {
      std::puts(
          "nothing is compared with the original: it is of another libtorch, "
          "or was not built");
    }
    return found;
  }();
  return handle;
}

// The result of a call, or the reason why there is none.
struct Outcome {
  std::optional<Tensor> result;
  std::string refusal; // the reason, without the place; "" if it returned
};

// Calls an op that returns a tensor.
template <class... Args>
Outcome call(const std::string& space, const char* op, const Args&... args) {
  StableIValue stack[] = {torch::stable::detail::from(args)...};
  try {
    call_op(space + "::" + op, "", stack);
  } catch (const std::exception& error) {
    const std::string text = error.what(); // "before::center: the reason"
    return {std::nullopt, without_place(text.substr(text.find(": ") + 2))};
  }
  return {torch::stable::detail::to<Tensor>(stack[0]), ""};
}

// Returns the result of an op under test, where nothing is there to compare it.
template <class... Args>
Tensor compute(const char* op, const Args&... args) {
  const Outcome now = call("rowops", op, args...);
  if (!now.result) {
    throw std::runtime_error(now.refusal);
  }
  return *now.result;
}

inline std::string bytes(const Tensor& tensor) {
  const auto size = static_cast<size_t>(
      tensor.numel() * static_cast<int64_t>(tensor.element_size()));
  return size == 0
      ? ""
      : std::string(static_cast<const char*>(tensor.const_data_ptr()), size);
}

inline std::string shape(const Tensor& tensor) {
  std::string text = "[";
  for (const int64_t size : tensor.sizes()) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "] of " + torch::headeronly::toString(tensor.scalar_type());
}

// "", or how the op under test differs from the original on these arguments.
// The text of the original's refusal must be a part of the other's.
template <class... Args>
std::string differs(
    const std::string& what, const char* op, const Args&... args) {
  const Outcome now = call("rowops", op, args...);
  if (original() == nullptr) {
    return "";
  }
  const Outcome then = call("before", op, args...);
  const std::string said = std::string(op) + " of " + what;
  if (!then.result) {
    const std::string reason = then.refusal.substr(0, then.refusal.find('\n'));
    if (now.result) {
      return said + " must be refused, as the original does: " + reason;
    }
    return now.refusal.find(reason) == std::string::npos
        ? said + " is refused without its reason: " + reason
        : "";
  }
  if (!now.result) {
    return said + " is refused, and the original computes it: " +
        now.refusal.substr(0, now.refusal.find('\n'));
  }
  if (shape(*now.result) != shape(*then.result)) {
    return said + " is " + shape(*now.result) + ", and was " +
        shape(*then.result);
  }
  return bytes(*now.result) == bytes(*then.result)
      ? ""
      : said + " has other values than the original's";
}

} // namespace workbook::chapter_09
