// Ops that the test program of chapter 03 registers itself, and the fate of
// each slot that a call hands to libtorch.
#pragma once

#include "ops.h"
#include "testing/dispatcher.h"
#include "testing/ledger.h"
#include "testing/watch.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace workbook::chapter_03 {

inline void take_tensors(StableIValue* stack, uint64_t num_args, uint64_t) {
  for (uint64_t i = 0; i < num_args; ++i) {
    if (i != 1) {
      adopt(stack[i]);
    }
  }
}
inline void tensor_and_int(StableIValue* stack, uint64_t, uint64_t) {
  stack[1] = 7; // the tensor stays in slot 0
}
inline void optional_and_tensor(StableIValue* stack, uint64_t, uint64_t) {
  const Tensor input = adopt(stack[0]);
  stack[0] = slots::make("Tensor?", input.get());
  stack[1] = slots::make("Tensor", input.get());
}
inline void int_tensor_int(StableIValue* stack, uint64_t, uint64_t) {
  stack[1] = stack[0];
  stack[0] = 6;
  stack[2] = 7;
}
inline std::vector<StableIValue> last_returns;
inline void scalar_amid_returns(StableIValue* stack, uint64_t, uint64_t) {
  stack[2] = slots::make("Tensor", slots::pointer<Handle>(stack[0]));
  const Ledger::Pause pause;
  last_returns.push_back(stack[2]);
}
inline void drop_str(StableIValue* stack, uint64_t, uint64_t) {
  slots::release("str", stack[0]);
}

STABLE_TORCH_LIBRARY(wb03_facts, m) {
  m.def("scalar(Tensor a, Scalar b, Tensor c) -> ()");
  m.def("device(Tensor a, Device b, Tensor c) -> ()");
  m.def("maybe_device(Tensor a, Device? b, Tensor c) -> ()");
  m.def("devices(Tensor a, Device[] b, Tensor c) -> ()");
  m.def("str(str a) -> ()");
  m.def("tensor_and_int(Tensor a) -> (Tensor, int)");
  m.def("optional_and_tensor(Tensor a) -> (Tensor?, Tensor)");
  m.def("int_tensor_int(Tensor a) -> (int, Tensor, int)");
  m.def("scalar_amid_returns(Tensor a) -> (Tensor, Scalar, Tensor)");
}
STABLE_TORCH_LIBRARY_IMPL(wb03_facts, CompositeExplicitAutograd, m) {
  m.impl("scalar", &take_tensors);
  m.impl("device", &take_tensors);
  m.impl("maybe_device", &take_tensors);
  m.impl("devices", &take_tensors);
  m.impl("str", &drop_str);
  m.impl("tensor_and_int", &tensor_and_int);
  m.impl("optional_and_tensor", &optional_and_tensor);
  m.impl("int_tensor_int", &int_tensor_int);
  m.impl("scalar_amid_returns", &scalar_amid_returns);
}

// Notes a fact for the tables of the documentation; tests/abi/ownership.py
// reads it.
inline void note_fact(const std::string& what, const std::string& value) {
  MESSAGE(what << ": " << value);
}

// Calls an op with these slots. Returns the fate of each: "released", "lost",
// or "bits". The slots that are lost are released here.
inline std::string find_fates(
    const std::string& op,
    const std::string& overload,
    const std::vector<std::string>& types,
    const std::function<std::vector<StableIValue>()>& slots) {
  const Ledger ledger;
  std::vector<StableIValue> stack = slots();
  const Ledger::Pause pause;
  const std::vector<StableIValue> arguments = stack;
  stack.resize(8);
  const std::string text = thrown([&] {
    const Ledger::Follow follow;
    call_op(op, overload, stack.data());
  });
  std::string result;
  for (size_t i = 0; i < types.size(); ++i) {
    const int times =
        Ledger::deletions(slots::pointer<const void*>(arguments[i]));
    result += i == 0 ? "" : ", ";
    result += times == Ledger::kUnknown ? "bits"
        : times == 0                    ? "lost"
        : times == 1                    ? "released"
                                        : "released twice";
    if (times == 0) {
      slots::release(types[i], arguments[i]);
    }
  }
  return result + (text.empty() ? "" : "; it failed");
}

} // namespace workbook::chapter_03
