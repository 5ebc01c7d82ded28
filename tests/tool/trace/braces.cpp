// A dimension in braces: the parameter is an optional of an ArrayRef, which
// refers to an int that is gone when the optional has been made.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

Tensor sum_of_first(const Tensor& x) {
  return torch::stable::sum(x, {0});
}

STABLE_TORCH_LIBRARY(braces, m) {
  m.def("sum_of_first(Tensor x) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(braces, CPU, m) {
  m.impl("sum_of_first", TORCH_BOX(&sum_of_first));
}
