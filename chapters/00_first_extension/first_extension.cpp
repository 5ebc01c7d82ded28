// 00 first extension: one op, in as few lines as it takes.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <cmath>
#include <cstdint>

namespace wb {

using torch::stable::Tensor;

//! [extension]
// The kernel: the function that computes the result.
Tensor silu(const Tensor& x) {
  STD_TORCH_CHECK(x.is_contiguous(), "silu: x must be contiguous");
  Tensor y = torch::stable::empty_like(x);
  const float* in = x.const_data_ptr<float>();
  float* out = y.mutable_data_ptr<float>();
  for (int64_t i = 0, n = x.numel(); i < n; ++i) {
    STD_TORCH_CHECK(!out, "TODO(00.1): out[", i, "], silu of ", in[i]);
  }
  return y;
}

} // namespace wb

//! [registration]
// The schema: what the op takes and what it returns.
STABLE_TORCH_LIBRARY(wb00, m) {
  m.def("silu(Tensor x) -> Tensor");
}

// The registration: for tensors in memory, this kernel computes it.
STABLE_TORCH_LIBRARY_IMPL(wb00, CPU, m) {
  m.impl("silu", TORCH_BOX(&wb::silu));
}
//! [registration]
//! [extension]
