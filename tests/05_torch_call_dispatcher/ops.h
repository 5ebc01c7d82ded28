// The ops that chapter 05 calls by name, with their schemas, and the kernels of
// two of them.
#pragma once

#include "testing/dispatcher.h"
#include "testing/ledger.h"
#include "testing/schema.h"
#include "testing/watch.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace workbook::chapter_05 {

using torch::stable::Tensor;
using Handle = AtenTensorHandle;

// The types of the arguments of two of the probe's ops.
inline const std::vector<std::string> kEverything = {
    "Tensor",
    "int",
    "float",
    "bool",
    "int?",
    "int[]",
    "Tensor?",
    "str",
    "ScalarType"};
inline const std::vector<std::string> kRarer = {
    "Tensor",
    "Device",
    "Device",
    "Layout",
    "MemoryFormat",
    "MemoryFormat",
    "str",
    "MemoryFormat?",
    "Tensor[]"};
// The schemas of all ops that are called, by name and overload.
inline const std::map<std::string, Schema> kOps = {
    {"aten::frexp.Tensor", {{"Tensor"}, {"Tensor", "Tensor"}}},
    {"aten::sum.dim_IntList",
     {{"Tensor", "int[]?", "bool", "ScalarType?"}, {"Tensor"}}},
    {"aten::max.dim", {{"Tensor", "int", "bool"}, {"Tensor", "Tensor"}}},
    {"aten::maximum.out", {{"Tensor", "Tensor", "Tensor"}, {"Tensor"}}},
    {"aten::clamp.Tensor", {{"Tensor", "Tensor?", "Tensor?"}, {"Tensor"}}},
    {"aten::linear", {{"Tensor", "Tensor", "Tensor?"}, {"Tensor"}}},
    {"aten::unflatten.int", {{"Tensor", "int", "int[]"}, {"Tensor"}}},
    {"aten::unbind.int", {{"Tensor", "int"}, {"Tensor[]"}}},
    {"aten::silu", {{"Tensor"}, {"Tensor"}}},
    {"aten::mul.Tensor", {{"Tensor", "Tensor"}, {"Tensor"}}},
    {"wb05::silu_and_mul", {{"Tensor"}, {"Tensor"}}},
    {"wb05::swiglu_mlp", {{"Tensor", "Tensor", "Tensor"}, {"Tensor"}}},
    {"wb05_probe::everything", {kEverything, {"Tensor"}}},
    {"wb05_probe::nothing", {{}, {}}},
    {"wb05_probe::count", {{}, std::vector<std::string>(20, "int")}},
    {"wb05_probe::refuse", {{"Tensor", "int"}, {"Tensor"}}},
    {"wb05_probe::refuse.none", {{"Tensor", "int"}, {}}},
    {"wb05_probe::refuse.two", {{"Tensor", "int"}, {"Tensor", "Tensor"}}},
    {"wb05_probe::refuse.list", {{"Tensor", "int"}, {"Tensor[]"}}},
    {"wb05_probe::numbers", {{"Tensor", "int", "float", "bool"}, {"Tensor"}}},
};

// These return a tensor that owns the handle.
inline Tensor adopt(Handle handle) {
  return Tensor(handle);
}
inline Tensor adopt(StableIValue slot) {
  return Tensor(slots::pointer<Handle>(slot));
}
// Returns true for a libtorch whose reason a function returns, as since 2.13.
inline bool has_error_text() {
  return exception_text() != nullptr;
}

using Floats = std::vector<float>;
using Sizes = std::vector<int64_t>;

// The kernel of an op with these types, which draws its arguments into
// `arrived` and returns the first.
inline std::vector<std::string> arrived;
template <const std::vector<std::string>& types>
void see(StableIValue* stack, uint64_t num_args, uint64_t) {
  for (uint64_t i = 0; i < num_args; ++i) {
    {
      const Ledger::Pause pause;
      arrived.push_back(slots::draw(types[i], stack[i]));
    }
    if (i != 0) {
      slots::release(types[i], stack[i]);
    }
  }
}

STABLE_TORCH_LIBRARY_IMPL(wb05_probe, CompositeExplicitAutograd, m) {
  m.impl("everything", &see<kEverything>);
  m.impl("rarer", &see<kRarer>);
}

} // namespace workbook::chapter_05
