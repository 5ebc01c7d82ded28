// Test of chapter 00: the op, as libtorch calls it.
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cmath>
#include <cstdint>
#include <optional>
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
  const std::vector<float> in{
      -1, 0, 1, -20, 20, 0.5, -100, 3, 2.5e-3F, 100, -10, -1e-3F};
  const Tensor x = tensor<float>(in, {4, 3});
  const Tensor y = silu(x);
  CHECK(y.sizes().vec() == std::vector<int64_t>{4, 3});
  const std::vector<float> out = values<float>(y);
  for (size_t i = 0; i < in.size(); ++i) {
    INFO("in[i] := ", in[i]);
    // Relative, down to what a float can just hold.
    const auto silu =
        doctest::Approx(in[i] / (1 + std::exp(-double{in[i]}))).scale(1e-30);
    CHECK(out[i] == silu);
  }
  CHECK(values<float>(x) == in); // the input is as it was
  CHECK(silu(tensor<float>({}, {0})).numel() == 0);
  SUBCASE("what the kernel cannot read is refused, as before") {
    Tensor rows = tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2});
    CHECK(refusal([&] {
            silu(torch::stable::narrow(rows, 1, 0, 1));
          }) == doctest::Contains("contiguous"));
    CHECK(refusal([&] {
            silu(torch::stable::transpose(rows, 0, 1));
          }) == doctest::Contains("contiguous"));
    CHECK(refusal([&] { // every second element
            silu(torch::stable::select(rows, 1, 0));
          }) == doctest::Contains("contiguous"));
    if (refusal([&] { silu(tensor<double>({1}, {1})); }) == kNothingThrown ||
        refusal([&] { silu(tensor<int32_t>({1}, {1})); }) == kNothingThrown) {
      FAIL("elements of another dtype are read as if they were float");
    }
    // The dispatcher finds no kernel where there is no memory.
    const Tensor meta = torch::stable::empty(
        {1},
        torch::headeronly::ScalarType::Float,
        std::nullopt,
        torch::stable::Device(torch::headeronly::DeviceType::Meta));
    CHECK(refusal([&] { silu(meta); }) == doctest::Contains("Meta"));
  }
}
