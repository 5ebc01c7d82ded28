// declared.h: a library's calls by name, listed as text, so that they can be
// compared with the schemas of libtorch. Part of call_op.h.
#pragma once

#include "slot.h"

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

// Hidden: each library has a list of its own, also in a process with others.
#pragma GCC visibility push(hidden)
namespace wb {

//! [types]
// What schemas call a type. The enums have their names from codes.h; a type
// without one is not supported, nor is a DeviceType, a part of a Device.
template <>
inline constexpr const char* kName<bool> = "bool";
template <>
inline constexpr const char* kName<int64_t> = "int";
template <>
inline constexpr const char* kName<double> = "float";
template <>
inline constexpr const char* kName<std::string> = "str";
template <>
inline constexpr const char* kName<Tensor> = "Tensor";
template <>
inline constexpr const char* kName<Device> = "Device";

template <typename T>
struct SchemaType {
  static constexpr bool supported =
      kName<T> != nullptr && !std::is_same_v<T, DeviceType>;
  static std::string text() {
    return kName<T>;
  }
};
template <typename T>
struct SchemaType<std::optional<T>> {
  static constexpr bool supported = SchemaType<T>::supported;
  static std::string text() {
    return SchemaType<T>::text() + "?";
  }
};
template <typename T>
struct SchemaType<std::vector<T>> {
  static constexpr bool supported = SchemaType<T>::supported;
  static std::string text() {
    return SchemaType<T>::text() + "[]";
  }
};

// "(Tensor, int[]?)"
template <typename... T>
std::string in_parentheses() {
  std::string text;
  ((text += (text.empty() ? "" : ", ") + SchemaType<T>::text()), ...);
  return "(" + text + ")";
}
//! [types]

//! [declared]
// One call. It enters the list when the library is loaded.
struct Declared {
  const char* name;
  const char* overload;
  std::string (*signature)();
  const Declared* next;

  Declared(const char* name, const char* overload, std::string (*signature)())
      : name(name), overload(overload), signature(signature), next(first) {
    first = this;
  }
  static inline const Declared* first = nullptr;
};
//! [declared]

} // namespace wb
#pragma GCC visibility pop

//! [export]
// Calls visit("aten::mul.Tensor(Tensor, Tensor) -> Tensor") for each call that
// this library makes through call_op.h.
extern "C" __attribute__((visibility("default"), used)) inline void
call_op_declared(void (*visit)(const char* call)) {
  const auto* call = wb::Declared::first;
  for (; call != nullptr; call = call->next) {
    const std::string dot = *call->overload == 0 ? "" : ".";
    visit((call->name + dot + call->overload + call->signature()).c_str());
  }
}
//! [export]
