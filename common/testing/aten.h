// ATen as an oracle, through the dispatcher: a test needs no ATen headers, and
// one build of it runs on every libtorch from 2.10.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace workbook {

// Calls an op that takes tensors and returns one: aten("aten::silu", "", x).
// Throws std::runtime_error if libtorch refuses; its text is on stderr up to
// libtorch 2.12.
template <class... Tensors>
torch::stable::Tensor aten(
    const char* op, const char* overload, const Tensors&... inputs) {
  StableIValue stack[] = {torch::stable::detail::from(inputs)...};
  if (torch_call_dispatcher(op, overload, stack, TORCH_ABI_VERSION) !=
      TORCH_SUCCESS) {
    throw std::runtime_error(std::string(op) + " failed");
  }
  return torch::stable::detail::to<torch::stable::Tensor>(stack[0]);
}

// A contiguous CPU tensor that holds a copy of `data`.
template <class T>
torch::stable::Tensor tensor(
    const std::vector<T>& data, const std::vector<int64_t>& sizes) {
  torch::stable::Tensor result =
      torch::stable::empty(sizes, c10::CppTypeToScalarType<T>::value);
  if (static_cast<size_t>(result.numel()) != data.size()) {
    throw std::invalid_argument("tensor: data does not fill the sizes");
  }
  if (!data.empty()) { // else both pointers are null
    std::memcpy(
        result.mutable_data_ptr<T>(), data.data(), data.size() * sizeof(T));
  }
  return result;
}

// The elements of a contiguous CPU tensor, copied out.
template <class T>
std::vector<T> values(const torch::stable::Tensor& source) {
  const T* data = source.const_data_ptr<T>();
  return std::vector<T>(data, data + source.numel());
}

} // namespace workbook
