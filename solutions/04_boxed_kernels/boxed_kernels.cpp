// The ops of this package: their schemas, their kernels by dispatch key. The
// kernels of silu_and_mul are in silu_and_mul.h.
#include "checked_box.h"
#include "checks.h"
#include "outputs.h"
#include "silu_and_mul.h"
#include "sizes.h"
#include "swiglu.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

//! [schemas]
STABLE_TORCH_LIBRARY(wb04, m) {
  m.def("silu_and_mul.out(Tensor! out, Tensor input) -> ()");
  m.def("silu_and_mul(Tensor input) -> Tensor");
  m.def("silu_and_mul_backward(Tensor grad, Tensor input) -> Tensor");
  m.def(
      "swiglu(Tensor input, Tensor? bias=None, *, float alpha=1.0, "
      "float? limit=None) -> (Tensor out, Tensor amax)");
}
//! [schemas]

namespace wb {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

//! [hand_boxed]
// libtorch hands over one StableIValue an argument. Each holds a new reference,
// which is this function's from here on; nothing is returned.
void boxed_silu_and_mul_out(StableIValue* stack, uint64_t, uint64_t) {
  const auto out = torch::stable::detail::to<Tensor>(stack[0]); // steals
  const auto input = torch::stable::detail::to<Tensor>(stack[1]);
  silu_and_mul_out(out, input);
}
//! [hand_boxed]

//! [swiglu]
std::tuple<Tensor, Tensor> swiglu(
    const Tensor& input,
    const std::optional<Tensor>& bias,
    double alpha,
    std::optional<double> limit) {
  std::vector<int64_t> sizes = output_sizes(input.sizes());
  check_bias(bias, input);
  Tensor out = torch::stable::new_empty(input, sizes);
  sizes.back() = 1;
  Tensor amax = torch::stable::new_empty(input, sizes);
  fill_swiglu(out, amax, input, bias, alpha, limit.value_or(kNoLimit));
  return {out, amax};
}
//! [swiglu]

//! [meta]
std::tuple<Tensor, Tensor> swiglu_meta(
    const Tensor& input,
    const std::optional<Tensor>& /*bias*/,
    double /*alpha*/,
    std::optional<double> /*limit*/) {
  Tensor out = silu_and_mul_meta(input);
  return {out, torch::stable::sum(out, std::vector<int64_t>{-1}, true)};
}
//! [meta]

} // namespace
} // namespace wb

//! [registration]
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("silu_and_mul.out", &wb::boxed_silu_and_mul_out);
  m.impl("silu_and_mul", CHECKED_BOX(&wb::silu_and_mul));
  m.impl("silu_and_mul_backward", CHECKED_BOX(&wb::silu_and_mul_backward));
  m.impl("swiglu", CHECKED_BOX(&wb::swiglu));
}

STABLE_TORCH_LIBRARY_IMPL(wb04, Meta, m) {
  m.impl("silu_and_mul.out", CHECKED_BOX(&wb::silu_and_mul_out_meta));
  m.impl("silu_and_mul", CHECKED_BOX(&wb::silu_and_mul_meta));
  m.impl("silu_and_mul_backward", CHECKED_BOX(&wb::silu_and_mul_backward_meta));
  m.impl("swiglu", CHECKED_BOX(&wb::swiglu_meta));
}
//! [registration]
