// Launches that the ops of chapter 07 make on the pretended GPU: on which
// stream, of which addresses, and with which results.
#pragma once

#include "fake_gpu.h"
#include "inputs.h"
#include "kernel_results.h"
#include "model.h"
#include "ops.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/compare.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace workbook::chapter_07 {

// Returns "" for the device that the input is on.
inline std::string check_device(int device, const std::string& op) {
  const int home = pretend::state().home;
  return device == home
      ? ""
      : "the input of " + op + " is on cuda:" + std::to_string(home) +
          ", and the launch goes to cuda:" + std::to_string(device) +
          ": the current device is still another";
}

// Returns "" for the current stream of the device that the input is on.
inline std::string check_stream(const void* stream) {
  const int home = pretend::state().home;
  const std::string current = "the current one of cuda:" + std::to_string(home);
  return stream == pretend::stream_of(home) ? ""
      : stream == nullptr
      ? "the launch goes to the null stream, not to " + current
      : stream == reinterpret_cast<void*>(3)
      ? "the launch goes to 3, which is PyTorch's number of the stream: CUDA "
        "does not know it"
      : "the launch goes to another stream than " + current +
          (pretend::stream_of(home) == nullptr
               ? ", which is PyTorch's default one: the null stream"
               : "");
}

// Returns "" if the op's launch computes the right result of this input, and
// reads the input where it lies, or a copy if `copied`. With `addresses_only`
// the result is not compared: the kernel may not support columns that are
// apart.
template <class T>
std::string check_launch(
    const Tensor& input, bool copied = false, bool addresses_only = false) {
  const pretend::Pretend gpu;
  const pretend::Model model;
  StableIValue stack[] = {torch::stable::detail::from(input)};
  call_cuda("silu_and_mul", stack, 1);
  const Tensor out = torch::stable::detail::to<Tensor>(stack[0]);
  const auto numbers = values<T>(torch::stable::contiguous(input));
  const auto d = static_cast<size_t>(input.size(-1) / 2);
  std::vector<double> expected;
  for (size_t i = 0; i < numbers.size() / 2; ++i) {
    const size_t at = i / d * 2 * d + i % d;
    const double gate = static_cast<float>(numbers[at]);
    expected.push_back(
        gate * sigmoid(gate) * static_cast<float>(numbers[at + d]));
  }
  if (model.launches.size() != 1) {
    return "the op makes " + std::to_string(model.launches.size()) +
        " launches";
  }
  const pretend::Given& given = model.launches[0];
  if (!copied && given.first != input.const_data_ptr()) {
    return "the rows are evenly apart, and the op reads a copy of them";
  }
  const auto between =
      static_cast<const T*>(given.second) - static_cast<const T*>(given.first);
  const int64_t halves = input.size(-1) / 2 * (copied ? 1 : input.stride(-1));
  if (between != halves) {
    return "up begins " + std::to_string(between) +
        " elements behind gate, and should " + std::to_string(halves);
  }
  if (addresses_only) {
    return "";
  }
  return first_difference<T>(values<T>(out), expected, 0.51, kSmallest);
}

// Returns "" if the launch of the gradient's op computes the right result for a
// gradient of these strides and an input of this row stride.
template <class T>
std::string check_gradient_launch(
    const std::vector<int64_t>& strides, int64_t row_stride) {
  const int64_t rows = 3, d = 5;
  auto grads = normal_of<T>(rows * d), inputs = normal_of<T>(rows * 3 * d);
  const Tensor grad = strided(grads, {rows, d}, strides);
  const Tensor input = strided(inputs, {rows, 2 * d}, {row_stride, 1});
  const pretend::Pretend gpu;
  const pretend::Model model;
  StableIValue stack[] = {
      torch::stable::detail::from(grad), torch::stable::detail::from(input)};
  call_cuda("silu_and_mul_backward", stack, 1);
  const auto got = values<T>(torch::stable::detail::to<Tensor>(stack[0]));
  std::vector<double> expected(got.size());
  const auto number = [](const T& at) {
    return static_cast<double>(static_cast<float>(at));
  };
  for (int64_t i = 0; i < rows * d; ++i) {
    const int64_t row = i / d, column = i % d;
    const T* const gate = inputs.data() + row * row_stride + column;
    const auto [of_gate, of_up] = pretend::gradients(
        number(grads.data()[row * strides[0] + column * strides[1]]),
        number(gate[0]),
        number(gate[d]));
    expected[static_cast<size_t>(row * 2 * d + column)] = of_gate;
    expected[static_cast<size_t>(row * 2 * d + d + column)] = of_up;
  }
  return first_difference<T>(got, expected, 0.51, kSmallest);
}

// Returns "" if the op launches its kernel, else the reason why it does not.
inline std::string launch_and_catch(const Tensor& out, const Tensor& input) {
  try {
    call_cuda_out(out, input);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

} // namespace workbook::chapter_07

// Requires that silu_and_mul.out launches its kernel.
#define REQUIRE_LAUNCHED(out, input)                                      \
  do {                                                                    \
    const std::string why =                                               \
        workbook::chapter_07::launch_and_catch(out, input);               \
    const auto& asked = pretend::state();                                 \
    if (!why.empty() && asked.launches.empty() && asked.blocks == 0 &&    \
        asked.threads != 0) {                                             \
      LOOK_AT("core/launch.h", "LaunchConfig");                           \
      FAIL(                                                               \
          "the launch is of 0 blocks of " << asked.threads                \
                                          << " threads, "                 \
                                             "for "                       \
                                          << out.numel() << " elements"); \
    }                                                                     \
    REQUIRE_CLEAN(why);                                                   \
  } while (false)
