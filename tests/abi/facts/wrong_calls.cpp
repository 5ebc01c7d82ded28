// These tests say what the running libtorch makes of calls by name that do not
// fit the op's schema.
#include "testing/asan.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/child.h"
#include "testing/dispatcher.h"
#include "testing/guarded_stack.h"
#include "testing/watch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#if WORKBOOK_ASAN
#include <sanitizer/asan_interface.h>
#endif

using namespace workbook;
using doctest::Contains;
using torch::stable::Tensor;

namespace {

// Calls an op on `slots`. The zeros behind them are beyond the end for
// AddressSanitizer. Returns libtorch's error, "" for none; `slots` then has the
// returns.
std::string call_on_short_stack(
    const char* op, const char* overload, std::vector<StableIValue>& slots) {
  std::vector<StableIValue> room(32);
  std::copy(slots.begin(), slots.end(), room.begin());
#if WORKBOOK_ASAN
  StableIValue* const end = room.data() + slots.size();
  const size_t beyond = (room.size() - slots.size()) * sizeof(StableIValue);
  __asan_poison_memory_region(end, beyond);
#endif
  const std::string text = thrown([&] { call_op(op, overload, room.data()); });
#if WORKBOOK_ASAN
  CHECK(__asan_region_is_poisoned(end, beyond) == end);
  __asan_unpoison_memory_region(end, beyond);
#endif
  std::copy_n(room.begin(), slots.size(), slots.begin());
  return text;
}

} // namespace

// What ./workbook schemas rejects in tests/abi/wrong_declarations.cpp.
TEST_CASE("AddressSanitizer lets each wrong declaration pass") {
  const Tensor input = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto self = [&] { return slots::make("Tensor", input.get()); };

  // aten::zeros_like with one slot of six, aten::sum.dim_IntList with three of
  // four: both succeed, and are right, because zeros follow.
  std::vector<StableIValue> one = {self()};
  CHECK(call_on_short_stack("aten::zeros_like", "", one) == "");
  CHECK(
      values<float>(torch::stable::detail::to<Tensor>(one[0])) ==
      std::vector<float>(6, 0));
  std::vector<StableIValue> three = {self(), 0, 1};
  CHECK(call_on_short_stack("aten::sum", "dim_IntList", three) == "");
  CHECK(
      values<float>(torch::stable::detail::to<Tensor>(three[0])) ==
      std::vector<float>{21});

  // A page that cannot be read ends it at once.
  const GuardedStack short_stack(1);
  CHECK(
      in_child(
          [&] {
            short_stack[0] = self();
            call_op("aten::zeros_like", "", short_stack.data());
          },
          &short_stack) == "SIGSEGV at slot 1 of a stack of 1");

  // A double for the Scalar alpha, though it has a default: libtorch refuses
  // it, on every version, when the call is made.
  std::string text = in_child([&] {
    std::vector<StableIValue> slots = {
        self(), self(), torch::stable::detail::from(1.0)};
    throw std::runtime_error(call_on_short_stack("aten::add", "Tensor", slots));
  });
  CHECK(said(text) == Contains("Not yet supported conversion"));
  CHECK(said(text) == Contains("Scalar"));

  // Fifteen arguments, as in 2.10 and 2.11, for aten::_flash_attention_forward,
  // which has 17 since 2.12. There is no kernel for a CPU, and that is all it
  // says.
  text = in_child([&] {
    std::vector<StableIValue> slots = {self(), self(), self()};
    slots.resize(15);
    throw std::runtime_error(
        call_on_short_stack("aten::_flash_attention_forward", "", slots));
  });
  CHECK(said(text) == Contains("Could not run"));
}
