// 03 stack conventions: two kernels that libtorch calls with a stack of slots,
// one that obeys the conventions by hand and one that leaves them to stack.h.
#include "by_hand.h"
#include "stack.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <vector>

namespace {

using torch::stable::Tensor;

//! [silu_and_mul]
// silu_and_mul(Tensor(a!) out, Tensor input) -> ()
// input is [..., 2d], out is [..., d]: silu(first half) * second half.
void boxed_silu_and_mul(
    StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto [out, input] = stack::take<Tensor, Tensor>(slots, num_args);
  const auto [halves] = stack::call<std::vector<Tensor>>(
      "aten::chunk", "", input, int64_t{2}, int64_t{-1});
  STD_TORCH_CHECK(halves.size() == 2, "input must end in an even size");
  const auto [gate] = stack::call<Tensor>("aten::silu", "", halves[0]);
  stack::call<Tensor>("aten::mul", "out", gate, halves[1], out);
  stack::give(slots, num_returns);
}
//! [silu_and_mul]

} // namespace

STABLE_TORCH_LIBRARY(wb03, m) {
  m.def(
      "gate_and_up(Tensor input, Tensor? scale, bool swap) -> "
      "(Tensor, Tensor)");
  m.def("silu_and_mul(Tensor(a!) out, Tensor input) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(wb03, CompositeExplicitAutograd, m) {
  m.impl("gate_and_up", &by_hand::boxed_gate_and_up);
  m.impl("silu_and_mul", &boxed_silu_and_mul);
}
