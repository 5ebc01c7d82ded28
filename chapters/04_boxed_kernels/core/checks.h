// What an op refuses. The text reaches Python as a RuntimeError: it names the
// argument, what it must be, and what came.
#pragma once

#include "sizes.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/shim_utils.h>

#include <algorithm>
#include <cstdint>

namespace wb {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// What the checks need of a tensor, asked once, for each question is a call
// into libtorch. `dtype` is libtorch's own number, enough to compare two: to
// name it costs as much as all the rest. `sizes` is borrowed from the tensor.
struct TensorInfo {
  explicit TensorInfo(const Tensor& tensor) : sizes(tensor.sizes()) {
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  }
  ScalarType dtype_name() const {
    namespace detail = torch::stable::detail;
    return detail::to<ScalarType>(detail::from(dtype));
  }

  int32_t dtype = 0;
  IntHeaderOnlyArrayRef sizes;
};

// True if `sizes` are those of `like`, but for the last, which is `last`.
inline bool ends_in(
    IntHeaderOnlyArrayRef sizes, IntHeaderOnlyArrayRef like, int64_t last) {
  return sizes.size() == like.size() &&
      (sizes.empty() ||
       (sizes.back() == last &&
        std::equal(sizes.begin(), sizes.end() - 1, like.begin())));
}

//! [check_rows]
// The argument `name` must have input's dtype, and input's sizes with `last` as
// the last: input's own, half of it, 1.
inline void check_rows(
    const char* name,
    const TensorInfo& argument,
    const TensorInfo& input,
    int64_t last) {
  // TODO(04.6): two checks instead of one, each with a sentence of its own.
  const bool right = argument.dtype == input.dtype &&
      ends_in(argument.sizes, input.sizes, last);
  STD_TORCH_CHECK(right, "TODO(04.6): ", name, " is refused, without a reason");
}
//! [check_rows]

inline void check_contiguous(const char* name, const Tensor& argument) {
  STD_TORCH_CHECK(
      argument.is_contiguous(),
      name,
      " must be contiguous, got strides ",
      to_string(argument.strides()));
}

} // namespace wb
