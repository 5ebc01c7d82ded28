// An op that multiplies a tensor by a number.
#include "checked_box.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

STABLE_TORCH_LIBRARY(demo, m) {
  m.def("scale(Tensor input, float factor) -> Tensor");
}

Tensor scale(const Tensor& input, NUMBER factor) {
  Tensor out = torch::stable::empty_like(input);
  const float* from = input.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < input.numel(); ++i) {
    to[i] = from[i] * static_cast<float>(factor);
  }
  return out;
}

STABLE_TORCH_LIBRARY_IMPL(demo, CPU, m) {
  m.impl("scale", BOX(&scale));
}
