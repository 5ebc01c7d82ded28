// silu_and_mul and its relatives: schemas, kernels for CPU and Meta, and the
// boxes through which libtorch calls them.
#include "checks.h"
#include "outputs.h"
#include "silu_and_mul.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

using torch::stable::Tensor;

//! [schemas]
STABLE_TORCH_LIBRARY(wb04, m) {
  m.def("silu_and_mul.out(Tensor! out, Tensor input) -> ()");
  m.def("silu_and_mul(Tensor input) -> Tensor");
  m.def(
      "swiglu(Tensor input, Tensor? bias=None, *, float alpha=1.0, "
      "float? limit=None) -> Tensor");
  m.def("silu_and_mul_amax(Tensor input) -> (Tensor out, Tensor amax)");
}
//! [schemas]

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// --- CPU ---------------------------------------------------------------------

// Writes to `out`, which must not overlap `input`.
void silu_and_mul_out(const Tensor& out, const Tensor& input) {
  check_out(out, input);
  fill(out, input, std::nullopt, {1, kNoLimit});
}

//! [hand_boxed]
// libtorch hands over one StableIValue an argument. Each holds a new reference,
// which is this function's from here on; nothing is returned.
void boxed_silu_and_mul_out(StableIValue* stack, uint64_t, uint64_t) {
  const auto out = torch::stable::detail::to<Tensor>(stack[0]); // steals
  const auto input = torch::stable::detail::to<Tensor>(stack[1]);
  silu_and_mul_out(out, input);
}
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("silu_and_mul.out", &boxed_silu_and_mul_out);
}
//! [hand_boxed]

//! [functional]
Tensor silu_and_mul(const Tensor& input) {
  check_input(Facts(input));
  Tensor out = new_half(input);
  fill(out, input, std::nullopt, {1, kNoLimit});
  return out;
}
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("silu_and_mul", TORCH_BOX(&silu_and_mul));
}
//! [functional]

//! [swiglu]
// float is double, T? is std::optional<T>, int would be int64_t.
Tensor swiglu(
    const Tensor& input,
    const std::optional<Tensor>& bias,
    double alpha,
    std::optional<double> limit) {
  check_input(Facts(input));
  check_bias(bias, input);
  Tensor out = new_half(input);
  fill(out, input, bias, {alpha, limit.value_or(kNoLimit)});
  return out;
}
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("swiglu", TORCH_BOX(&swiglu));
}
//! [swiglu]

//! [amax]
std::tuple<Tensor, Tensor> silu_and_mul_amax(const Tensor& input) {
  Tensor out = silu_and_mul(input);
  Tensor amax = new_amax(out);
  fill_amax(amax, out);
  return {out, amax};
}
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("silu_and_mul_amax", TORCH_BOX(&silu_and_mul_amax));
}
//! [amax]

// --- Meta: sizes, strides, dtype and device of the results, and no element ---

void silu_and_mul_out_meta(const Tensor& /*out*/, const Tensor& /*input*/) {}

//! [meta]
Tensor silu_and_mul_meta(const Tensor& input) {
  return new_contiguous(left_half(input));
}
//! [meta]

Tensor swiglu_meta(
    const Tensor& input,
    const std::optional<Tensor>& /*bias*/,
    double /*alpha*/,
    std::optional<double> /*limit*/) {
  return silu_and_mul_meta(input);
}

std::tuple<Tensor, Tensor> silu_and_mul_amax_meta(const Tensor& input) {
  Tensor out = silu_and_mul_meta(input);
  return {out, new_contiguous(torch::stable::narrow(out, -1, 0, 1))};
}

STABLE_TORCH_LIBRARY_IMPL(wb04, Meta, m) {
  m.impl("silu_and_mul.out", TORCH_BOX(&silu_and_mul_out_meta));
  m.impl("silu_and_mul", TORCH_BOX(&silu_and_mul_meta));
  m.impl("swiglu", TORCH_BOX(&swiglu_meta));
  m.impl("silu_and_mul_amax", TORCH_BOX(&silu_and_mul_amax_meta));
}
