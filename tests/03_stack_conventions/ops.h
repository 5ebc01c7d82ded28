// The ops that chapter 03 calls, with their schemas, and the slots and handles
// of those calls.
#pragma once

#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"
#include "testing/library.h"
#include "testing/schema.h"
#include "testing/watch.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace workbook::chapter_03 {

using torch::stable::Tensor;
using Handle = AtenTensorHandle;
using Kernel = void(StableIValue*, uint64_t, uint64_t);

// The schemas of the ops that are called, by name and overload.
inline const std::map<std::string, Schema> kOps = {
    {"aten::div.Tensor", {{"Tensor", "Tensor"}, {"Tensor"}}},
    {"aten::mul.Tensor", {{"Tensor", "Tensor"}, {"Tensor"}}},
    {"aten::mul.out", {{"Tensor", "Tensor", "Tensor"}, {"Tensor"}}},
    {"aten::frexp.Tensor", {{"Tensor"}, {"Tensor", "Tensor"}}},
    {"aten::silu", {{"Tensor"}, {"Tensor"}}},
    {"aten::unflatten.int", {{"Tensor", "int", "int[]"}, {"Tensor"}}},
    {"aten::unbind.int", {{"Tensor", "int"}, {"Tensor[]"}}},
    {"wb03_probe::six",
     {{"Tensor", "ScalarType?", "Tensor[]", "str", "Tensor?[]", "ScalarType"},
      {}}},
    {"wb03_probe::nest", {{"Tensor", "int", "bool"}, {"Tensor"}}},
    {"wb03_probe::wide",
     {{"Tensor", "int", "int", "int", "int", "int", "int"}, {"Tensor"}}},
    {"wb03_probe::nothing", {{}, {}}},
    {"wb03_probe::count", {{}, std::vector<std::string>(12, "int")}},
};
inline const Schema kGateAndUp{
    {"Tensor", "Tensor?", "bool"}, {"Tensor", "Tensor"}};
inline const std::vector<std::string> kSix =
    kOps.at("wb03_probe::six").arguments;

inline const std::vector<float> kDividend{6, 8, -10, 3};
inline const std::vector<float> kDivisor{2, -4, 5, 8};

// Returns a new handle of the tensor in a slot; the slot keeps its own.
inline Tensor borrow(StableIValue slot) {
  Handle mine = nullptr;
  aoti_torch_new_tensor_handle(slots::pointer<Handle>(slot), &mine);
  return Tensor(mine);
}
// These return a tensor that owns the handle.
inline Tensor adopt(Handle handle) {
  return Tensor(handle);
}
inline Tensor adopt(StableIValue slot) {
  return Tensor(slots::pointer<Handle>(slot));
}
// Returns the version of the running libtorch, without its patch.
inline uint64_t running_version() {
  return aoti_torch_abi_version() >> 48; // 0x020a is 2.10
}
// The blocks that libtorch loses by each string that is passed to an op. Up to
// 2.13 it loses the copy that it makes: an object, and a buffer for a long
// text.
inline const size_t kLostByString = running_version() <= 0x020d ? 2 : 0;

// Returns slots of these types, which all refer to `tensor`.
inline std::vector<StableIValue> make(
    const std::vector<std::string>& types, const Tensor& tensor, bool some) {
  std::vector<StableIValue> stack;
  for (const std::string& type : types) {
    stack.push_back(slots::make(type, tensor.get(), some));
  }
  return stack;
}
// Returns the drawings of the slots.
inline std::vector<std::string> draw_slots(
    const std::vector<std::string>& types, const StableIValue* stack) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < types.size(); ++i) {
    texts.push_back(slots::draw(types[i], stack[i]));
  }
  return texts;
}

inline void call_frexp(const Tensor& input) {
  Handle returns[2];
  function<void(Handle, Handle*)>("wb03_call_frexp")(input.get(), returns);
  adopt(returns[0]), adopt(returns[1]);
}

inline void silu_and_mul(const Tensor& out, const Tensor& input) {
  StableIValue stack[] = {
      slots::make("Tensor", out.get()), slots::make("Tensor", input.get())};
  call_op("wb03::silu_and_mul", "", stack);
}

// Requires silu(first part) * second part of an input of eight elements.
inline void check_silu_and_mul(std::vector<int64_t> sizes) {
  CAPTURE(sizes);
  const std::vector<float> in{1, 2, 3, 4, 5, 6, 7, 8};
  const Tensor input = tensor(in, sizes);
  const auto d = static_cast<size_t>(sizes.back() /= 2);
  const Tensor out = tensor(std::vector<float>(4), sizes);
  silu_and_mul(out, input);
  const std::vector<float> got = values<float>(out);
  for (size_t i = 0; i < 4; ++i) {
    const double gate = in[i / d * 2 * d + i % d];
    const double up = in[i / d * 2 * d + i % d + d];
    CHECK(got[i] == doctest::Approx(gate / (1 + std::exp(-gate)) * up));
  }
}

// Returns the twelve numbers that wb03_probe::count returns next.
inline std::vector<int64_t> count() {
  std::vector<int64_t> next(12);
  function<void(int64_t*)>("wb03_call_count")(next.data());
  return next;
}

} // namespace workbook::chapter_03
