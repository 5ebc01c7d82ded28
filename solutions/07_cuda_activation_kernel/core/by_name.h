// by_name.h: calls of ops that have no function in torch/csrc/stable/ops.h.
// Declare an op once, with the types of its schema, and call it:
//   inline constexpr OpDecl<Tensor(Tensor, Tensor)> mul{"aten::mul", "Tensor"};
//   const Tensor y = call<mul>(x, w);
// `./workbook schemas` compares each declaration with the op that libtorch has.
// For many calls, for bool[], and for those that return strings, take chapter
// 05's call_op.h, which is used in the same way. If an argument cannot be
// converted, call_op.h releases those before it. They leak here, and so does a
// string that an op returns with the headers of 2.10 to 2.13.
#pragma once

#include "error_text.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#pragma GCC visibility push(hidden) // each library lists its own calls
namespace wb {

// clang-format off
//! [types]
// text_of names a type as a schema does.
template <typename T> struct Type {};
template <typename T> std::string text_of(Type<T>) {
  static_assert(sizeof(T) == 0, "no schema has this type: write Tensor, "
    "int64_t (not int), double (not float), and no reference");
  return ""; }
inline std::string text_of(Type<void>) { return "()"; }
inline std::string text_of(Type<bool>) { return "bool"; }
inline std::string text_of(Type<int64_t>) { return "int"; }
inline std::string text_of(Type<double>) { return "float"; }
inline std::string text_of(Type<std::string>) { return "str"; }
inline std::string text_of(Type<torch::stable::Tensor>) { return "Tensor"; }
inline std::string text_of(Type<torch::stable::Device>) { return "Device"; }
inline std::string text_of(Type<torch::headeronly::ScalarType>) {
  return "ScalarType"; }
inline std::string text_of(Type<torch::headeronly::Layout>) { return "Layout"; }
inline std::string text_of(Type<torch::headeronly::MemoryFormat>) {
  return "MemoryFormat"; }
template <typename T>
std::string text_of(Type<std::optional<T>>) { return text_of(Type<T>()) + "?"; }
template <typename T>
std::string text_of(Type<std::vector<T>>) { return text_of(Type<T>()) + "[]"; }
// clang-format on
template <typename... T>
std::string text_of(Type<std::tuple<T...>>) { // "(Tensor, int[]?)"
  std::string text;
  ((text += (text.empty() ? "" : ", ") + text_of(Type<T>())), ...);
  return "(" + text + ")";
}
//! [types]

template <typename R>
R take(StableIValue* slots, Type<R>) {
  return torch::stable::detail::to<R>(*slots);
}
inline void take(StableIValue*, Type<void>) {}
template <typename R, typename... More>
std::tuple<R, More...> take(StableIValue* slots, Type<std::tuple<R, More...>>) {
  static_assert(
      (std::is_same_v<R, More> && ...) && sizeof...(More) < 8,
      "libtorch 2.10 to 2.15 confuses the types of a call's returns");
  const auto next = [&slots] { return *slots++; };
  return {
      torch::stable::detail::to<R>(next()),
      torch::stable::detail::to<More>(next())...}; // from left to right
}

//! [call]
struct Declared { // enters the library's list when the library is loaded
  std::string (*text)();
  const Declared* next = std::exchange(first, this);
  static inline const Declared* first = nullptr;
};

template <typename Signature>
struct OpDecl {
  const char *name, *overload; // "aten::sum", "dim_IntList" or ""
};

template <const auto& op, typename Decl = std::decay_t<decltype(op)>>
struct Call;
template <const auto& op, typename R, typename... Args>
struct Call<op, OpDecl<R(Args...)>> {
  static std::string text() { // "aten::mul.Tensor(Tensor, Tensor) -> Tensor"
    return op.name + std::string(*op.overload ? "." : "") + op.overload +
        text_of(Type<std::tuple<Args...>>()) + " -> " + text_of(Type<R>());
  }
  static inline const Declared declared{&text};

  // Throws if the call fails. The arguments are libtorch's all the same.
  R operator()(const Args&... args) const {
    static_cast<void>(&declared);
    StableIValue slots[std::max<size_t>(sizeof...(Args), 8)] = {
        torch::stable::detail::from(args)...};
    const AOTITorchError code =
        torch_call_dispatcher(op.name, op.overload, slots, TORCH_ABI_VERSION);
    STD_TORCH_CHECK(code == TORCH_SUCCESS, op.name, ": ", error_text());
    return take(slots, Type<R>());
  }
};
template <const auto& op>
inline constexpr Call<op> call{};
//! [call]

} // namespace wb
#pragma GCC visibility pop

// Calls visit("aten::mul.Tensor(Tensor, Tensor) -> Tensor") for each op that
// this library calls by name.
extern "C" __attribute__((visibility("default"), used)) inline void
call_op_declared(void (*visit)(const char* call)) {
  for (auto* call = wb::Declared::first; call != nullptr; call = call->next) {
    visit(call->text().c_str());
  }
}
