// 09 port an extension: original/ops.cpp on the stable ABI. ./workbook port
// wrote most lines; the steps are those that it left to a person.
#include "by_name.h"

// TODO(09.1): a header of the unstable API.
#include <c10/util/Exception.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/TensorAccessor.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

using torch::headeronly::HeaderOnlyTensorAccessor;
using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::stable::Tensor;

namespace wb {
namespace {

// Returns a shape as ATen writes it: "[2, 3]".
std::string text(IntHeaderOnlyArrayRef sizes) {
  std::string all = "[";
  for (const int64_t size : sizes) {
    all += (all.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return all + "]";
}

// Borrows sizes and strides from `tensor`, which must outlive it.
template <class T, size_t N>
HeaderOnlyTensorAccessor<T, N> accessor(const Tensor& tensor) {
  T* data = nullptr;
  if constexpr (std::is_const_v<T>) {
    data = tensor.const_data_ptr<std::remove_const_t<T>>();
  } else {
    data = tensor.mutable_data_ptr<T>();
  }
  return {data, tensor.sizes().data(), tensor.strides().data()};
}

//! [scale_rows]
// Multiplies each row of x by its factor, in place.
void scale_rows_(const Tensor& x, const Tensor& factors) {
  STD_TORCH_CHECK(
      x.dim() == 2 && x.is_contiguous(),
      "scale_rows_: x must be contiguous and [n, d], got ",
      text(x.sizes()));
  STD_TORCH_CHECK(
      factors.is_contiguous() && factors.numel() == x.size(0),
      "scale_rows_: factors must be contiguous and [n], got ",
      text(factors.sizes()));
  float* rows = x.mutable_data_ptr<float>();
  // TODO(09.2): does this pointer have to be one that may write?
  float* factor = factors.mutable_data_ptr<float>();
  const int64_t n = x.numel(), d = x.size(1); // C calls: not in the loop
  for (int64_t i = 0; i < n; ++i) {
    rows[i] *= factor[i / d];
  }
}
//! [scale_rows]

//! [segment_sum]
// Row s of the result is the sum of the rows offsets[s] to offsets[s + 1] - 1.
Tensor segment_sum(const Tensor& values, const Tensor& offsets) {
  STD_TORCH_CHECK(
      values.dim() == 2 && offsets.dim() == 1 && offsets.size(0) > 0,
      "segment_sum: values must be [n, d] and offsets [s + 1], got ",
      text(values.sizes()),
      " and ",
      text(offsets.sizes()));
  const int64_t segments = offsets.size(0) - 1;
  if (segments == 0) {
    // TODO(09.1): what has the C shim for this?
    TORCH_WARN("segment_sum: one offset makes no segment");
  }
  Tensor out = torch::stable::new_zeros(values, {segments, values.size(1)});
  const auto offset = accessor<const int64_t, 1>(offsets);
  // TODO(09.3): what is thrown here keeps its text.
  THO_DISPATCH_V2(
      values.scalar_type(),
      "segment_sum",
      AT_WRAP(([&] {
        const auto in = accessor<const scalar_t, 2>(values);
        auto sum = accessor<scalar_t, 2>(out);
        torch::stable::parallel_for(
            0, segments, 64, [&](int64_t begin, int64_t end) {
              for (int64_t s = begin; s < end; ++s) {
                // TODO(09.3): what becomes of a text that is thrown here?
                STD_TORCH_CHECK(
                    0 <= offset[s] && offset[s] <= offset[s + 1] &&
                        offset[s + 1] <= in.size(0),
                    "segment_sum: offsets must rise from 0 to ",
                    in.size(0),
                    " at most, got ",
                    offset[s],
                    " before ",
                    offset[s + 1]);
                for (int64_t row = offset[s]; row < offset[s + 1]; ++row) {
                  for (int64_t i = 0; i < in.size(1); ++i) {
                    sum[s][i] += in[row][i];
                  }
                }
              }
            });
      })),
      AT_EXPAND(AT_FLOATING_TYPES));
  return out;
}
//! [segment_sum]

//! [center]
// x less the mean of its row.
Tensor center(const Tensor& x) {
  STD_TORCH_CHECK(x.dim() > 0, "center: x must be [..., d]");
  const double n = static_cast<double>(x.size(-1));
  // TODO(09.4): where is the number -1 while sum reads it?
  return torch::stable::subtract(x, torch::stable::sum(x, -1, true), 1 / n);
}
//! [center]

//! [gather_rows]
// The rows of x that index names.
Tensor gather_rows(const Tensor& x, const Tensor& index) {
  const auto* row = index.const_data_ptr<int64_t>();
  // TODO(09.5): what did the wrapper check, which is gone?
  const auto* from = x.const_data_ptr<float>();
  const int64_t m = index.size(0);
  const int64_t d = x.size(1);
  Tensor out = torch::stable::new_empty(x, {m, d});
  auto* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < m; ++i) {
    std::copy_n(from + row[i] * d, d, to + i * d);
  }
  return out;
}
//! [gather_rows]

//! [row_share]
// TODO(09.6): declare aten::div.Tensor(Tensor self, Tensor other) -> Tensor.

// Each element's share of the sum of its row.
Tensor row_share(const Tensor& x) {
  STD_TORCH_CHECK(x.dim() > 0, "row_share: x must be [..., d]");
  // TODO(09.6): right, and fast. What does PyTorch not see of it?
  Tensor out = torch::stable::clone(torch::stable::contiguous(x));
  float* row = out.mutable_data_ptr<float>();
  const int64_t d = x.size(-1);
  for (const float* end = row + out.numel(); row != end; row += d) {
    float sum = 0;
    std::for_each(row, row + d, [&sum](float v) { sum += v; });
    std::transform(row, row + d, row, [sum](float v) { return v / sum; });
  }
  return out;
}
//! [row_share]

//! [segment_lengths]
// TODO(09.7): declare aten::diff, with every argument of its schema.

// How many rows each segment has.
Tensor segment_lengths(const Tensor& offsets) {
  STD_TORCH_CHECK(
      offsets.dim() == 1 && offsets.size(0) > 0,
      "segment_lengths: offsets must be [s + 1], got ",
      text(offsets.sizes()));
  // TODO(09.7): PyTorch's subtract refuses integers.
  Tensor all = offsets; // narrow takes a Tensor&
  const int64_t n = all.size(0) - 1;
  return torch::stable::subtract(
      torch::stable::narrow(all, 0, 1, n), torch::stable::narrow(all, 0, 0, n));
}
//! [segment_lengths]

} // namespace
} // namespace wb

//! [library]
STABLE_TORCH_LIBRARY(rowops, m) {
  // TODO(09.2): which of the two does the kernel write to?
  m.def("scale_rows_(Tensor x, Tensor factors) -> ()");
  m.def("segment_sum(Tensor values, Tensor offsets) -> Tensor");
  m.def("center(Tensor x) -> Tensor");
  m.def("gather_rows(Tensor x, Tensor index) -> Tensor");
  m.def("row_share(Tensor x) -> Tensor");
  m.def("segment_lengths(Tensor offsets) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(rowops, CPU, m) {
  m.impl("scale_rows_", TORCH_BOX(&wb::scale_rows_));
  m.impl("segment_sum", TORCH_BOX(&wb::segment_sum));
  m.impl("center", TORCH_BOX(&wb::center));
  m.impl("gather_rows", TORCH_BOX(&wb::gather_rows));
  m.impl("row_share", TORCH_BOX(&wb::row_share));
  m.impl("segment_lengths", TORCH_BOX(&wb::segment_lengths));
}
//! [library]
