// The feed-forward layer of step 05.6: calls of it, the calls that it makes
// itself, and the gradients that autograd computes through it.
#pragma once

#include "call_checks.h"
#include "ops.h"
#include "testing/aten.h"
#include "testing/dispatcher.h"
#include "testing/random.h"
#include "testing/watch.h"

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/macros/Export.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace workbook::chapter_05 {

inline Floats random_values(size_t count, Random& random) {
  Floats values(count);
  for (float& value : values) {
    value = random.normal<float>(1);
  }
  return values;
}

inline Tensor swiglu_mlp(
    const Tensor& x, const Tensor& w_gate_up, const Tensor& w_down) {
  StableIValue stack[] = {
      slots::make("Tensor", x.get()),
      slots::make("Tensor", w_gate_up.get()),
      slots::make("Tensor", w_down.get())};
  call_op("wb05::swiglu_mlp", "", stack);
  return adopt(stack[0]);
}

inline Tensor silu_and_mul(const Tensor& input) {
  StableIValue stack[] = {slots::make("Tensor", input.get())};
  call_op("wb05::silu_and_mul", "", stack);
  return adopt(stack[0]);
}

// dispatch_recorded() replaces torch_call_dispatcher in the library under test.
// It notes the ops whose result autograd has not recorded.
inline std::string unrecorded;
inline AOTITorchError dispatch_recorded(
    const char* op, const char* overload, StableIValue* stack, uint64_t build) {
  const AOTITorchError code = torch_call_dispatcher(op, overload, stack, build);
  const std::string dot = *overload == 0 ? "" : ".";
  const auto found = kOps.find(op + dot + overload);
  if (code == TORCH_SUCCESS && found != kOps.end() &&
      found->second.returns == std::vector<std::string>{"Tensor"} &&
      is_leaf(slots::pointer<Handle>(stack[0]))) {
    unrecorded += std::string(" ") + op;
  }
  return code;
}

// Computes the gradients of the tensors that `result`, [1, 2], was computed
// from. Returns what PyTorch writes to stderr meanwhile.
inline std::string backward(const Tensor& result) {
  const Tensor ones = tensor<float>({1, 1}, {1, 2});
  StableListHandle all = nullptr; // an empty list stands for all of them
  torch_new_list_reserve_size(0, &all);
  StableIValue stack[] = {
      slots::make("Tensor", result.get()),
      slots::bits(all),
      slots::make("Tensor?", ones.get()),
      0,
      0};
  const CapturedStderr captured;
  const bool done =
      torch_call_dispatcher("aten::_backward", "", stack, TORCH_ABI_VERSION) ==
      TORCH_SUCCESS;
  return captured.text() + (done ? "" : "the call of aten::_backward failed");
}

// Replaces the functions that read sizes.
inline AOTITorchError refuse_size() {
  return TORCH_FAILURE;
}

// A call of swiglu_mlp, in which its own calls are watched.
struct C10_HIDDEN OwnCalls {
  Tensor x = tensor<float>({1, 2}, {1, 2});
  Tensor w_gate_up = tensor<float>({1, 2, 3, 4}, {2, 2});
  Tensor w_down = tensor<float>({5, 6}, {2, 1});
  Named names{{x, "x"}, {w_gate_up, "w_gate_up"}, {w_down, "w_down"}};
  std::string picture{};
  std::string trouble = watch(
      {{"aten::linear", kOps.at("aten::linear")},
       {"wb05::silu_and_mul", kOps.at("wb05::silu_and_mul")}},
      [this](Watch&) { swiglu_mlp(x, w_gate_up, w_down); },
      &picture);
};

} // namespace workbook::chapter_05
