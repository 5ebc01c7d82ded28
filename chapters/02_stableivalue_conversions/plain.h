// Steps 02.1 and 02.2: values that fit into the 64 bits of a StableIValue.
// Real code calls torch::stable::detail::{from,to}.
#pragma once

#include "codes.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/device.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace wb02 {

using torch::stable::Device;

// A type that no schema can name has no Slot: Slot<int> does not compile.
template <class T, class = void>
struct Slot;

//! [bits]
// The bytes of `value`, which may be a pointer, and zeros behind them.
template <class T>
StableIValue from_bits(T value) {
  STD_TORCH_CHECK(false, "TODO(02.1): copy ", sizeof(value), " bytes");
}

// The T in the leading bytes; what is behind them means nothing.
template <class T>
T to_bits(StableIValue slot) {
  STD_TORCH_CHECK(false, "TODO(02.1): ", sizeof(T), " bytes of ", slot);
}

// A schema's `float` is a double, whatever the kernel computes in.
template <>
struct Slot<float> {
  static StableIValue from(float value) {
    STD_TORCH_CHECK(false, "TODO(02.1): widen ", value, " first");
  }
  static float to(StableIValue slot) {
    STD_TORCH_CHECK(false, "TODO(02.1): the double in ", slot);
  }
};
//! [bits]

template <class T>
struct Plain {
  static_assert(sizeof(T) <= sizeof(StableIValue));
  static_assert(std::is_trivially_copyable_v<T>);
  static StableIValue from(T value) {
    return from_bits(value);
  }
  static T to(StableIValue slot) {
    return to_bits<T>(slot);
  }
};
template <>
struct Slot<bool> : Plain<bool> {};
template <>
struct Slot<int64_t> : Plain<int64_t> {};
template <>
struct Slot<double> : Plain<double> {};

//! [enum]
// Dtype, layout, memory format: through the codes that libtorch gives.
template <class E>
struct Slot<E, std::enable_if_t<std::is_enum_v<E>>> {
  static StableIValue from(E value) {
    STD_TORCH_CHECK(false, "TODO(02.2): the code of a ", kName<E>);
    no_code_for(kName<E>, static_cast<int>(value));
  }

  static E to(StableIValue slot) {
    const auto code = to_bits<int32_t>(slot);
    STD_TORCH_CHECK(false, "TODO(02.2): the ", kName<E>, " of code ", code);
    no_value_for(kName<E>, code);
  }
};

// The index in the lower half, the code of the type in the upper one.
template <>
struct Slot<Device> {
  static StableIValue from(const Device& value) {
    STD_TORCH_CHECK(false, "TODO(02.2): a device of index ", value.index());
  }
  static Device to(StableIValue slot) {
    STD_TORCH_CHECK(false, "TODO(02.2): the device in ", slot);
  }
};
//! [enum]

} // namespace wb02
