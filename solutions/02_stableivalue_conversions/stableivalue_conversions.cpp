// 02 StableIValue conversions: an op for each kind of value, which takes it out
// of its slot and makes a new slot for it, by the conversions of slot.h. From
// Python: torch.ops.wb02.echo_device("cuda:3").
#include "slot.h"

#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace wb {
namespace {

//! [echo]
// A kernel: the slot that it is given is its own, and the one that it leaves in
// its place belongs to the caller.
template <typename T>
void echo(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = Slot<T>::from(Slot<T>::to(stack[0]));
}
//! [echo]

struct Row {
  const char* name;
  const char* type; // in the schema
  void (*kernel)(StableIValue* stack, uint64_t, uint64_t);
};
constexpr Row kRows[] = {
    {"echo_bool", "bool", echo<bool>},
    {"echo_int", "int", echo<int64_t>},
    {"echo_float", "float", echo<double>},
    {"echo_dtype", "ScalarType", echo<ScalarType>},
    {"echo_layout", "Layout", echo<Layout>},
    {"echo_memory_format", "MemoryFormat", echo<MemoryFormat>},
    {"echo_device", "Device", echo<Device>},
    {"echo_tensor", "Tensor", echo<Tensor>},
    {"echo_str", "str", echo<std::string>},
    {"echo_maybe_int", "int?", echo<std::optional<int64_t>>},
    {"echo_maybe_tensor", "Tensor?", echo<std::optional<Tensor>>},
    {"echo_ints", "int[]", echo<std::vector<int64_t>>},
    {"echo_tensors", "Tensor[]", echo<std::vector<Tensor>>},
};

} // namespace
} // namespace wb

STABLE_TORCH_LIBRARY(wb02, m) {
  for (const wb::Row& row : wb::kRows) {
    const std::string type = row.type;
    std::string schema = row.name;
    schema.append("(").append(type).append(" x) -> ").append(type);
    m.def(schema.c_str());
  }
}

STABLE_TORCH_LIBRARY_IMPL(wb02, CompositeExplicitAutograd, m) {
  for (const wb::Row& row : wb::kRows) {
    m.impl(row.name, row.kernel);
  }
}
