// The op and its kernel for the CPU: input * factor.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

namespace scale_ops {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

Tensor scale(const Tensor& input, double factor) {
  STD_TORCH_CHECK(input.is_contiguous(), "scale: input must be contiguous");
  Tensor out = torch::stable::empty_like(input);
  THO_DISPATCH_V2(
      input.scalar_type(),
      "scale",
      AT_WRAP(([&] {
        const auto* in = input.const_data_ptr<scalar_t>();
        auto* to = out.mutable_data_ptr<scalar_t>();
        for (int64_t i = 0, n = input.numel(); i < n; ++i) {
          to[i] = static_cast<float>(in[i]) * static_cast<float>(factor);
        }
      })),
      ScalarType::Float,
      ScalarType::Half,
      ScalarType::BFloat16);
  return out;
}

} // namespace

STABLE_TORCH_LIBRARY(scale_ops, m) {
  m.def("scale(Tensor input, float factor) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(scale_ops, CPU, m) {
  m.impl("scale", TORCH_BOX(&scale));
}

} // namespace scale_ops
