// 03 stack conventions: two kernels that libtorch calls with a stack of slots,
// one that obeys the conventions by hand and one that leaves them to stack.h.
#include "by_hand.h"
#include "stack.h"

#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <vector>

namespace wb {
namespace {

//! [silu_and_mul]
// silu_and_mul(Tensor(a!) out, Tensor input) -> ()
// input is [..., 2d], out is [..., d]: silu(first part) * second part.
void boxed_silu_and_mul(
    StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto [out, input] = to_values<Tensor, Tensor>(slots, num_args);
  const auto [pairs] = call_by_name<Tensor>( // [..., 2, d], or it is refused
      "aten::unflatten",
      "int",
      input,
      int64_t{-1},
      std::vector<int64_t>{2, -1});
  const auto [parts] = call_by_name<std::vector<Tensor>>(
      "aten::unbind", "int", pairs, int64_t{-2});
  const auto [gate] = call_by_name<Tensor>("aten::silu", "", parts.at(0));
  call_by_name<Tensor>("aten::mul", "out", gate, parts.at(1), out);
  from_values(slots, num_returns);
}
//! [silu_and_mul]

} // namespace
} // namespace wb

STABLE_TORCH_LIBRARY(wb03, m) {
  m.def(
      "gate_and_up(Tensor input, Tensor? scale, bool swap) -> "
      "(Tensor, Tensor)");
  m.def("silu_and_mul(Tensor(a!) out, Tensor input) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(wb03, CompositeExplicitAutograd, m) {
  m.impl("gate_and_up", &wb::boxed_gate_and_up);
  m.impl("silu_and_mul", &wb::boxed_silu_and_mul);
}
