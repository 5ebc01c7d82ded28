// The ops of this package: schemas, kernels for CPU and Meta, and their
// registration. Those for CUDA are in cuda_ops.cpp.
#include "checked_box.h"
#include "silu_and_mul.h"

#include <torch/csrc/stable/library.h>

//! [schemas]
STABLE_TORCH_LIBRARY(wb07, m) {
  m.def("silu_and_mul.out(Tensor! out, Tensor input) -> ()");
  m.def("silu_and_mul(Tensor input) -> Tensor");
  m.def("silu_and_mul_backward(Tensor grad, Tensor input) -> Tensor");
}
//! [schemas]

//! [registration]
STABLE_TORCH_LIBRARY_IMPL(wb07, CPU, m) {
  m.impl("silu_and_mul.out", CHECKED_BOX(&wb::silu_and_mul_out));
  m.impl("silu_and_mul", CHECKED_BOX(&wb::silu_and_mul));
  m.impl("silu_and_mul_backward", CHECKED_BOX(&wb::silu_and_mul_backward));
}

STABLE_TORCH_LIBRARY_IMPL(wb07, Meta, m) {
  m.impl("silu_and_mul.out", CHECKED_BOX(&wb::silu_and_mul_out_meta));
  m.impl("silu_and_mul", CHECKED_BOX(&wb::silu_and_mul_meta));
  m.impl("silu_and_mul_backward", CHECKED_BOX(&wb::silu_and_mul_backward_meta));
}
//! [registration]
