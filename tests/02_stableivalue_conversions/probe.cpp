// The library that the tests of chapter 02 load: the folder under test, and ops
// that show one direction of a conversion, or the slot itself.
#include "stableivalue_conversions.cpp"

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace wb::probe {

// A value as 64 bits that a test can write down: an enum by its number in the
// headers, a Device by that of its type and its index.
template <typename T>
T value_in(StableIValue bits) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(bits);
  } else if constexpr (std::is_same_v<T, Device>) {
    const auto type = static_cast<DeviceType>(bits >> 32);
    return Device(type, static_cast<int32_t>(bits));
  } else {
    return torch::stable::detail::to<T>(bits);
  }
}
template <typename T>
StableIValue bits_in(T value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<StableIValue>(value);
  } else if constexpr (std::is_same_v<T, Device>) {
    return bits_in(value.type()) << 32 | static_cast<uint32_t>(value.index());
  } else {
    return torch::stable::detail::from(value);
  }
}

template <typename T>
void from(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = Slot<T>::from(value_in<T>(stack[0]));
}
template <typename T>
void to(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = bits_in(Slot<T>::to(stack[0]));
}
template <typename T>
void release(StableIValue* stack, uint64_t, uint64_t) {
  Slot<T>::release(stack[0]);
}

// A code, in and out of the lower half of a slot.
void from_code(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = from_bits(static_cast<int32_t>(stack[0]));
}
void to_code(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = static_cast<StableIValue>(int64_t{to_bits<int32_t>(stack[0])});
}

// By an owner, which is moved before its scope ends; or not, if it hands over.
template <typename T>
void release_by_owner(StableIValue* stack, uint64_t, uint64_t) {
  OwnedSlot<T> owned(stack[0]);
  const OwnedSlot<T> moved(std::move(owned));
}
template <typename T>
void hand_over(StableIValue* stack, uint64_t, uint64_t) {
  OwnedSlot<T> owned(stack[0]);
  OwnedSlot<T> moved(std::move(owned));
  stack[0] = moved.hand_over();
}

template <typename T>
using List = std::vector<T>;
template <typename T>
using Maybe = std::optional<T>;

// A list with a good dtype and the one of this number.
void from_dtypes(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = Slot<List<ScalarType>>::from(
      {ScalarType::Float, value_in<ScalarType>(stack[0])});
}

// The type in the schema is `int` where it is not named: libtorch lets 64 bits
// through, and the caller sees the slot itself.
constexpr Row kOps[] = {
    {"from_bool", "int", from<bool>},
    {"to_bool", "int", to<bool>},
    {"from_int", "int", from<int64_t>},
    {"to_int", "int", to<int64_t>},
    {"from_float", "int", from<double>},
    {"to_float", "int", to<double>},
    {"from_bits", "int", from_code},
    {"to_bits", "int", to_code},
    {"from_dtype", "int", from<ScalarType>},
    {"to_dtype", "int", to<ScalarType>},
    {"from_dtypes", "int", from_dtypes},
    {"from_layout", "int", from<Layout>},
    {"to_layout", "int", to<Layout>},
    {"from_memory_format", "int", from<MemoryFormat>},
    {"to_memory_format", "int", to<MemoryFormat>},
    {"from_device", "int", from<Device>},
    {"to_device", "int", to<Device>},
    {"raw_tensor", "int", echo<Tensor>},
    {"raw_str", "int", echo<std::string>},
    {"raw_maybe_int", "int", echo<Maybe<int64_t>>},
    {"raw_maybe_dtype", "int", echo<Maybe<ScalarType>>},
    {"raw_maybe_tensor", "int", echo<Maybe<Tensor>>},
    {"raw_ints", "int", echo<List<int64_t>>},
    {"raw_bools", "int", echo<List<bool>>},
    {"raw_tensors", "int", echo<List<Tensor>>},
    {"raw_nested_dtypes", "int", echo<List<List<ScalarType>>>},
    {"raw_maybe_tensors", "int", echo<List<Maybe<Tensor>>>},
    {"raw_maybe_ints", "int", echo<Maybe<List<int64_t>>>},
    {"echo_maybe_dtype", "ScalarType?", echo<Maybe<ScalarType>>},
    {"echo_nested_dtypes", "ScalarType[][]", echo<List<List<ScalarType>>>},
    {"echo_maybe_tensors", "Tensor?[]", echo<List<Maybe<Tensor>>>},
    {"echo_maybe_ints", "int[]?", echo<Maybe<List<int64_t>>>},
    {"release_tensor", "int", release<Tensor>},
    {"release_str", "int", release<std::string>},
    {"release_by_owner", "int", release_by_owner<std::string>},
    {"hand_over", "int", hand_over<std::string>},
    {"release_maybe_int", "int", release<Maybe<int64_t>>},
    {"release_maybe_tensor", "int", release<Maybe<Tensor>>},
    {"release_ints", "int", release<List<int64_t>>},
    {"release_tensors", "int", release<List<Tensor>>},
    {"release_nested_dtypes", "int", release<List<List<ScalarType>>>},
    {"release_maybe_tensors", "int", release<List<Maybe<Tensor>>>},
    {"release_maybe_int_list", "int", release<List<Maybe<int64_t>>>},
};

} // namespace wb::probe

extern "C" __attribute__((visibility("default"))) bool
wb02_release_is_noexcept() {
  using wb::Slot;
  return noexcept(Slot<std::vector<int64_t>>::release(0))&& noexcept(
      Slot<std::vector<wb::Tensor>>::release(0));
}

STABLE_TORCH_LIBRARY_FRAGMENT(wb02, m) {
  for (const wb::Row& op : wb::probe::kOps) {
    const std::string type = op.type;
    m.def((std::string(op.name) + "(" + type + " x) -> " + type).c_str());
  }
}
STABLE_TORCH_LIBRARY_IMPL(wb02, CompositeExplicitAutograd, m) {
  for (const wb::Row& op : wb::probe::kOps) {
    m.impl(op.name, op.kernel);
  }
}
