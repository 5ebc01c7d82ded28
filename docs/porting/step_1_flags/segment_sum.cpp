// Row s of the result is the sum of the rows offsets[s] to offsets[s + 1] - 1.
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

using at::Tensor;

//! [segment_sum]
Tensor segment_sum(const Tensor& values, const Tensor& offsets) {
  TORCH_CHECK(
      values.dim() == 2 && offsets.dim() == 1 && offsets.size(0) > 0,
      "segment_sum: values must be [n, d] and offsets [s + 1], got ",
      values.sizes(),
      " and ",
      offsets.sizes());
  TORCH_CHECK(
      offsets.scalar_type() == at::kLong,
      "segment_sum: offsets must be Long, got ",
      offsets.scalar_type());
  Tensor out =
      at::zeros({offsets.size(0) - 1, values.size(1)}, values.options());
  const auto offset = offsets.accessor<int64_t, 1>();
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "segment_sum", [&] {
    const auto in = values.accessor<scalar_t, 2>();
    auto sum = out.accessor<scalar_t, 2>();
    for (int64_t s = 0; s < sum.size(0); ++s) {
      const int64_t begin = offset[s];
      const int64_t end = offset[s + 1];
      TORCH_CHECK(
          0 <= begin && begin <= end && end <= in.size(0),
          "segment_sum: offsets must rise from 0 to ",
          in.size(0),
          " at most, got ",
          begin,
          " before ",
          end);
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t i = 0; i < in.size(1); ++i) {
          sum[s][i] += in[row][i];
        }
      }
    }
  });
  return out;
}
//! [segment_sum]

TORCH_LIBRARY_IMPL(rowops, CPU, m) {
  m.impl("segment_sum", &segment_sum);
}
