// Steps 05.3 to 05.5: declared calls, and what cannot be called by name.
#pragma once

#include "call_op.h"

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h>

#include <optional>
#include <tuple>
#include <vector>

namespace wb {

using Dims = std::vector<int64_t>;
using MaybeDims = std::optional<Dims>;
using MaybeDtype = std::optional<ScalarType>;
using MaybeTensor = std::optional<Tensor>;

//! [sum]
// aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *,
//                       ScalarType? dtype=None) -> Tensor
// TODO(05.3): declare it, as an inline constexpr OpDecl named sum_dim.
//! [sum]

// The sum over the dimensions `dims`, which are kept, with size 1.
inline Tensor sum(const Tensor& input, const Dims& dims) {
  // TODO(05.3): call it, with all of its arguments.
  STD_TORCH_CHECK(
      false, "TODO(05.3): ", dims.size(), " of ", input.dim(), " dims");
}

//! [max]
// aten::max.dim(Tensor self, int dim, bool keepdim=False)
//     -> (Tensor values, Tensor indices)
// TODO(05.4): declare it as max_dim.

// aten::maximum.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
// TODO(05.4): declare it as maximum_out. What does it return?
//! [max]

// The largest elements along `dim`, which is not kept, and where they are.
inline std::tuple<Tensor, Tensor> max(const Tensor& input, int64_t dim) {
  // TODO(05.4): call max_dim.
  STD_TORCH_CHECK(false, "TODO(05.4): dim ", dim, " of ", input.dim());
}

// out = the larger one of self and other.
inline void maximum_into(
    const Tensor& out, const Tensor& self, const Tensor& other) {
  // TODO(05.4): call maximum_out; its arguments are in the schema's order.
  static_cast<void>(out), static_cast<void>(self), static_cast<void>(other);
  STD_TORCH_CHECK(false, "TODO(05.4): maximum_out is not called");
}

//! [scalar]
// Not aten::clamp: that has Scalars.
// aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
// TODO(05.5): declare it as clamp_tensor.

// self, but at most `most`.
inline Tensor clamp_max(const Tensor& self, const Tensor& most) {
  // TODO(05.5): call it, without a lower limit.
  static_cast<void>(self), static_cast<void>(most);
  STD_TORCH_CHECK(false, "TODO(05.5): clamp_tensor is not called");
}

// self + alpha * other, of floats. Not aten::add.Tensor: its alpha is a Scalar.
// (This is a subtraction, which takes no bools, and no integers with a double.)
inline Tensor add(const Tensor& self, const Tensor& other, double alpha) {
  // TODO(05.5): a C shim computes self - alpha * other.
  static_cast<void>(self), static_cast<void>(other);
  STD_TORCH_CHECK(false, "TODO(05.5): nothing is added, times ", alpha);
}
//! [scalar]

} // namespace wb
