// run LIBRARY: loads the last step's library without Python and calls each op.
// Built once, run with each libtorch (LD_LIBRARY_PATH chooses it).
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/shim_utils.h>

#include <dlfcn.h>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

using torch::stable::Tensor;
namespace stable = torch::stable::detail; // not ::from, which is deprecated

// The op's first return; the stack holds its arguments.
Tensor call(
    const char* name, const char* overload, std::vector<StableIValue> stack) {
  TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher(name, overload, stack.data(), TORCH_ABI_VERSION));
  return stable::to<Tensor>(stack[0]);
}

int failures = 0;

void expect(const char* what, const Tensor& tensor, float value) {
  const auto* data = tensor.const_data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    if (std::abs(data[i] - value) > 1e-4f) {
      std::printf(
          "%s: element %ld is %g, not %g\n", what, long(i), data[i], value);
      ++failures;
      return;
    }
  }
  failures += tensor.numel() == 0;
}

//! [main]
int main(int, char** arguments) {
  if (!dlopen(arguments[1], RTLD_NOW)) {
    std::puts(dlerror());
    return 1;
  }
  const Tensor threes = torch::stable::full({4, 5}, 3);
  const Tensor weight = torch::stable::full({5}, 0.5);
  const std::optional<Tensor> none;
  expect(
      "rms_norm",
      call(
          "rowops::rms_norm",
          "",
          {stable::from(threes), stable::from(none), stable::from(1e-6)}),
      1);
  const Tensor out = torch::stable::empty_like(threes);
  expect(
      "rms_norm.out",
      call(
          "rowops::rms_norm",
          "out",
          {stable::from(threes),
           stable::from(std::optional(weight)),
           stable::from(1e-6),
           stable::from(out)}),
      0.5);
  expect("out", out, 0.5);
  expect(
      "row_share", call("rowops::row_share", "", {stable::from(threes)}), 0.2f);
  const Tensor offsets =
      torch::stable::full({2}, 0, torch::headeronly::ScalarType::Long);
  offsets.mutable_data_ptr<int64_t>()[1] = 4;
  expect(
      "segment_sum",
      call(
          "rowops::segment_sum",
          "",
          {stable::from(threes), stable::from(offsets)}),
      12);
  std::printf(
      "%s on libtorch %llx\n",
      failures ? "FAILED" : "pass",
      static_cast<unsigned long long>(aoti_torch_abi_version() >> 48));
  return failures;
}
//! [main]
