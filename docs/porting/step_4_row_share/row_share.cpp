// Each element's share of the sum of its row.
#include "common.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/shim_utils.h>

#include <array>

using torch::stable::Tensor;

//! [div]
// aten::div.Tensor(Tensor self, Tensor other) -> Tensor: the stack holds every
// argument of the schema, then the result.
Tensor div(const Tensor& self, const Tensor& other) {
  namespace detail = torch::stable::detail;
  std::array<StableIValue, 2> stack{detail::from(self), detail::from(other)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(
      "aten::div", "Tensor", stack.data(), TORCH_ABI_VERSION));
  return detail::to<Tensor>(stack[0]);
}
//! [div]

//! [row_share]
Tensor row_share(const Tensor& input) {
  STD_TORCH_CHECK(
      input.dim() > 0,
      "row_share: input must be [..., d], got ",
      text(input.sizes()));
  const int64_t last[] = {-1};
  return div(input, torch::stable::sum(input, last, /*keepdim=*/true));
}
//! [row_share]

STABLE_TORCH_LIBRARY_IMPL(rowops, CPU, m) {
  m.impl("row_share", TORCH_BOX(&row_share));
}
