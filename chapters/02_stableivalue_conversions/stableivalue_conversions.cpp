// 02 StableIValue conversions: ops that take a value out of its slot and make a
// new slot for it, by the conversions of plain.h and owning.h. From Python:
// torch.ops.wb02.echo_str("text").
#include "owning.h"
#include "plain.h"

#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace wb02;

//! [echo]
// The kernel owns the slots that it is given, and gives a slot that it made.
template <class T>
void echo(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = Slot<T>::from(Slot<T>::to(stack[0]));
}
//! [echo]

// A value as 64 bits that a test can write down: an enum by its number in the
// headers, a Device by that of its type and its index.
template <class T>
T value_of(StableIValue bits) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(bits);
  } else if constexpr (std::is_same_v<T, Device>) {
    const auto type = static_cast<DeviceType>(bits >> 32);
    return Device(type, static_cast<int32_t>(bits));
  } else {
    return torch::stable::detail::to<T>(bits);
  }
}
template <class T>
StableIValue bits_of(T value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<StableIValue>(value);
  } else if constexpr (std::is_same_v<T, Device>) {
    return bits_of(value.type()) << 32 | static_cast<uint32_t>(value.index());
  } else {
    return torch::stable::detail::from(value);
  }
}

// One direction by hand.
template <class T>
void from(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = Slot<T>::from(value_of<T>(stack[0]));
}
template <class T>
void to(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = bits_of(Slot<T>::to(stack[0]));
}

struct Op {
  const char* name;
  const char* schema;
  void (*kernel)(StableIValue* stack, uint64_t, uint64_t);
};
#define OP(name, signature, kernel) \
  { name, name signature, kernel }

template <class T>
using List = std::vector<T>;
template <class T>
using Maybe = std::optional<T>;

// echo_* has the type's own schema: libtorch converts on the other side of the
// border. The rest say `int`: libtorch lets 64 bits through, and the caller
// sees the slot itself.
constexpr Op kOps[] = {
    OP("echo_bool", "(bool x) -> bool", echo<bool>),
    OP("from_bool", "(int value) -> int", from<bool>),
    OP("to_bool", "(int slot) -> int", to<bool>),
    OP("echo_int", "(int x) -> int", echo<int64_t>),
    OP("from_int", "(int value) -> int", from<int64_t>),
    OP("to_int", "(int slot) -> int", to<int64_t>),
    OP("echo_float", "(float x) -> float", echo<double>),
    OP("from_float", "(int value) -> int", from<double>),
    OP("to_float", "(int slot) -> int", to<double>),
    OP("echo_float32", "(float x) -> float", echo<float>),
    OP("from_float32", "(int value) -> int", from<float>),
    OP("to_float32", "(int slot) -> int", to<float>),
    OP("echo_dtype", "(ScalarType x) -> ScalarType", echo<ScalarType>),
    OP("from_dtype", "(int value) -> int", from<ScalarType>),
    OP("to_dtype", "(int slot) -> int", to<ScalarType>),
    OP("echo_layout", "(Layout x) -> Layout", echo<Layout>),
    OP("from_layout", "(int value) -> int", from<Layout>),
    OP("to_layout", "(int slot) -> int", to<Layout>),
    OP("echo_memory_format",
       "(MemoryFormat x) -> MemoryFormat",
       echo<MemoryFormat>),
    OP("from_memory_format", "(int value) -> int", from<MemoryFormat>),
    OP("to_memory_format", "(int slot) -> int", to<MemoryFormat>),
    OP("echo_device", "(Device x) -> Device", echo<Device>),
    OP("from_device", "(int value) -> int", from<Device>),
    OP("to_device", "(int slot) -> int", to<Device>),
    OP("echo_tensor", "(Tensor x) -> Tensor", echo<Tensor>),
    OP("raw_tensor", "(int slot) -> int", echo<Tensor>),
    OP("echo_str", "(str x) -> str", echo<std::string>),
    OP("raw_str", "(int slot) -> int", echo<std::string>),
    OP("echo_maybe_int", "(int? x) -> int?", echo<Maybe<int64_t>>),
    OP("raw_maybe_int", "(int slot) -> int", echo<Maybe<int64_t>>),
    OP("echo_maybe_dtype",
       "(ScalarType? x) -> ScalarType?",
       echo<Maybe<ScalarType>>),
    OP("raw_maybe_dtype", "(int slot) -> int", echo<Maybe<ScalarType>>),
    OP("echo_maybe_tensor", "(Tensor? x) -> Tensor?", echo<Maybe<Tensor>>),
    OP("raw_maybe_tensor", "(int slot) -> int", echo<Maybe<Tensor>>),
    OP("echo_ints", "(int[] x) -> int[]", echo<List<int64_t>>),
    OP("raw_ints", "(int slot) -> int", echo<List<int64_t>>),
    OP("echo_tensors", "(Tensor[] x) -> Tensor[]", echo<List<Tensor>>),
    OP("raw_tensors", "(int slot) -> int", echo<List<Tensor>>),
    OP("echo_nested_dtypes",
       "(ScalarType[][] x) -> ScalarType[][]",
       echo<List<List<ScalarType>>>),
    OP("raw_nested_dtypes", "(int slot) -> int", echo<List<List<ScalarType>>>),
    OP("echo_maybe_tensors",
       "(Tensor?[] x) -> Tensor?[]",
       echo<List<Maybe<Tensor>>>),
    OP("raw_maybe_tensors", "(int slot) -> int", echo<List<Maybe<Tensor>>>),
    OP("echo_maybe_ints", "(int[]? x) -> int[]?", echo<Maybe<List<int64_t>>>),
    OP("raw_maybe_ints", "(int slot) -> int", echo<Maybe<List<int64_t>>>),
};

} // namespace

STABLE_TORCH_LIBRARY(wb02, m) {
  for (const Op& op : kOps) {
    m.def(op.schema);
  }
}

STABLE_TORCH_LIBRARY_IMPL(wb02, CompositeExplicitAutograd, m) {
  for (const Op& op : kOps) {
    m.impl(op.name, op.kernel);
  }
}
