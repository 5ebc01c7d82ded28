// Test of chapter 00: the op, as libtorch calls it.
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cmath>
#include <cstdint>
#include <vector>

using namespace workbook;
using torch::stable::Tensor;

namespace {

Tensor silu(const Tensor& x) {
  StableIValue stack[] = {torch::stable::detail::from(x)};
  call_op("wb00::silu", "", stack);
  return torch::stable::detail::to<Tensor>(stack[0]);
}

} // namespace

TEST_CASE(
    "00.1 silu of each element" *
    doctest::description("out does not hold the silu of each element of x.")) {
  const std::vector<float> in{-1, 0, 1, -20, 20, 0.5, -100, 3, 2.5e-3F};
  const Tensor x = tensor<float>(in, {3, 3});
  const Tensor y = silu(x);
  CHECK(y.sizes().vec() == std::vector<int64_t>{3, 3});
  const std::vector<float> out = values<float>(y);
  for (size_t i = 0; i < in.size(); ++i) {
    INFO("in[i] := ", in[i]);
    const auto silu = doctest::Approx(in[i] / (1 + std::exp(-double{in[i]})));
    CHECK(out[i] == silu);
  }
  CHECK(values<float>(x) == in); // the input is as it was
  CHECK(silu(tensor<float>({}, {0})).numel() == 0);
}

TEST_CASE("00 what the kernel cannot read is refused") {
  Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  CHECK(refusal([&] {
          silu(torch::stable::narrow(x, 1, 0, 1));
        }) == doctest::Contains("contiguous"));
  CHECK(refusal([&] { silu(tensor<double>({1}, {1})); }) != kNothingThrown);
}
