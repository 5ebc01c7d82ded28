// Inputs of the kernels of chapter 07: random numbers, strides of more than 32
// bits, and tensors on memory of the test's own.
#pragma once

#include "testing/random.h"

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace workbook::chapter_07 {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// A number of elements that 32 bits cannot count.
inline constexpr int64_t kMany = (int64_t{1} << 32) + 100300;

template <class T>
inline constexpr ScalarType kDtype = c10::CppTypeToScalarType<T>::value;

// Strides that have more than 32 bits themselves, or of which a small multiple
// has.
inline constexpr int64_t kFar[] = {
    (int64_t{1} << 30) + 8, (int64_t{1} << 31) + 8, (int64_t{1} << 32) + 16};

// Returns numbers of a normal distribution with a standard deviation of 2.
inline std::vector<float> normal(int64_t n) {
  static std::mt19937_64 engine(seed());
  std::normal_distribution<float> numbers(0, 2);
  std::vector<float> result(static_cast<size_t>(n));
  for (float& number : result) {
    number = numbers(engine);
  }
  return result;
}

inline int64_t random(int64_t low, int64_t high) {
  static std::mt19937_64 engine(seed());
  return std::uniform_int_distribution<int64_t>(low, high)(engine);
}

// Returns a tensor whose memory is never touched.
inline Tensor untouched(
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& strides,
    ScalarType dtype,
    uint64_t address) {
  return torch::stable::from_blob(
      reinterpret_cast<void*>(address),
      sizes,
      strides,
      torch::stable::Device(torch::headeronly::DeviceType::CPU),
      dtype);
}

// Returns a tensor of these strides, in memory that is the caller's.
template <class T>
Tensor strided(
    std::vector<T>& memory,
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& strides,
    int64_t offset = 0) {
  return torch::stable::from_blob(
      memory.data() + offset,
      sizes,
      strides,
      torch::stable::Device(torch::headeronly::DeviceType::CPU),
      kDtype<T>);
}

template <class T>
std::vector<T> normal_of(int64_t n) {
  std::vector<T> numbers;
  for (const float x : normal(n)) {
    numbers.emplace_back(x);
  }
  return numbers;
}

inline Tensor on_meta(const std::vector<int64_t>& sizes) {
  return torch::stable::empty(
      sizes,
      ScalarType::Float,
      std::nullopt,
      torch::stable::Device(torch::headeronly::DeviceType::Meta),
      std::nullopt,
      std::nullopt);
}

// Returns where the first rows of [..., n] begin, in words.
inline std::string list_rows(
    const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<int64_t> begins{0};
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    std::vector<int64_t> deeper;
    for (const int64_t begin : begins) {
      for (int64_t n = 0; n < std::min<int64_t>(sizes[i], 6); ++n) {
        deeper.push_back(begin + n * strides[i]);
      }
    }
    begins = deeper;
  }
  if (begins.size() == 1) {
    return "it has one row";
  }
  std::string text = "its rows begin at 0";
  for (size_t i = 1; i < begins.size() && i < 6; ++i) {
    text += ", " + std::to_string(begins[i]);
  }
  return text + (begins.size() > 6 ? ", ..." : "");
}

} // namespace workbook::chapter_07
