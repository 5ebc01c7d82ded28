// A kernel for the Hub: one op, and the module that Python imports. ID names
// both; SLOPE is 0.01 in version 1 and 0.1 in version 2.
#define TORCH_EXTENSION_NAME ID
#include "checked_box.h"
#include "registration.h"

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

//! [op]
Tensor leaky_relu(const Tensor& input) {
  Tensor out = torch::stable::empty_like(input);
  const float* from = input.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < input.numel(); ++i) {
    to[i] = from[i] < 0 ? from[i] * SLOPE : from[i];
  }
  return out;
}

STABLE_TORCH_LIBRARY_EXPAND(ID, m) {
  m.def("leaky_relu(Tensor input) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL_EXPAND(ID, CPU, m) {
  m.impl("leaky_relu", CHECKED_BOX(&leaky_relu));
}
REGISTER_EXTENSION(ID)
//! [op]
