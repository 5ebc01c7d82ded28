// Tensors for results: without reading a size, so that they do for Meta too.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/util/shim_utils.h>

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
// symbols; chapter 05 calls ops so without a stack of one's own.

// The left half of the last dimension, a view: [..., 2d] -> [..., d].
inline Tensor gate_view(const Tensor& input) {
  namespace detail = torch::stable::detail;
  StableIValue stack[] = {
      detail::from(input), detail::from(int64_t{2}), detail::from(int64_t{-1})};
  TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::chunk", "", stack, TORCH_ABI_VERSION));
  return detail::to<std::vector<Tensor>>(stack[0]).front();
}

// An uninitialised contiguous tensor of the sizes, dtype and device of `like`.
inline Tensor empty_contiguous(const Tensor& like) {
  using torch::headeronly::MemoryFormat;
  namespace detail = torch::stable::detail;
  const std::optional<MemoryFormat> format = MemoryFormat::Contiguous;
  StableIValue stack[] = {
      detail::from(like),
      detail::from(std::nullopt), // dtype
      detail::from(std::nullopt), // layout
      detail::from(std::nullopt), // device
      detail::from(std::nullopt), // pin_memory
      detail::from(format)};
  TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::empty_like", "", stack, TORCH_ABI_VERSION));
  return detail::to<Tensor>(stack[0]);
}
//! [symbolic]

} // namespace wb
