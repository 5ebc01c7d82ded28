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
inline constexpr OpDecl<Tensor(Tensor, MaybeDims, bool, MaybeDtype)> sum_dim{
    "aten::sum", "dim_IntList"};
//! [sum]

// The sum over the dimensions `dims`, which are kept, with size 1.
inline Tensor sum(const Tensor& input, const Dims& dims) {
  return call<sum_dim>(input, dims, true, std::nullopt);
}

//! [max]
// aten::max.dim(Tensor self, int dim, bool keepdim=False)
//     -> (Tensor values, Tensor indices)
inline constexpr OpDecl<std::tuple<Tensor, Tensor>(Tensor, int64_t, bool)>
    max_dim{"aten::max", "dim"};

// aten::maximum.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
inline constexpr OpDecl<Tensor(Tensor, Tensor, Tensor)> maximum_out{
    "aten::maximum", "out"};
//! [max]

// The largest elements along `dim`, which is not kept, and where they are.
inline std::tuple<Tensor, Tensor> max(const Tensor& input, int64_t dim) {
  return call<max_dim>(input, dim, false);
}

// out = the larger one of self and other.
inline void maximum_into(
    const Tensor& out, const Tensor& self, const Tensor& other) {
  call<maximum_out>(self, other, out); // `out` again: the handle is dropped
}

//! [scalar]
// Not aten::clamp: that has Scalars.
// aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
inline constexpr OpDecl<Tensor(Tensor, MaybeTensor, MaybeTensor)> clamp_tensor{
    "aten::clamp", "Tensor"};

// self, but at most `most`.
inline Tensor clamp_max(const Tensor& self, const Tensor& most) {
  return call<clamp_tensor>(self, std::nullopt, most);
}

// self + alpha * other, of floats. Not aten::add.Tensor: its alpha is a Scalar.
// (This is a subtraction, which takes no bools, and no integers with a double.)
inline Tensor add(const Tensor& self, const Tensor& other, double alpha) {
  AtenTensorHandle result = nullptr; // a shim borrows what goes in
  TORCH_ERROR_CODE_CHECK(aoti_torch_aten_subtract_Tensor(
      self.get(), other.get(), -alpha, &result));
  return Tensor(result); // and what comes out is ours
}
//! [scalar]

} // namespace wb
