// Tensors for results, without reading a size: under torch.compile a size is a
// symbol, and the graph would hold for its present value alone. An op that is
// called by name keeps symbols.
#pragma once

#include "call_op.h"

#include <optional>
#include <vector>

#pragma GCC visibility push(hidden)
namespace wb {

inline constexpr OpDecl<std::vector<Tensor>(Tensor, int64_t, int64_t)> chunk{
    "aten::chunk", ""};
inline constexpr OpDecl<Tensor(
    Tensor,
    std::optional<ScalarType>,
    std::optional<Layout>,
    std::optional<Device>,
    std::optional<bool>,
    std::optional<MemoryFormat>)>
    empty_like{"aten::empty_like", ""};

// The left half of the last dimension, a view: [..., 2d] -> [..., d].
inline Tensor gate_view(const Tensor& input) {
  return call<chunk>(input, 2, -1).front();
}

// An uninitialised contiguous tensor of the sizes, dtype and device of `like`.
inline Tensor empty_contiguous(const Tensor& like) {
  return call<empty_like>(
      like,
      std::nullopt, // dtype
      std::nullopt, // layout
      std::nullopt, // device
      std::nullopt, // pin_memory
      MemoryFormat::Contiguous);
}

} // namespace wb
#pragma GCC visibility pop
