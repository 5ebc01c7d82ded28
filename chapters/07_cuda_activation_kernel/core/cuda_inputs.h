// What a kernel on the GPU has to know of its tensors.
#pragma once

#include "rows.h"
#include "sizes.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdint>
#include <optional>
#include <string>

namespace wb {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline std::string to_string(const torch::stable::Device& device) {
  return device.is_cuda() ? "cuda:" + std::to_string(device.index())
      : device.is_cpu()   ? "cpu"
                          : "neither cpu nor cuda";
}

// The dispatcher calls a kernel for CUDA if one of the tensors is there.
inline void check_device(
    const char* name, const Tensor& argument, const Tensor& input) {
  STD_TORCH_CHECK(
      argument.device() == input.device(),
      name,
      " must be on input's device ",
      to_string(input.device()),
      ", got ",
      to_string(argument.device()));
}

inline Dtype cuda_dtype(const Tensor& input) {
  switch (input.scalar_type()) {
    case ScalarType::Float:
      return Dtype::kFloat;
    case ScalarType::Half:
      return Dtype::kHalf;
    case ScalarType::BFloat16:
      return Dtype::kBFloat16;
    default:
      STD_TORCH_CHECK(
          false,
          "input must be Float, Half or BFloat16 on CUDA, got ",
          input.scalar_type());
  }
}

//! [row_stride]
// Returns how many elements lie from one row of [..., n] to the next, if that
// is the same for all rows, as in a slice of a wider tensor; else nullopt. A
// dimension of size 1 may have any stride.
inline std::optional<int64_t> row_stride(const Tensor& tensor) {
  // TODO(07.4): so far it knows contiguous tensors only
  STD_TORCH_CHECK(tensor.is_contiguous(), "TODO(07.4): rows that lie apart");
  return tensor.size(-1);
}
//! [row_stride]

} // namespace wb
