// The twin of solutions/00_first_extension/first_extension.cpp: the same op
// with PyTorch's ordinary C++ API. `./workbook demo 00` builds both with one
// PyTorch and runs them on another.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cmath>
#include <cstdint>

namespace wb {

using at::Tensor;

Tensor silu(const Tensor& x) {
  TORCH_CHECK(x.is_contiguous(), "silu: x must be contiguous");
  Tensor y = at::empty_like(x);
  const float* in = x.const_data_ptr<float>();
  float* out = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    out[i] = in[i] / (1 + std::exp(-in[i]));
  }
  return y;
}

} // namespace wb

TORCH_LIBRARY(wb00, m) {
  m.def("silu(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(wb00, CPU, m) {
  m.impl("silu", &wb::silu);
}
