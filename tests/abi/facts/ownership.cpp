// These tests say who owns the content of a slot after a call, as the running
// libtorch leaves it, and how far a stack that is too short is noticed.
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/child.h"
#include "testing/dispatcher.h"
#include "testing/guarded_stack.h"
#include "testing/ledger.h"
#include "testing/watch.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

using namespace workbook;
using doctest::Contains;
using torch::stable::Tensor;

namespace {

const std::vector<float> kDividend{6, 8, -10, 3};

// Returns a tensor that owns the handle in a slot.
Tensor adopt(StableIValue slot) {
  return Tensor(slots::pointer<AtenTensorHandle>(slot));
}

void take_tensors(StableIValue* stack, uint64_t num_args, uint64_t) {
  for (uint64_t i = 0; i < num_args; ++i) {
    if (i != 1) {
      adopt(stack[i]);
    }
  }
}
void tensor_and_int(StableIValue* stack, uint64_t, uint64_t) {
  stack[1] = 7; // the tensor stays in slot 0
}
void optional_and_tensor(StableIValue* stack, uint64_t, uint64_t) {
  const Tensor input = adopt(stack[0]);
  stack[0] = slots::make("Tensor?", input.get());
  stack[1] = slots::make("Tensor", input.get());
}
void int_tensor_int(StableIValue* stack, uint64_t, uint64_t) {
  stack[1] = stack[0];
  stack[0] = 6;
  stack[2] = 7;
}
std::vector<StableIValue> last_returns;
void scalar_amid_returns(StableIValue* stack, uint64_t, uint64_t) {
  stack[2] = slots::make("Tensor", slots::pointer<AtenTensorHandle>(stack[0]));
  const Ledger::Pause pause;
  last_returns.push_back(stack[2]);
}
void drop_str(StableIValue* stack, uint64_t, uint64_t) {
  slots::release("str", stack[0]);
}

// Notes a fact for the tables of the documentation; tests/abi/ownership.py
// reads it.
void note_fact(const std::string& what, const std::string& value) {
  MESSAGE(what << ": " << value);
}

// Calls an op with these slots. Returns the fate of each: "released", "lost",
// or "bits". The slots that are lost are released here.
std::string find_fates(
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

STABLE_TORCH_LIBRARY(wb_fates, m) {
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
STABLE_TORCH_LIBRARY_IMPL(wb_fates, CompositeExplicitAutograd, m) {
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

} // namespace

TEST_CASE("one error code, three states of ownership") {
  const Tensor input = tensor(kDividend, {4});
  const Tensor wrong = tensor<float>({1, 2, 3}, {3});
  const auto two = [&] {
    return std::vector{
        slots::make("Tensor", input.get()), slots::make("Tensor", wrong.get())};
  };
  const auto scalar = [&] {
    return std::vector{
        slots::make("Tensor", input.get()),
        slots::make("float", nullptr),
        slots::make("Tensor", input.get())};
  };
  const auto check =
      [](const char* what, const std::string& found, const char* expected) {
        note_fact(what, found);
        CHECK(found == expected);
      };
  const uint64_t abi = aoti_torch_abi_version();
  note_fact(
      "libtorch",
      std::to_string(abi >> 56) + "." + std::to_string(abi >> 48 & 0xff) + "." +
          std::to_string(abi >> 40 & 0xff));
  check(
      "no such op (Tensor, Tensor)",
      find_fates("wb_fates::absent", "", {"Tensor", "Tensor"}, two),
      "lost, lost; it failed");
  check(
      "slot 1 cannot be converted (Tensor, Scalar, Tensor)",
      find_fates(
          "wb_fates::scalar", "", {"Tensor", "Scalar", "Tensor"}, scalar),
      "released, bits, lost; it failed");
  check(
      "the kernel threw (Tensor, Tensor)",
      find_fates("aten::mul", "Tensor", {"Tensor", "Tensor"}, two),
      "released, released; it failed");
}

TEST_CASE("what libtorch itself loses, version by version") {
  const Tensor input = tensor(kDividend, {4});
  const auto around = [&](auto middle) {
    return [&input, middle] {
      return std::vector{
          slots::make("Tensor", input.get()),
          middle(),
          slots::make("Tensor", input.get())};
    };
  };
  constexpr StableIValue kNoDevice = 0x7fffffff; // an index beyond int8
  // Each of these is a leak of libtorch 2.10 to 2.15. One that is mended makes
  // its line fail: then the version belongs into the line.
  const char* const open = "released, lost, lost; it failed";
  CHECK(
      find_fates(
          "wb_fates::device", "", {"Tensor", "Device", "Tensor"}, around([] {
            return kNoDevice;
          })) == "released, bits, lost; it failed");
  const auto heap_slot = find_fates(
      "wb_fates::maybe_device", "", {"Tensor", "Device?", "Tensor"}, around([] {
        return slots::bits(new StableIValue(kNoDevice));
      }));
  note_fact(
      "slot 1, a heap slot, cannot be converted (Tensor, Device?, Tensor)",
      heap_slot);
  CHECK(heap_slot == open);
  const auto list = find_fates(
      "wb_fates::devices", "", {"Tensor", "Device[]", "Tensor"}, around([] {
        StableListHandle list = nullptr;
        torch_new_list_reserve_size(1, &list);
        torch_list_push_back(list, kNoDevice);
        return slots::bits(list);
      }));
  note_fact(
      "slot 1, a list, cannot be converted (Tensor, Device[], Tensor)", list);
  CHECK(list == open);

  const auto by_string = std::lround(count_leaks([] {
    StableIValue stack[] = {slots::make("str", nullptr)};
    call_op("wb_fates::str", "", stack);
  }));
  note_fact(
      "blocks lost by each str of over 15 characters",
      std::to_string(by_string));
  CHECK(by_string == (libtorch_at_least(14) ? 0 : 2));
  // A return that cannot be converted loses those after it.
  const auto by_return = std::lround(count_leaks([&] {
    StableIValue stack[3] = {slots::make("Tensor", input.get())};
    const std::string text =
        thrown([&] { call_op("wb_fates::scalar_amid_returns", "", stack); });
  }));
  note_fact(
      "returns lost after one that cannot be converted",
      std::to_string(by_return));
  CHECK(by_return == 1);
  for (const StableIValue lost : last_returns) {
    slots::release("Tensor", lost);
  }
}

TEST_CASE("the returns of a call are converted by the types in reverse") {
  const Tensor input = tensor(kDividend, {4});
  StableIValue stack[3] = {slots::make("Tensor", input.get())};
  CHECK(refusal([&] {
          call_op("wb_fates::tensor_and_int", "", stack);
        }) == Contains("Expected Tensor but got Int"));
  // This one does not even fail: the heap slot lies where the schema says
  // Tensor, and the handle where it says Tensor?.
  {
    const Ledger ledger;
    stack[0] = slots::make("Tensor", input.get());
    call_op("wb_fates::optional_and_tensor", "", stack);
    CHECK(values<float>(adopt(stack[0])) == kDividend);
    CHECK(
        values<float>(adopt(*slots::pointer<StableIValue*>(stack[1]))) ==
        kDividend);
    delete slots::pointer<StableIValue*>(stack[1]);
  }
  // Types that read the same backwards are safe.
  stack[0] = slots::make("Tensor", input.get());
  call_op("wb_fates::int_tensor_int", "", stack);
  CHECK(stack[0] == 6);
  CHECK(values<float>(adopt(stack[1])) == kDividend);
  CHECK(stack[2] == 7);
}

TEST_CASE("a short stack: the end of a page tells, AddressSanitizer not") {
  const Tensor input = tensor(kDividend, {4});
  const auto call = [&](const char* op, const char* overload, auto* stack) {
    return [&input, op, overload, stack] {
      stack[0] = slots::make("Tensor", input.get());
      call_op(op, overload, stack);
    };
  };
  const GuardedStack one(1);
  const GuardedStack two(2);
  CHECK(
      in_child(call("aten::frexp", "Tensor", one.data()), &one) ==
      "SIGSEGV at slot 1 of a stack of 1");
  CHECK(
      in_child(call("aten::frexp", "Tensor", two.data()), &two) == "returned");
  // Six arguments: this call has shipped with one slot.
  CHECK(
      in_child(call("aten::zeros_like", "", one.data()), &one) ==
      "SIGSEGV at slot 1 of a stack of 1");
  const GuardedStack three(3); // four arguments
  CHECK(
      in_child(
          [&] {
            three[1] = slots::make("int[]?", nullptr);
            call("aten::sum", "dim_IntList", three.data())();
          },
          &three) == "SIGSEGV at slot 3 of a stack of 3");
  // The same on the heap, past the end of what AddressSanitizer guards.
  CHECK(in_child([&] {
          auto* const heap = new StableIValue[1];
          call("aten::frexp", "Tensor", heap)();
        }) == "returned");
}
