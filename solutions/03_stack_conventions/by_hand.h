// Steps 03.1 to 03.5: the conventions of a stack, by hand. Who calls an op
// fills an array of slots and reads the returns from it; a kernel finds its
// arguments in one and leaves its returns there. No value here may be lost or
// owned twice.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <tuple>

namespace by_hand {

namespace detail = torch::stable::detail;
using torch::stable::Tensor;

// Calls an op by name; throws if it fails.
inline void call(const char* op, const char* overload, StableIValue* slots) {
  STD_TORCH_CHECK(
      torch_call_dispatcher(op, overload, slots, TORCH_ABI_VERSION) ==
          TORCH_SUCCESS,
      op,
      " failed");
}

//! [left_to_right]
// dividend / divisor, by
// aten::div.Tensor(Tensor self, Tensor other) -> Tensor
inline Tensor divide(const Tensor& dividend, const Tensor& divisor) {
  StableIValue slots[] = {detail::from(dividend), detail::from(divisor)};
  call("aten::div", "Tensor", slots);
  return detail::to<Tensor>(slots[0]);
}
//! [left_to_right]

//! [max_slots]
// Mantissa and exponent, by
// aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)
inline std::tuple<Tensor, Tensor> frexp(const Tensor& input) {
  StableIValue slots[2] = {detail::from(input)}; // slots[1] is for a return
  call("aten::frexp", "Tensor", slots);
  return {detail::to<Tensor>(slots[0]), detail::to<Tensor>(slots[1])};
}
//! [max_slots]

//! [owning_handles]
// input * input. Borrows the handle: it still belongs to the caller afterwards.
// aten::mul.Tensor(Tensor self, Tensor other) -> Tensor
inline Tensor square(AtenTensorHandle input) {
  AtenTensorHandle self = nullptr;
  AtenTensorHandle other = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(input, &self));
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(input, &other));
  StableIValue slots[] = {detail::from(self), detail::from(other)};
  call("aten::mul", "Tensor", slots);
  return detail::to<Tensor>(slots[0]);
}
//! [owning_handles]

//! [every_return]
// out = self * other, by
// aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
inline void multiply_into(
    const Tensor& out, const Tensor& self, const Tensor& other) {
  StableIValue slots[] = {
      detail::from(self), detail::from(other), detail::from(out)};
  call("aten::mul", "out", slots);
  detail::to<Tensor>(slots[0]); // `out` again, by a handle of its own
}
//! [every_return]

// input is [..., 2d]. Copies of its halves, [..., d] each, in this order unless
// `swap`; the second one is multiplied by `scale`, if there is one.
inline std::tuple<Tensor, Tensor> gate_and_up(
    Tensor input, const std::optional<Tensor>& scale, bool swap) {
  using torch::stable::clone, torch::stable::narrow;
  const int64_t d = input.size(input.dim() - 1) / 2;
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
  const Tensor input = detail::to<Tensor>(slots[0]);
  const auto scale = detail::to<std::optional<Tensor>>(slots[1]);
  const bool swap = detail::to<bool>(slots[2]);
  const auto [gate, up] = gate_and_up(input, scale, swap);
  slots[0] = detail::from(gate);
  slots[1] = detail::from(up);
}
//! [kernel]

} // namespace by_hand
