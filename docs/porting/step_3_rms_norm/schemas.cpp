// The ops of the library. Each source file registers its own kernels.
#include <torch/csrc/stable/library.h>

//! [schemas]
STABLE_TORCH_LIBRARY(rowops, m) {
  m.def("segment_sum(Tensor values, Tensor offsets) -> Tensor");
  m.def(
      "rms_norm(Tensor input, Tensor? weight=None, float eps=1e-6) -> Tensor");
  m.def(
      "rms_norm.out(Tensor input, Tensor? weight=None, float eps=1e-6, *, "
      "Tensor(a!) out) -> Tensor(a!)");
  m.def("row_share(Tensor input) -> Tensor");
}
//! [schemas]
