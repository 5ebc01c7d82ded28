// Each element's share of the sum of its row.
#include <ATen/core/Tensor.h>
#include <ATen/ops/div.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

using at::Tensor;

//! [row_share]
Tensor row_share(const Tensor& input) {
  TORCH_CHECK(
      input.dim() > 0,
      "row_share: input must be [..., d], got ",
      input.sizes());
  return at::div(input, at::sum(input, {-1}, /*keepdim=*/true));
}
//! [row_share]

TORCH_LIBRARY_IMPL(rowops, CPU, m) {
  m.impl("row_share", &row_share);
}
