// Calls an op of PyTorch that has no function in torch/csrc/stable/ops.h. The
// number and the types of its arguments are not checked: read its schema first.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/shim_utils.h>

#include <algorithm>
#include <array>
#include <tuple>

//! [by_name]
// R is the type that the op returns, or a std::tuple of them.
template <typename R>
struct Returned {
  static R take(StableIValue* slots) {
    return torch::stable::detail::to<R>(slots[0]);
  }
};
template <typename... R>
struct Returned<std::tuple<R...>> {
  static std::tuple<R...> take(StableIValue* slots) {
    return {torch::stable::detail::to<R>(*slots++)...}; // braces: left to right
  }
};

template <typename R = torch::stable::Tensor, typename... Args>
R by_name(const char* op, const char* overload, const Args&... args) {
  // The slots own what they hold: the call takes it, and so does take().
  std::array<StableIValue, std::max<size_t>(sizeof...(Args), 4)> slots{
      torch::stable::detail::from(args)...};
  TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher(op, overload, slots.data(), TORCH_ABI_VERSION));
  return Returned<R>::take(slots.data());
}
//! [by_name]
