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
  // TODO(04.1): define silu_and_mul.out, which writes to its argument out.
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
  // TODO(04.2): take both arguments from the stack, and call the kernel.
  STD_TORCH_CHECK(false, "TODO(04.2): slots ", stack[0], " and ", stack[1]);
}
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("silu_and_mul.out", &boxed_silu_and_mul_out);
}
//! [hand_boxed]

//! [functional]
// TODO(04.3): a kernel that takes a Tensor and returns one, and knows no stack.
void silu_and_mul(StableIValue*, uint64_t, uint64_t) {
  STD_TORCH_CHECK(false, "TODO(04.3): make out, fill it and return it");
}
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("silu_and_mul", &silu_and_mul); // TODO(04.3): box it by TORCH_BOX
}
//! [functional]

//! [swiglu]
// TODO(04.4): four parameters, each of the C++ type of its schema type.
void swiglu(StableIValue*, uint64_t, uint64_t) {
  STD_TORCH_CHECK(false, "TODO(04.4): Tensor, Tensor?, float and float?");
}
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("swiglu", &swiglu); // TODO(04.4): box it by TORCH_BOX
}
//! [swiglu]

//! [amax]
// TODO(04.5): return out and, made by new_amax and fill_amax, its amax.
void silu_and_mul_amax(StableIValue*, uint64_t, uint64_t) {
  STD_TORCH_CHECK(false, "TODO(04.5): (Tensor out, Tensor amax)");
}
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("silu_and_mul_amax", &silu_and_mul_amax); // TODO(04.5): box it
}
//! [amax]

// --- Meta: sizes, strides, dtype and device of the results, and no element ---

void silu_and_mul_out_meta(const Tensor& /*out*/, const Tensor& /*input*/) {}

//! [meta]
Tensor silu_and_mul_meta(const Tensor& input) {
  // TODO(04.6): what silu_and_mul returns, without reading a size of input.
  STD_TORCH_CHECK(false, "TODO(04.6): input has ", input.dim(), " dimensions");
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
