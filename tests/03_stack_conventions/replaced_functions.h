// The functions that a test of chapter 03 puts in place of libtorch's, in the
// library under test, so that a call fails or memory runs out.
#pragma once

#include "ops.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"
#include "testing/ledger.h"
#include "testing/library.h"
#include "testing/meeting.h"
#include "testing/replaced.h"
#include "testing/watch.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace workbook::chapter_03 {

// Returns the version of a libtorch that is newer than the headers.
inline uint64_t get_newer_version() {
  return TORCH_ABI_VERSION + (uint64_t{1} << 48);
}
// Lets two threads call `act`, which calls an op by name. Requires that each
// has an array of slots of its own, and that the slots are packed by the
// version of the headers, whatever libtorch is running.
inline void check_two_threads(
    const void* inside, const std::function<void()>& act) {
  const Replaced running(inside, "aoti_torch_abi_version", get_newer_version);
  std::atomic<int> failed{0};
  const Meeting meeting =
      Meeting::of(inside, [&] { failed += !thrown(act).empty(); });
  REQUIRE(failed == 0);
  REQUIRE(meeting.stacks.size() == 2);
  if (meeting.stacks[0] == meeting.stacks[1]) {
    FAIL("two threads that call at the same time have one array of slots");
  }
  const uint64_t headers = function<uint64_t()>("wb03_headers")();
  for (const uint64_t version : meeting.versions) {
    INFO("TORCH_ABI_VERSION, by which the slots are packed");
    CHECK(slots::hex(version) == slots::hex(headers));
  }
}

inline AOTITorchError fail_in_mul(
    const char*, const char*, StableIValue* stack, uint64_t) {
  slots::release("Tensor", stack[0]);
  slots::release("Tensor", stack[1]);
  return TORCH_FAILURE;
}

inline Handle first_made = nullptr;
inline AOTITorchError fail_the_second(Handle handle, Handle* result) {
  if (first_made != nullptr) {
    return TORCH_FAILURE;
  }
  const AOTITorchError code = aoti_torch_new_tensor_handle(handle, result);
  first_made = *result;
  return code;
}

// Calls aten::mul.out, and returns a handle at the address of the one that was
// given. That address is free by then, and malloc often returns it again.
inline AOTITorchError return_at_the_same_address(
    const char* op,
    const char* overload,
    StableIValue* stack,
    uint64_t version) {
  const auto out = slots::pointer<Handle>(stack[2]);
  StableIValue own[] = {stack[0], stack[1], slots::make("Tensor", out)};
  const AOTITorchError code = torch_call_dispatcher(op, overload, own, version);
  if (code == TORCH_SUCCESS) {
    slots::release("Tensor", own[0]);
    stack[0] = stack[2];
  }
  return code;
}

inline AOTITorchError call_then_exhaust_memory(
    const char* op,
    const char* overload,
    StableIValue* stack,
    uint64_t version) {
  const AOTITorchError code =
      torch_call_dispatcher(op, overload, stack, version);
  Ledger::fail_after(0);
  return code;
}

inline bool called = false;
inline AOTITorchError restore_memory_and_call(
    const char* op,
    const char* overload,
    StableIValue* stack,
    uint64_t version) {
  called = true;
  Ledger::fail_after(-1);
  return torch_call_dispatcher(op, overload, stack, version);
}

// Lets memory run out at each allocation in turn, up to that of the call by
// name.
inline void check_without_memory(
    const std::function<void()>& call, size_t lost_by_libtorch = 0) {
  const Replaced dispatcher(
      library_symbol("wb03_call_frexp"),
      "torch_call_dispatcher",
      restore_memory_and_call);
  const auto act = [&](Watch& watched) {
    called = false;
    for (int n = 0; !called; ++n) {
      Ledger::fail_after(n);
      thrown(call);
      called |= Ledger::fail_after(-1);
      watched.require_clean();
    }
  };
  REQUIRE_CLEAN(watch(kOps, act, nullptr, lost_by_libtorch));
}

} // namespace workbook::chapter_03
