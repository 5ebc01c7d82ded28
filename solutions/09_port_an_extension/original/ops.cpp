// Ops on the rows of a tensor, as they were: written with ATen's headers, for
// one version of PyTorch. It is not built with the rest; CMakeLists.txt beside
// it builds it, to be compared.
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

using at::Tensor;

namespace {

//! [scale_rows]
// Multiplies each row of x by its factor, in place.
void scale_rows_(const Tensor& x, const Tensor& factors) {
  TORCH_CHECK(
      x.dim() == 2 && x.is_contiguous(),
      "scale_rows_: x must be contiguous and [n, d], got ",
      x.sizes());
  TORCH_CHECK(
      factors.is_contiguous() && factors.numel() == x.size(0),
      "scale_rows_: factors must be contiguous and [n], got ",
      factors.sizes());
  float* rows = x.data_ptr<float>();
  float* factor = factors.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    rows[i] *= factor[i / x.size(1)];
  }
}
//! [scale_rows]

//! [segment_sum]
// Row s of the result is the sum of the rows offsets[s] to offsets[s + 1] - 1.
Tensor segment_sum(const Tensor& values, const Tensor& offsets) {
  TORCH_CHECK(
      values.dim() == 2 && offsets.dim() == 1 && offsets.size(0) > 0,
      "segment_sum: values must be [n, d] and offsets [s + 1], got ",
      values.sizes(),
      " and ",
      offsets.sizes());
  const int64_t segments = offsets.size(0) - 1;
  if (segments == 0) {
    TORCH_WARN("segment_sum: one offset makes no segment");
  }
  Tensor out = at::zeros({segments, values.size(1)}, values.options());
  const auto offset = offsets.accessor<int64_t, 1>();
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "segment_sum", [&] {
    const auto in = values.accessor<scalar_t, 2>();
    auto sum = out.accessor<scalar_t, 2>();
    at::parallel_for(0, segments, 64, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        TORCH_CHECK(
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
  });
  return out;
}
//! [segment_sum]

//! [center]
// x less the mean of its row.
Tensor center(const Tensor& x) {
  TORCH_CHECK(x.dim() > 0, "center: x must be [..., d]");
  const double n = static_cast<double>(x.size(-1));
  return at::sub(x, at::sum(x, -1, /*keepdim=*/true), 1 / n);
}
//! [center]

//! [gather_rows]
// The rows of x that index names.
Tensor gather_rows(const Tensor& x, const Tensor& index) {
  Tensor out = at::empty({index.size(0), x.size(1)}, x.options());
  const auto* from = x.const_data_ptr<float>();
  const auto* row = index.const_data_ptr<int64_t>();
  auto* to = out.mutable_data_ptr<float>();
  const int64_t d = x.size(1);
  for (int64_t i = 0; i < index.size(0); ++i) {
    std::copy_n(from + row[i] * d, d, to + i * d);
  }
  return out;
}

// Python calls this one: it checks, then lets the dispatcher find the kernel.
Tensor gather_rows_checked(const Tensor& x, const Tensor& index) {
  TORCH_CHECK(
      x.dim() == 2 && x.is_contiguous(),
      "gather_rows: x must be contiguous and [n, d], got ",
      x.sizes());
  TORCH_CHECK(
      index.dim() == 1 && index.is_contiguous(),
      "gather_rows: index must be contiguous and [m], got ",
      index.sizes());
  const auto* row = index.const_data_ptr<int64_t>();
  TORCH_CHECK(
      std::all_of(
          row,
          row + index.size(0),
          [&](int64_t i) { return 0 <= i && i < x.size(0); }),
      "gather_rows: index must be from 0 to ",
      x.size(0) - 1);
  const at::AutoDispatchBelowAutograd below;
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("rowops::gather_rows", "")
                             .typed<Tensor(const Tensor&, const Tensor&)>();
  return op.call(x, index);
}
//! [gather_rows]

//! [row_share]
// Each element's share of the sum of its row.
Tensor row_share(const Tensor& x) {
  TORCH_CHECK(x.dim() > 0, "row_share: x must be [..., d]");
  return at::div(x, at::sum(x, {-1}, /*keepdim=*/true));
}
//! [row_share]

//! [segment_lengths]
// How many rows each segment has.
Tensor segment_lengths(const Tensor& offsets) {
  TORCH_CHECK(
      offsets.dim() == 1 && offsets.size(0) > 0,
      "segment_lengths: offsets must be [s + 1], got ",
      offsets.sizes());
  return offsets.slice(0, 1) - offsets.slice(0, 0, -1);
}
//! [segment_lengths]

} // namespace

//! [library]
TORCH_LIBRARY(rowops, m) {
  m.def("scale_rows_", &scale_rows_);
  m.def("segment_sum(Tensor values, Tensor offsets) -> Tensor");
  m.def("center(Tensor x) -> Tensor");
  m.def("gather_rows(Tensor x, Tensor index) -> Tensor");
  m.def("row_share(Tensor x) -> Tensor");
  m.def("segment_lengths(Tensor offsets) -> Tensor");
}
TORCH_LIBRARY_IMPL(rowops, CPU, m) {
  m.impl("segment_sum", &segment_sum);
  m.impl("center", &center);
  m.impl("gather_rows", &gather_rows);
  m.impl("row_share", &row_share);
  m.impl("segment_lengths", &segment_lengths);
}
TORCH_LIBRARY_IMPL(rowops, Autograd, m) {
  m.impl("gather_rows", &gather_rows_checked);
}
//! [library]
