// Row s of the result is the sum of the rows offsets[s] to offsets[s + 1] - 1.
#include "common.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

//! [segment_sum]
Tensor segment_sum(const Tensor& values, const Tensor& offsets) {
  STD_TORCH_CHECK(
      values.dim() == 2 && offsets.dim() == 1 && offsets.size(0) > 0,
      "segment_sum: values must be [n, d] and offsets [s + 1], got ",
      text(values.sizes()),
      " and ",
      text(offsets.sizes()));
  STD_TORCH_CHECK(
      offsets.scalar_type() == ScalarType::Long,
      "segment_sum: offsets must be Long, got ",
      offsets.scalar_type());
  Tensor out =
      torch::stable::new_zeros(values, {offsets.size(0) - 1, values.size(1)});
  const auto offset = accessor<int64_t, 1>(offsets);
  THO_DISPATCH_V2(
      values.scalar_type(),
      "segment_sum",
      AT_WRAP(([&] {
        const auto in = accessor<scalar_t, 2>(values);
        auto sum = accessor<scalar_t, 2>(out);
        for (int64_t s = 0; s < sum.size(0); ++s) {
          const int64_t begin = offset[s];
          const int64_t end = offset[s + 1];
          STD_TORCH_CHECK(
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
      })),
      AT_EXPAND(AT_FLOATING_TYPES));
  return out;
}
//! [segment_sum]

STABLE_TORCH_LIBRARY_IMPL(rowops, CPU, m) {
  m.impl("segment_sum", TORCH_BOX(&segment_sum));
}
