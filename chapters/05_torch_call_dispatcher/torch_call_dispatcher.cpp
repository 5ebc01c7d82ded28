// 05 torch_call_dispatcher: swiglu_mlp, a kernel that is made of calls: of ops
// of PyTorch, and of one of our own.
#include "calls.h"
#include "silu_and_mul.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace {

// [..., 2d] -> [..., d]: silu(first half) * second half.
Tensor silu_and_mul(const Tensor& input) {
  STD_TORCH_CHECK(
      input.dim() > 0 && input.size(-1) % 2 == 0,
      "silu_and_mul: input must end in an even size");
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() /= 2;
  Tensor out = torch::stable::new_empty(input, sizes);
  fill(out, input, std::nullopt, {1, std::numeric_limits<double>::infinity()});
  return out;
}

//! [meta]
constexpr Op<std::vector<Tensor>(Tensor, int64_t, int64_t)> chunk{
    "aten::chunk", ""};
constexpr Op<Tensor(
    Tensor, // self; the rest is dtype, layout, device, pin_memory, ...
    MaybeDtype,
    std::optional<c10::Layout>,
    std::optional<torch::stable::Device>,
    std::optional<bool>,
    std::optional<MemoryFormat>)>
    empty_like{"aten::empty_like", ""};

Tensor silu_and_mul_meta(const Tensor& input) {
  const Tensor half = call<chunk>(input, 2, -1).at(0); // reads no size
  return call<empty_like>(half, {}, {}, {}, {}, MemoryFormat::Contiguous);
}
//! [meta]

//! [swiglu_mlp]
// aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor
// TODO(05.7): declare it as linear.
// By name, so that libtorch picks the kernel: CPU, Meta, autograd's.
// TODO(05.7): declare wb05::silu_and_mul as own_silu_and_mul.

// x[..., h], w_gate_up[2d, h], w_down[h, d] -> [..., h]
Tensor swiglu_mlp(
    const Tensor& x, const Tensor& w_gate_up, const Tensor& w_down) {
  // TODO(05.7): three calls.
  const auto dims = x.dim() + w_gate_up.dim() + w_down.dim();
  STD_TORCH_CHECK(false, "TODO(05.7): ", dims, "d");
}
//! [swiglu_mlp]

} // namespace

STABLE_TORCH_LIBRARY(wb05, m) {
  m.def("silu_and_mul(Tensor input) -> Tensor");
  m.def("swiglu_mlp(Tensor x, Tensor w_gate_up, Tensor w_down) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(wb05, CPU, m) {
  m.impl("silu_and_mul", TORCH_BOX(&silu_and_mul));
}
STABLE_TORCH_LIBRARY_IMPL(wb05, Meta, m) {
  m.impl("silu_and_mul", TORCH_BOX(&silu_and_mul_meta));
}
STABLE_TORCH_LIBRARY_IMPL(wb05, CompositeExplicitAutograd, m) {
  m.impl("swiglu_mlp", TORCH_BOX(&swiglu_mlp));
}
