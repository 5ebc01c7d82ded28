// What the ported kernels share: the text of a shape, and a view of a tensor's
// elements.
#pragma once

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/TensorAccessor.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>

#include <sstream>
#include <string>

//! [text]
inline std::string text(torch::headeronly::IntHeaderOnlyArrayRef sizes) {
  std::ostringstream out;
  out << '[';
  for (size_t i = 0; i < sizes.size(); ++i) {
    out << (i == 0 ? "" : ", ") << sizes[i];
  }
  out << ']';
  return out.str();
}
//! [text]

//! [accessor]
// Borrows sizes and strides from `tensor`, which must outlive it.
template <class T, size_t N>
torch::headeronly::HeaderOnlyTensorAccessor<T, N> accessor(
    const torch::stable::Tensor& tensor) {
  STD_TORCH_CHECK(
      tensor.dim() == N, "accessor: wants ", N, "-d, got ", tensor.dim(), "-d");
  return {
      tensor.mutable_data_ptr<T>(), // checks the dtype
      tensor.sizes().data(),
      tensor.strides().data()};
}
//! [accessor]
