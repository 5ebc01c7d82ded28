// Tensors for results: without reading a size, so that they do for Meta too.
#pragma once

#include "by_name.h"

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace wb {

using torch::stable::Tensor;

// The tensor itself, or a copy in which its elements are adjacent.
inline Tensor as_contiguous(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

//! [symbolic]
// Under torch.compile a size is a symbol. To read it makes it a number, and the
// graph would hold for this number alone. An op that is called by name keeps
// symbols.

// The left half of the last dimension, a view: [..., 2d] -> [..., d].
inline Tensor gate_view(const Tensor& input) {
  static constexpr OpDecl<std::vector<Tensor>(Tensor, int64_t, int64_t)> chunk{
      "aten::chunk", ""};
  return call<chunk>(input, 2, -1).front();
}

// An uninitialised contiguous tensor of the sizes, dtype and device of `like`.
inline Tensor empty_contiguous(const Tensor& like) {
  static constexpr OpDecl<Tensor(
      Tensor,
      std::optional<torch::headeronly::ScalarType>,
      std::optional<torch::headeronly::Layout>,
      std::optional<torch::stable::Device>,
      std::optional<bool>, // pin_memory
      std::optional<torch::headeronly::MemoryFormat>)>
      empty_like{"aten::empty_like", ""};
  return call<empty_like>(
      like, {}, {}, {}, {}, torch::headeronly::MemoryFormat::Contiguous);
}
//! [symbolic]

} // namespace wb
