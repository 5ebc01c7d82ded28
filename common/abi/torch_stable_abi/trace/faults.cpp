#include "faults.h"

#include "frames.h"
#include "slots.h"

#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace workbook::trace {

namespace {

using slots::pointer;

Kind kind_of(Base base) {
  switch (base) {
    case Base::kTensor:
      return Kind::kTensor;
    case Base::kString:
      return Kind::kString;
    case Base::kList:
      return Kind::kList;
    case Base::kGenerator:
      return Kind::kGenerator;
    default:
      return Kind::kHeapSlot;
  }
}

bool is_block(Base base) {
  return base == Base::kOptional || base == Base::kList ||
      base == Base::kTensor || base == Base::kString ||
      base == Base::kGenerator;
}

Fault error(const char* rule, const std::string& text) {
  return {Class::kError, rule, text};
}
Fault suspicion(const char* rule, const std::string& text) {
  return {Class::kSuspicious, rule, text};
}

Fault fault_of_unknown_block(Kind kind, StableIValue slot) {
  const std::string reason = no_heap_address(slot);
  if (!reason.empty()) {
    return error(
        "bad-handle", reason + ", where a " + text_of(kind) + " should be");
  }
  if (kind == Kind::kTensor && !is_like_tensor(slot)) {
    return error("bad-handle", "is the address of no tensor that is alive");
  }
  if (kind == Kind::kList || kind == Kind::kString) {
    return suspicion(
        "unseen-handle",
        "is no " + text_of(kind) + " that was seen to be made");
  }
  return {};
}

Fault fault_of_block(Kind kind, StableIValue slot) {
  if (slot == 0) {
    return error(
        "bad-handle", "empty, where a " + text_of(kind) + " should be");
  }
  Block block;
  switch (look(pointer<const void*>(slot), &block)) {
    case State::kAlive:
      return block.kind == kind
          ? Fault{}
          : error(
                "bad-handle",
                "a " + text_of(block.kind) + " (" + text_of(block.made) +
                    "), where a " + text_of(kind) + " should be");
    case State::kDead:
      mark_told(pointer<const void*>(slot));
      return error(
          "used-after-release",
          "was released before," + released_by(block) + "; it was " +
              text_of(block.made));
    case State::kUnknown:
      break;
  }
  return fault_of_unknown_block(kind, slot);
}

// From 1e-18 to 1e12, as any eps of a model, and the infinite ones of a mask.
bool is_like_double(StableIValue slot) {
  const auto exponent = static_cast<int>(slot >> 52 & 0x7ff) - 1023;
  const bool infinite = slot << 1 == uint64_t{0x7ff} << 53;
  return infinite || (-60 < exponent && exponent < 40);
}

Fault fault_of_int(StableIValue slot) {
  if (is_like_double(slot)) {
    return suspicion("bits-of-float", "has the bits of a float");
  }
  return slot >> 31 == 1
      ? suspicion("bits-of-int32", "has the bits of a negative 32-bit int")
      : Fault{};
}

Fault fault_of_float(StableIValue slot) {
  const uint64_t magnitude = slot & ~(uint64_t{1} << 63);
  if (magnitude != 0 && magnitude >> 52 == 0) {
    return slot >> 23 != 0
        ? suspicion("bits-of-float32", "has the bits of a 32-bit float")
        : suspicion("bits-of-int", "has the bits of an int");
  }
  return slot >> 48 == 0xffff
      ? suspicion("bits-of-int", "has the bits of a negative int")
      : Fault{};
}

template <typename Enum>
Fault fault_of_code(StableIValue slot, Enum count, const char* what) {
  // A newer libtorch may have more.
  return slot < static_cast<StableIValue>(count) + 8
      ? Fault{}
      : error("bad-value", std::string("is the code of no ") + what);
}

Fault fault_of_bits(Base base, StableIValue slot) {
  switch (base) {
    case Base::kBool:
      return slot > 1 ? error("bad-value", "a bool is 0 or 1") : Fault{};
    case Base::kInt:
      return fault_of_int(slot);
    case Base::kFloat:
      return fault_of_float(slot);
    case Base::kScalarType:
      return fault_of_code(slot, c10::ScalarType::NumOptions, "dtype");
    case Base::kLayout:
      return fault_of_code(slot, c10::Layout::NumOptions, "layout");
    case Base::kMemoryFormat:
      return fault_of_code(
          slot, c10::MemoryFormat::NumOptions, "memory format");
    case Base::kDevice: {
      const auto index = static_cast<int32_t>(slot & 0xffffffff);
      return slot >> 32 > 63 || index < -1 || index > 127
          ? error("bad-value", "is no device")
          : Fault{};
    }
    default:
      return {};
  }
}

Fault fault_of_value(Base base, StableIValue slot) {
  Block block;
  if (slot != 0 && look(pointer<const void*>(slot), &block) == State::kAlive) {
    return error(
        "handle-for-value",
        "the address of a " + text_of(block.kind) + " (" + text_of(block.made) +
            "), where a value should be");
  }
  Fault fault = fault_of_bits(base, slot);
  if (!fault.text.empty()) {
    fault.bits = slot >> 32 == 0 ? std::to_string(slot) : hex(slot);
  }
  return fault;
}

Fault walk(
    const Type& type,
    StableIValue slot,
    const Place* made,
    const std::string& where,
    std::vector<Part>& parts);

// The first fault of an element. Those behind a suspicious one are looked at
// all the same, for they are given away with it.
Fault walk_list(
    const Type& inner,
    StableIValue list,
    const Place* made,
    std::vector<Part>& parts) {
  Fault first;
  if (inner.base == Base::kOther ||
      (made != nullptr && !is_block(inner.base))) {
    return first;
  }
  size_t i = 0;
  for (const StableIValue element : slots::elements(list)) {
    const std::string index = "[" + std::to_string(i++) + "]";
    Fault fault = walk(inner, element, made, " in " + index, parts);
    if (!fault.text.empty() && first.text.empty()) {
      first = {fault.of, fault.rule, index + " " + fault.text, fault.bits};
    }
    if (!fault.text.empty() && fault.of == Class::kError) {
      return {fault.of, fault.rule, index + " " + fault.text, fault.bits};
    }
  }
  return first;
}

Fault walk(
    const Type& type,
    StableIValue slot,
    const Place* made,
    const std::string& where,
    std::vector<Part>& parts) {
  if (type.base == Base::kOther) {
    return {};
  }
  if (!is_block(type.base)) {
    return made != nullptr ? Fault{} : fault_of_value(type.base, slot);
  }
  if (slot == 0 && (type.base == Base::kOptional || made != nullptr)) {
    return {};
  }
  const Kind kind = kind_of(type.base);
  const auto* const address = pointer<const void*>(slot);
  if (made != nullptr) {
    follow(address, kind, *made);
  } else {
    const Fault fault = fault_of_block(kind, slot);
    if (!fault.text.empty()) {
      return fault;
    }
    if (look(address) == State::kUnknown) {
      follow(address, kind, {});
    }
  }
  parts.push_back({address, kind, where});
  return type.base == Base::kOptional
      ? walk(*type.inner, *pointer<StableIValue*>(slot), made, where, parts)
      : type.base == Base::kList ? walk_list(*type.inner, slot, made, parts)
                                 : Fault{};
}

std::string draw_tensor(AtenTensorHandle tensor) {
  int32_t dtype = 0, device = 0;
  int64_t dim = 0, *sizes = nullptr;
  bool defined = false;
  aoti_torch_is_defined(tensor, &defined);
  if (!defined) {
    return "undefined";
  }
  aoti_torch_get_dtype(tensor, &dtype);
  aoti_torch_get_device_type(tensor, &device);
  std::string text = c10::toString(static_cast<c10::ScalarType>(dtype));
  // Sizes that are symbols cannot be had so.
  if (aoti_torch_get_dim(tensor, &dim) != 0 ||
      aoti_torch_get_sizes(tensor, &sizes) != 0) {
    return text;
  }
  text += " [";
  for (int64_t i = 0; i < dim; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  return text + "]" +
      (device == 0 ? "" : " on device " + std::to_string(device));
}

// Whether what was not seen to be made can be of the type, by its bits and by
// what they refer to.
bool can_be(const Type& type, StableIValue slot) {
  if (!is_block(type.base)) {
    return no_heap_address(slot) != "";
  }
  if (slot == 0) {
    return type.base == Base::kOptional;
  }
  if (no_heap_address(slot) != "") {
    return false;
  }
  const auto* const words = pointer<const uint64_t*>(slot);
  switch (type.base) {
    case Base::kTensor:
      return is_like_tensor(slot);
    case Base::kOptional:
      return !is_block(type.inner->base) || can_be(*type.inner, words[0]);
    case Base::kList: // three addresses, as of a std::vector
      return words[0] <= words[1] && words[1] <= words[2] &&
          (words[0] | words[1] | words[2]) % 8 == 0;
    case Base::kString: // the text is behind it, or on the heap
      return words[0] == slot + 16 || (words[1] <= words[2] && words[2] >= 16);
    default:
      return true;
  }
}

} // namespace

Fault find_fault(
    const Type& type,
    StableIValue slot,
    const Place* made,
    std::vector<Part>& parts) {
  return walk(type, slot, made, "", parts);
}

bool are_confused(const std::vector<Type>& returns) {
  for (size_t i = 0; i < returns.size(); ++i) {
    if (returns[i].text != returns[returns.size() - 1 - i].text) {
      return true;
    }
  }
  return false;
}

std::string describe_confusion() {
  const auto [major, minor] = libtorch_version();
  return "libtorch " + std::to_string(major) + "." + std::to_string(minor) +
      " confuses the types of returns that do not read the same backwards";
}

Fault find_confusion(
    const std::vector<Type>& returns, size_t i, StableIValue slot) {
  const Type& type = returns[i];
  const Type& other = returns[returns.size() - 1 - i];
  if (type.text == other.text || type.base == Base::kOther ||
      can_be(type, slot)) {
    return {};
  }
  return error(
      "confused-returns",
      "has the bits of a " + other.text + ": " + describe_confusion());
}

// The name of a code as Python has it, or the code of a newer libtorch.
template <size_t count>
std::string draw_code(const char* const (&names)[count], StableIValue slot) {
  return slot < count ? names[slot] : "code " + std::to_string(slot);
}

std::string draw_value(const Type& type, StableIValue slot) {
  switch (type.base) {
    case Base::kOptional:
      return slot == 0 ? "None"
                       : draw_value(*type.inner, *pointer<StableIValue*>(slot));
    case Base::kList: {
      std::string text = "[";
      const auto elements = slots::elements(slot);
      for (size_t i = 0; i < std::min(elements.size(), size_t{8}); ++i) {
        text += (i == 0 ? "" : ", ") + draw_value(*type.inner, elements[i]);
      }
      return text + (elements.size() > 8 ? ", ...]" : "]");
    }
    case Base::kTensor:
      return slot == 0 ? "none" : draw_tensor(pointer<AtenTensorHandle>(slot));
    case Base::kString:
      return slots::draw("str", slot);
    case Base::kBool:
      return slot != 0 ? "true" : "false";
    case Base::kInt:
      return std::to_string(static_cast<int64_t>(slot));
    case Base::kFloat: {
      double value = 0;
      std::memcpy(&value, &slot, sizeof(value));
      char text[32];
      std::snprintf(text, sizeof(text), "%.9g", value);
      return text;
    }
    case Base::kScalarType:
      return c10::toString(static_cast<c10::ScalarType>(slot));
    case Base::kLayout:
      return draw_code(
          {"strided",
           "sparse_coo",
           "sparse_csr",
           "_mkldnn",
           "sparse_csc",
           "sparse_bsr",
           "sparse_bsc",
           "jagged"},
          slot);
    case Base::kMemoryFormat:
      return draw_code(
          {"contiguous_format",
           "preserve_format",
           "channels_last",
           "channels_last_3d"},
          slot);
    case Base::kDevice: {
      const auto index = static_cast<int32_t>(slot & 0xffffffff);
      return draw_code({"cpu", "cuda"}, slot >> 32) +
          (index < 0 ? "" : ":" + std::to_string(index));
    }
    default:
      return "";
  }
}

std::string hex(StableIValue slot) {
  char text[17];
  std::snprintf(
      text, sizeof(text), "%016llx", static_cast<unsigned long long>(slot));
  return text;
}

} // namespace workbook::trace
