// The types of the conversion table that have no handle: how their values are
// written in C++, and checks of the slots that the learner's code makes of
// them.
#pragma once

#include "abi/torch_stable_abi/trace/slots.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/library.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace workbook::chapter_02 {

using c10::DeviceType;
using c10::Layout;
using c10::MemoryFormat;
using c10::ScalarType;
using doctest::Contains;
using torch::stable::Device;
namespace theirs = torch::stable::detail; // PyTorch's own conversions

// Calls an op of the library under test with one slot, and returns the slot.
inline StableIValue call(const std::string& name, StableIValue slot) {
  call_op("wb02::" + name, "", &slot);
  return slot;
}

// Returns the slot that PyTorch's own conversion makes of the value.
template <class T>
StableIValue bits(T value) {
  return theirs::from(value);
}

using slots::hex;

// A function that writes the value which a probe passes as these bits.
using Written = std::string (*)(StableIValue);

inline std::string write_bool(StableIValue value) {
  return slots::written("bool", value);
}
inline std::string write_int(StableIValue value) {
  return slots::written("int", value);
}
inline std::string write_float(StableIValue value) {
  return slots::written("float", value);
}
inline std::string write_in(
    const std::string& type,
    const std::vector<const char*>& names,
    StableIValue value) {
  return value < names.size() ? type + "::" + names[value]
                              : type + " of number " + std::to_string(value);
}
inline std::string write_dtype(StableIValue value) {
  return std::string("ScalarType::") + toString(static_cast<ScalarType>(value));
}
inline std::string write_layout(StableIValue value) {
  return write_in(
      "Layout",
      {"Strided",
       "Sparse",
       "SparseCsr",
       "Mkldnn",
       "SparseCsc",
       "SparseBsr",
       "SparseBsc",
       "Jagged"},
      value);
}
inline std::string write_memory_format(StableIValue value) {
  return write_in(
      "MemoryFormat",
      {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"},
      value);
}
inline std::string write_device(StableIValue value) {
  const auto type = static_cast<DeviceType>(value >> 32);
  const char* const name = type == DeviceType::CPU ? "CPU"
      : type == DeviceType::CUDA                   ? "CUDA"
      : type == DeviceType::Meta                   ? "Meta"
      : type == DeviceType::XPU                    ? "XPU"
      : type == DeviceType::MPS                    ? "MPS"
      : type == DeviceType::PrivateUse1            ? "PrivateUse1"
                                                   : nullptr;
  return "Device(" +
      (name ? "DeviceType::" + std::string(name)
            : "type " + std::to_string(value >> 32)) +
      ", " + std::to_string(static_cast<int32_t>(value)) + ")";
}

// A type of the table: its name in the ops and in C++, the function that writes
// its values, and the places of the learner's functions that make and read the
// slot.
struct Type {
  std::string name;
  std::string cpp;
  Written written;
  std::string from;
  std::string to;
};
inline const std::string kFromBits = "slot.h: StableIValue from_bits(";
inline const std::string kToBits = "slot.h: T to_bits(";
inline const std::string kCodeOf = "codes.h: int32_t code_of(";
inline const std::string kValueOf = "codes.h: E value_of(";
inline const Type kBool{"bool", "bool", write_bool, kFromBits, kToBits};
inline const Type kInt{"int", "int64_t", write_int, kFromBits, kToBits};
inline const Type kFloat{"float", "double", write_float, kFromBits, kToBits};
inline const Type kDtype{"dtype", "ScalarType", write_dtype, kCodeOf, kValueOf};
inline const Type kLayout{"layout", "Layout", write_layout, kCodeOf, kValueOf};
inline const Type kMemoryFormat{
    "memory_format", "MemoryFormat", write_memory_format, kCodeOf, kValueOf};
inline const Type kDevice{
    "device",
    "Device",
    write_device,
    "slot.h: StableIValue from(const Device&",
    "slot.h: Device to("};

// Requires that both texts are equal, and else sends the learner to `place`.
inline void require_same(
    const std::string& place,
    const std::string& what,
    const std::string& got,
    const std::string& want) {
  if (got != want) {
    INFO("look at ", place);
    FAIL(what, "\n  gives      ", got, "\n  should be  ", want);
  }
}

// These require that Slot<T>::from makes `slot` of the value, that Slot<T>::to
// makes the value of `slot`, and that the probe's op returns the same slot.
inline void check_from(
    const Type& type, StableIValue value, StableIValue slot) {
  require_same(
      type.from,
      "Slot<" + type.cpp + ">::from(" + type.written(value) + ")",
      hex(call("from_" + type.name, value)),
      hex(slot));
}
inline void check_to(const Type& type, StableIValue value, StableIValue slot) {
  require_same(
      type.to,
      "Slot<" + type.cpp + ">::to(" + hex(slot) + ")",
      type.written(call("to_" + type.name, slot)),
      type.written(value));
}
inline void check_echo(const Type& type, StableIValue slot) {
  require_same(
      type.from,
      "echo_" + type.name + ", called with " + hex(slot) + ",",
      hex(call("echo_" + type.name, slot)),
      hex(slot));
}

// Requires that the learner's conversions convert every enumerator that
// PyTorch's own convert, to and from the same code. Returns the number of
// enumerators.
template <class E>
int check_enum(const Type& type, E end) {
  int converted = 0;
  for (int i = 0; i < static_cast<int>(end); ++i) {
    const auto value = static_cast<StableIValue>(i);
    StableIValue code = 0;
    try {
      code = theirs::from(static_cast<E>(i));
    } catch (const std::exception&) {
      continue; // libtorch has no code for this enumerator
    }
    check_from(type, value, code);
    check_to(type, value, code);
    // A code has 32 bits, and the other 32 bits of the slot mean nothing.
    check_to(type, value, code | ~uint64_t{0} << 32);
    check_echo(type, code);
    ++converted;
  }
  return converted;
}
inline void check_enums() {
  CHECK(check_enum(kDtype, ScalarType::NumOptions) == 20);
  CHECK(check_enum(kLayout, Layout::NumOptions) == 8);
  CHECK(check_enum(kMemoryFormat, MemoryFormat::NumOptions) == 4);
}
inline void check_device(DeviceType type, int32_t index) {
  const StableIValue number =
      static_cast<StableIValue>(type) << 32 | static_cast<uint32_t>(index);
  const StableIValue slot = bits(Device(type, index));
  check_from(kDevice, number, slot);
  check_to(kDevice, number, slot);
}

// Requires that an enumerator without a code is refused by a text that names
// its type.
template <class E>
void check_refused(const Type& type, E end) {
  for (int i = 0; i < static_cast<int>(end); ++i) {
    try {
      theirs::from(static_cast<E>(i));
    } catch (const std::exception&) {
      const auto value = static_cast<StableIValue>(i);
      INFO("Slot<", type.cpp, ">::from(", type.written(value), ")");
      const auto text = refusal([&] { call("from_" + type.name, value); });
      REQUIRE(text == Contains(type.cpp.c_str()));
    }
  }
}

} // namespace workbook::chapter_02
