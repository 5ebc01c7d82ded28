// What the ops refuse. The text reaches Python as a RuntimeError: it names the
// argument, what it must be, and what came.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>
#include <torch/headeronly/util/shim_utils.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline std::string to_string(IntHeaderOnlyArrayRef sizes) {
  std::ostringstream text;
  for (size_t i = 0; i < sizes.size(); ++i) {
    text << (i == 0 ? "[" : ", ") << sizes[i];
  }
  text << (sizes.empty() ? "[]" : "]");
  return text.str();
}

// What the checks need of a tensor, asked once, for each question is a call
// into libtorch. `dtype` is libtorch's own number, enough to compare two: to
// name it costs as much as all the rest. `sizes` is borrowed from the tensor.
struct Facts {
  explicit Facts(const Tensor& tensor) : sizes(tensor.sizes()) {
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  }
  ScalarType dtype_name() const {
    namespace detail = torch::stable::detail;
    return detail::to<ScalarType>(detail::from(dtype));
  }

  int32_t dtype = 0;
  IntHeaderOnlyArrayRef sizes;
};

// True if `half` is [..., d] and `whole` is [..., 2d].
inline bool is_half(IntHeaderOnlyArrayRef half, IntHeaderOnlyArrayRef whole) {
  const size_t last = whole.size() - 1;
  if (half.size() != whole.size() || half[last] * 2 != whole[last]) {
    return false;
  }
  for (size_t i = 0; i < last; ++i) {
    if (half[i] != whole[i]) {
      return false;
    }
  }
  return true;
}

//! [check_input]
inline void check_input(const Facts& input) {
  // TODO(04.7): say what input must be, and what it is.
  const bool even = !input.sizes.empty() && input.sizes.back() % 2 == 0;
  STD_TORCH_CHECK(even, "TODO(04.7): input is refused, without a reason");
}
//! [check_input]

//! [check_half]
// `half`, called `name`, must fit a checked `input`: [..., d] to its [..., 2d].
inline void check_half(
    const char* name, const Facts& half, const Facts& input) {
  // TODO(04.7): two checks instead of one, each with a text of its own.
  const bool fits =
      half.dtype == input.dtype && is_half(half.sizes, input.sizes);
  STD_TORCH_CHECK(fits, "TODO(04.7): ", name, " is refused, without a reason");
}
//! [check_half]

inline void check_out(const Tensor& out, const Tensor& input) {
  const Facts input_facts(input);
  check_input(input_facts);
  check_half("out", Facts(out), input_facts);
  STD_TORCH_CHECK(
      out.is_contiguous(),
      "silu_and_mul: out must be contiguous, got strides ",
      to_string(out.strides()));
}

// `bias`, if there is one, is added to every row of a checked `input`.
inline void check_bias(const std::optional<Tensor>& bias, const Tensor& input) {
  if (!bias) {
    return;
  }
  const Facts row(*bias);
  const Facts rows(input);
  STD_TORCH_CHECK(
      row.dtype == rows.dtype,
      "swiglu: bias must have input's dtype ",
      rows.dtype_name(),
      ", got ",
      row.dtype_name());
  STD_TORCH_CHECK(
      row.sizes.equals({rows.sizes.back()}),
      "swiglu: bias must be [",
      rows.sizes.back(),
      "], got ",
      to_string(row.sizes));
}
