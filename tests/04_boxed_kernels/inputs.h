// Inputs of the ops of chapter 04: random numbers of any dtype, memory that
// lies in other ways or is very large, and tensors on Meta.
#pragma once

#include "ops.h"
#include "reference.h"
#include "testing/aten.h"
#include "testing/random.h"
#include "testing/sparse.h"
#include "testing/unchanged.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/macros/Export.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace workbook::chapter_04 {

using c10::BFloat16;
using c10::Half;
using c10::ScalarType;
using torch::headeronly::DeviceType;
using torch::stable::detail::StableLibrary;

template <class T>
Tensor random_tensor(const Sizes& sizes, Random& random) {
  size_t n = 1;
  for (const int64_t size : sizes) {
    n *= static_cast<size_t>(size);
  }
  constexpr size_t kPeriod = 4099; // prime, so that no row is like another
  std::vector<T> data;
  data.reserve(n);
  while (data.size() < std::min(n, kPeriod)) {
    data.push_back(random.normal<T>(4));
  }
  while (data.size() < n) {
    data.push_back(data[data.size() - kPeriod]);
  }
  return tensor<T>(data, sizes);
}

// Returns a view of the same sizes, whose elements are `step` apart.
inline Tensor strided(const Tensor& whole, int64_t step) {
  Tensor wide = torch::stable::unsqueeze(whole, -1);
  Sizes sizes = wide.sizes().vec();
  sizes.back() = step;
  Tensor filled = torch::stable::new_zeros(whole, sizes);
  Tensor view = torch::stable::select(filled, -1, step - 1);
  torch::stable::copy_(view, whole);
  return view;
}

// Calls `check` with a zero of each dtype.
template <class Check>
void for_each_dtype(const Check& check) {
  check(float{});
  check(double{});
  check(Half{});
  check(BFloat16{});
}

// Returns tensors of the same elements in other places: apart from each other,
// columns first, and in a part of wider rows. In a fourth tensor all rows are
// one.
inline std::vector<Tensor> lying_otherwise(const Tensor& rows) {
  const int64_t columns = rows.size(-1);
  Tensor whole = rows;
  Tensor turned =
      torch::stable::contiguous(torch::stable::transpose(whole, 0, 1));
  Tensor wide = torch::stable::new_zeros(rows, {rows.size(0), columns + 5});
  Tensor part = torch::stable::narrow(wide, 1, 3, columns);
  torch::stable::copy_(part, rows);
  const Tensor first = torch::stable::narrow(whole, 0, 0, 1);
  const Sizes sizes = rows.sizes().vec();
  return {
      strided(rows, 3),
      torch::stable::transpose(turned, 0, 1),
      part,
      std::get<0>(call<Tensor>("aten::expand", "", first, sizes, false))};
}

inline std::vector<Tensor> with(
    const Tensor& first, std::vector<Tensor> others) {
  others.insert(others.begin(), first);
  return others;
}

// Halves each element of a tensor's memory, without an op.
template <class T>
void halve(const Tensor& source) {
  const Memory memory(source);
  T* const first = reinterpret_cast<T*>(memory.begin);
  T* const end = reinterpret_cast<T*>(memory.begin + memory.bytes);
  std::transform(first, end, first, [](T value) { return value / 2; });
}

// An input [rows, 2d] and an output [rows, d] with more elements than 32 bits
// count. Only the pages that are written take room in memory.
struct C10_HIDDEN Huge {
  Huge(int64_t rows, int64_t d)
      : d(d),
        memory_in(static_cast<size_t>(rows * 2 * d)),
        memory_out(static_cast<size_t>(rows * d)),
        input(of(memory_in, {rows, 2 * d})),
        out(of(memory_out, {rows, d})) {}

  static Tensor of(const Sparse<BFloat16>& memory, const Sizes& sizes) {
    return torch::stable::from_blob(
        memory.data(),
        sizes,
        {sizes[1], 1},
        torch::stable::Device(DeviceType::CPU),
        ScalarType::BFloat16);
  }
  // Sets the operands of one result.
  void set(int64_t row, int64_t column, float gate, float up) const {
    memory_in.data()[row * 2 * d + column] = gate;
    memory_in.data()[row * 2 * d + d + column] = up;
  }

  int64_t d;
  Sparse<BFloat16> memory_in, memory_out;
  Tensor input, out;
};

// While it lives, the tensors that aten::new_empty makes on the CPU lie in this
// memory.
class C10_HIDDEN NewEmpty {
 public:
  explicit NewEmpty(const Sparse<BFloat16>& memory)
      : library_(StableLibrary::Kind::IMPL, "aten", "CPU", "", 0) {
    memory_ = &memory;
    library_.impl("new_empty", TORCH_BOX(&make));
  }

 private:
  static Tensor make(
      const Tensor& /*self*/,
      const Sizes& sizes,
      std::optional<ScalarType>,
      std::optional<torch::headeronly::Layout>,
      std::optional<torch::stable::Device>,
      std::optional<bool>) {
    return Huge::of(*memory_, sizes);
  }

  static inline const Sparse<BFloat16>* memory_ = nullptr;
  StableLibrary library_;
};

// Returns [..., d] for [..., 2d].
inline Sizes halved(Sizes sizes) {
  sizes.back() /= 2;
  return sizes;
}

inline Tensor positive(const Tensor& source) {
  return aten("aten::abs", "", source);
}

inline const std::vector<Sizes> kShapes = {
    {2}, {3, 8}, {2, 3, 34}, {1, 1, 1, 2}, {0, 8}, {3, 0}, {129, 512}};

inline Tensor on_meta(
    const Sizes& sizes, ScalarType dtype = ScalarType::Float) {
  return torch::stable::empty(
      sizes,
      dtype,
      std::nullopt,
      torch::stable::Device(DeviceType::Meta),
      std::nullopt,
      std::nullopt);
}

} // namespace workbook::chapter_04
