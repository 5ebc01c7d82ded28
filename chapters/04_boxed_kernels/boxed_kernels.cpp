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
  // TODO(04.1): define silu_and_mul.out, which writes to its argument out.
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
  // TODO(04.2): take both arguments from the stack, and call the kernel.
  STD_TORCH_CHECK(false, "TODO(04.2): slots ", stack[0], " and ", stack[1]);
}
//! [hand_boxed]

//! [swiglu]
// TODO(04.3): four parameters and two results, each of its schema's C++ type.
void swiglu(StableIValue*, uint64_t, uint64_t) {
  STD_TORCH_CHECK(false, "TODO(04.3): Tensor, Tensor?, float and float?");
}
//! [swiglu]

//! [meta]
std::tuple<Tensor, Tensor> swiglu_meta(
    const Tensor& input,
    const std::optional<Tensor>& /*bias*/,
    double /*alpha*/,
    std::optional<double> /*limit*/) {
  // TODO(04.4): the same, and amax, which is [..., 1].
  STD_TORCH_CHECK(false, "TODO(04.4): input has ", input.dim(), " dimensions");
}
//! [meta]

} // namespace
} // namespace wb

//! [registration]
STABLE_TORCH_LIBRARY_IMPL(wb04, CPU, m) {
  m.impl("silu_and_mul.out", &wb::boxed_silu_and_mul_out);
  m.impl("silu_and_mul", CHECKED_BOX(&wb::silu_and_mul));
  m.impl("silu_and_mul_backward", CHECKED_BOX(&wb::silu_and_mul_backward));
  m.impl("swiglu", &wb::swiglu); // TODO(04.3): box it
}

STABLE_TORCH_LIBRARY_IMPL(wb04, Meta, m) {
  m.impl("silu_and_mul.out", CHECKED_BOX(&wb::silu_and_mul_out_meta));
  m.impl("silu_and_mul", CHECKED_BOX(&wb::silu_and_mul_meta));
  m.impl("silu_and_mul_backward", CHECKED_BOX(&wb::silu_and_mul_backward_meta));
  m.impl("swiglu", CHECKED_BOX(&wb::swiglu_meta));
}
//! [registration]
