// Steps 03.1 to 03.4: the conventions of a stack, by hand. Whoever calls an op
// fills an array of slots and finds the returns in it; a kernel finds its
// arguments in one and leaves its returns there. No value may be lost, and none
// owned twice.
#pragma once

#include "stack.h"

#include <torch/csrc/stable/ops.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace wb {

//! [left_to_right]
// dividend / divisor, by
// aten::div.Tensor(Tensor self, Tensor other) -> Tensor
inline Tensor divide(const Tensor& dividend, const Tensor& divisor) {
  StableIValue slots[] = {
      Slot<Tensor>::from(dividend), Slot<Tensor>::from(divisor)};
  call_slots("aten::div", "Tensor", slots);
  return Slot<Tensor>::to(slots[0]);
}
//! [left_to_right]

//! [max_slots]
// Mantissa and exponent, by
// aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)
inline std::tuple<Tensor, Tensor> frexp(const Tensor& input) {
  // TODO(03.1): how many slots does this need?
  STD_TORCH_CHECK(false, "TODO(03.1): ", input.dim(), "d");
}
//! [max_slots]

//! [owning_handles]
// input * input. Borrows the handle: it still belongs to the caller afterwards.
// aten::mul.Tensor(Tensor self, Tensor other) -> Tensor
inline Tensor square(AtenTensorHandle input) {
  // TODO(03.2): make a handle for each slot.
  STD_TORCH_CHECK(false, "TODO(03.2): ", input, " is the caller's");
}
//! [owning_handles]

//! [every_return]
// out = self * other, by
// aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
inline void multiply_into(
    const Tensor& out, const Tensor& self, const Tensor& other) {
  // TODO(03.3): fill three slots, call, and empty the return's.
  const auto dims = out.dim() + self.dim() + other.dim();
  STD_TORCH_CHECK(false, "TODO(03.3): ", dims, "d");
}
//! [every_return]

// input is [..., 2d]. Copies of its two parts, [..., d] each, in this order
// unless `swap`; the second one is multiplied by `scale`, if there is one.
inline std::tuple<Tensor, Tensor> gate_and_up(
    Tensor input, const std::optional<Tensor>& scale, bool swap) {
  using torch::stable::clone, torch::stable::narrow;
  const int64_t columns = input.size(input.dim() - 1);
  STD_TORCH_CHECK(
      columns % 2 == 0, "input's last size must be even, got ", columns);
  const int64_t d = columns / 2;
  const Tensor gate = clone(narrow(input, -1, swap ? d : 0, d));
  const Tensor up = clone(narrow(input, -1, swap ? 0 : d, d));
  if (scale) {
    multiply_into(up, up, *scale);
  }
  return {gate, up};
}

//! [kernel]
// gate_and_up(Tensor input, Tensor? scale, bool swap) -> (Tensor, Tensor)
inline void boxed_gate_and_up(StableIValue* slots, uint64_t, uint64_t) {
  // TODO(03.4): steal three arguments, call gate_and_up, write two returns.
  STD_TORCH_CHECK(false, "TODO(03.4): ", slots);
}
//! [kernel]

} // namespace wb
