// 05 torch_call_dispatcher: two ops that are made of calls of other ops, and
// so need no kernel for a GPU, no Meta kernel and no gradient of their own.
#include "calls.h"

#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace wb {
namespace {

//! [silu_and_mul]
constexpr OpDecl<Tensor(Tensor, int64_t, std::vector<int64_t>)> unflatten{
    "aten::unflatten", "int"};
constexpr OpDecl<std::vector<Tensor>(Tensor, int64_t)> unbind{
    "aten::unbind", "int"};
constexpr OpDecl<Tensor(Tensor)> silu{"aten::silu", ""};
constexpr OpDecl<Tensor(Tensor, Tensor)> mul{"aten::mul", "Tensor"};

// [..., 2d] -> [..., d]: silu(first half) * second half. Reads no size.
Tensor silu_and_mul(const Tensor& input) {
  const Tensor rows = call<unflatten>(input, -1, {2, -1}); // [..., 2, d]
  const std::vector<Tensor> parts = call<unbind>(rows, -2);
  return call<mul>(call<silu>(parts.at(0)), parts.at(1));
}
//! [silu_and_mul]

//! [swiglu_mlp]
// aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor
// TODO(05.6): declare it as linear.
// The op is called by name, so that libtorch picks its kernel.
// TODO(05.6): declare wb05::silu_and_mul as own_silu_and_mul.

// x[..., h], w_gate_up[2d, h], w_down[h, d] -> [..., h]
Tensor swiglu_mlp(
    const Tensor& x, const Tensor& w_gate_up, const Tensor& w_down) {
  // TODO(05.6): three calls.
  const auto dims = x.dim() + w_gate_up.dim() + w_down.dim();
  STD_TORCH_CHECK(false, "TODO(05.6): ", dims, "d");
}
//! [swiglu_mlp]

} // namespace
} // namespace wb

STABLE_TORCH_LIBRARY(wb05, m) {
  m.def("silu_and_mul(Tensor input) -> Tensor");
  m.def("swiglu_mlp(Tensor x, Tensor w_gate_up, Tensor w_down) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(wb05, CompositeImplicitAutograd, m) {
  m.impl("silu_and_mul", TORCH_BOX(&wb::silu_and_mul));
  m.impl("swiglu_mlp", TORCH_BOX(&wb::swiglu_mlp));
}
