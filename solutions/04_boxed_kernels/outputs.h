// New tensors for the results: by sizes on CPU, without reading one on Meta.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/shim_utils.h>

#include <cstdint>
#include <optional>
#include <vector>

using torch::stable::Tensor;

// [..., 2d] -> an uninitialised [..., d].
inline Tensor new_half(const Tensor& input) {
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() /= 2;
  return torch::stable::new_empty(input, sizes);
}

// [..., d] -> an uninitialised [..., 1].
inline Tensor new_amax(const Tensor& out) {
  std::vector<int64_t> sizes = out.sizes().vec();
  STD_TORCH_CHECK(
      sizes.back() != 0, "silu_and_mul_amax: input must not end in size 0");
  sizes.back() = 1;
  return torch::stable::new_empty(out, sizes);
}

//! [symbolic]
// Under torch.compile a size is a symbol, and to read it makes it a number: the
// graph would then hold for this size alone. The next two read none.

// The left half of the last dimension, a view: [..., 2d] -> [..., d].
inline Tensor left_half(const Tensor& input) {
  StableIValue stack[] = {
      torch::stable::detail::from(input),
      torch::stable::detail::from(int64_t{2}),
      torch::stable::detail::from(int64_t{-1})};
  TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::chunk", "", stack, TORCH_ABI_VERSION));
  return torch::stable::detail::to<std::vector<Tensor>>(stack[0]).front();
}

// An uninitialised contiguous tensor of the sizes, dtype and device of `like`.
inline Tensor new_contiguous(const Tensor& like) {
  using torch::headeronly::MemoryFormat;
  StableIValue stack[] = {
      torch::stable::detail::from(like),
      torch::stable::detail::from(
          std::nullopt), // dtype, layout, device and pin_memory
      torch::stable::detail::from(std::nullopt),
      torch::stable::detail::from(std::nullopt),
      torch::stable::detail::from(std::nullopt),
      torch::stable::detail::from(
          std::optional<MemoryFormat>(MemoryFormat::Contiguous))};
  TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::empty_like", "", stack, TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}
//! [symbolic]
