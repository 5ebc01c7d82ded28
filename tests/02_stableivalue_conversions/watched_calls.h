// The learner's kernels, called with slots that are watched: each slot is
// emptied and made once, whichever function of libtorch or allocation fails.
#pragma once

#include "replaced_shims.h"
#include "testing/checks.h"
#include "testing/ledger.h"
#include "testing/library.h"
#include "testing/replaced.h"
#include "testing/shim_slots.h"
#include "testing/watch.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace workbook::chapter_02 {

using torch::stable::Tensor;
namespace theirs = torch::stable::detail; // PyTorch's own conversions

// Returns "" if no call of `body` leaves anything behind.
template <class Body>
std::string find_leaks(const char* by, const Body& body) {
  const double blocks = count_leaks(body);
  return blocks == 0 ? ""
                     : std::to_string(std::lround(blocks)) +
          " block(s) are left behind in memory by each conversion of " + by;
}

inline int deletions(StableIValue slot) {
  return Ledger::deletions(pointer<void>(slot));
}

inline StableIValue from_tensor(const Tensor& x) {
  return theirs::from(x);
}
inline Tensor tensor(float value) {
  return torch::stable::full({2, 3}, value);
}
inline float first(const Tensor& x) {
  return *x.const_data_ptr<float>();
}

// A kernel of the library under test. A test calls it in libtorch's place with
// one slot of this type, which the kernel echoes or releases.
struct Kernel {
  std::string op;
  std::string type; // the type in the schema
  std::string does; // the heading of the picture
  std::string from; // the places of the learner's functions
  std::string to;
};
// Returns the T of the learner's Slot<T>.
inline std::string part_of(const std::string& cpp) {
  return cpp.rfind("vector", 0) == 0  ? "std::vector<T>"
      : cpp.rfind("optional", 0) == 0 ? "std::optional<T>"
                                      : cpp;
}
inline Kernel echo_kernel(
    const char* op, const char* type, const std::string& cpp) {
  const std::string does = "Slot<" + cpp + ">: stack[0] = from(to(stack[0]))";
  const std::string part = part_of(cpp);
  return {
      op,
      type,
      does,
      "slot.h: from(const " + part + "&",
      "slot.h: static " + part + " to("};
}
inline Kernel release_kernel(
    const char* op, const char* type, const std::string& cpp) {
  const std::string part = part_of(cpp);
  const std::string after = part == "std::vector<T>"
      ? "slot.h: static std::vector<T> to("
      : "slot.h: struct Slot<" + part + ">";
  return {op, type, "Slot<" + cpp + ">::release(stack[0])", after, after};
}
inline const Kernel kTensor = echo_kernel("raw_tensor", "Tensor", "Tensor");
inline const Kernel kString = echo_kernel("raw_str", "str", "std::string");
inline const Kernel kMaybeInt =
    echo_kernel("raw_maybe_int", "int?", "optional<int64_t>");
inline const Kernel kMaybeDtype =
    echo_kernel("raw_maybe_dtype", "ScalarType?", "optional<ScalarType>");
inline const Kernel kMaybeTensor =
    echo_kernel("raw_maybe_tensor", "Tensor?", "optional<Tensor>");
inline const Kernel kInts = echo_kernel("raw_ints", "int[]", "vector<int64_t>");
inline const Kernel kTensors =
    echo_kernel("raw_tensors", "Tensor[]", "vector<Tensor>");
inline const Kernel kNestedDtypes = echo_kernel(
    "raw_nested_dtypes", "ScalarType[][]", "vector<vector<ScalarType>>");
inline const Kernel kMaybeTensors =
    echo_kernel("raw_maybe_tensors", "Tensor?[]", "vector<optional<Tensor>>");
inline const Kernel kReleaseInts =
    release_kernel("release_ints", "int[]", "vector<int64_t>");
inline const Kernel kReleaseMaybeTensors = release_kernel(
    "release_maybe_tensors", "Tensor?[]", "vector<optional<Tensor>>");

using Make = std::function<StableIValue()>;

// Returns a short text for what a slot holds.
inline std::string describe_slot(const std::string& type, StableIValue slot) {
  const std::string text = slots::written(type, slot);
  return text.size() <= 60 ? text : text.substr(0, 50) + "...";
}

// Calls `kernel` once with the slot that `make` makes. `spoil` is called
// before, and may make something fail. If `returns` is true, the kernel must
// return a slot that holds the same.
inline void call_watched(
    Watch& watched,
    const Kernel& kernel,
    const Make& make,
    bool returns,
    const std::function<void()>& spoil = [] {}) {
  const Ledger::Pause pause;
  StableIValue slot = 0;
  {
    const Ledger::Follow follow;
    slot = make();
  }
  const std::string before = slots::draw(kernel.type, slot);
  const std::string shown = describe_slot(kernel.type, slot);
  spoil();
  watched.call_kernel(
      kernel.does,
      kernel_of(kernel.op),
      {{kernel.type},
       returns ? std::vector{kernel.type} : std::vector<std::string>()},
      &slot,
      [&](const StableIValue* stack) {
        if (returns && slots::draw(kernel.type, stack[0]) != before) {
          throw std::runtime_error(
              describe_slot(kernel.type, stack[0]) + " came back for " + shown);
        }
      });
}

// Fails with `wrong`, unless it is "", and sends the learner to the place that
// the picture shows: `to` takes the argument, `from` makes the return.
inline void require_clean(const Kernel& kernel, const std::string& wrong) {
  const size_t fault = wrong.find("<-");
  const bool in_return = wrong.find(" return ", wrong.rfind('\n', fault)) <
      wrong.find('\n', fault);
  const bool in_argument = fault != std::string::npos && !in_return;
  const bool in_to = in_argument || wrong.rfind("torch_string_", 0) == 0;
  INFO("look at ", in_to ? kernel.to : kernel.from);
  REQUIRE_CLEAN(wrong);
}

// Requires that nothing is left behind, whichever allocation of a call fails.
inline void check_without_memory(
    const Kernel& kernel, const Make& make, bool returns = true) {
  require_clean(kernel, watch({}, [&](Watch& watched) {
                  const Ledger::Pause pause;
                  for (int n = 0;; ++n) {
                    thrown([&] {
                      call_watched(watched, kernel, make, returns, [n] {
                        Ledger::fail_after(n);
                      });
                    });
                    if (Ledger::fail_after(-1)) {
                      break; // the call has succeeded
                    }
                    watched.require_clean();
                  }
                }));
}

// Requires that the kernel empties its argument once, returns a new slot that
// holds the same, and leaves nothing behind.
inline void check_echoed(const Kernel& kernel, const Make& make) {
  require_clean(kernel, watch({}, [&](Watch& watched) {
                  call_watched(watched, kernel, make, true);
                }));
}
inline void check_echoed_while_unwinding(
    const Kernel& kernel, const Make& make) {
  require_clean(kernel, watch({}, [&](Watch& watched) {
                  const std::string text = thrown_while_unwinding(
                      [&] { call_watched(watched, kernel, make, true); });
                  if (!text.empty()) {
                    throw std::runtime_error(text);
                  }
                }));
}
inline void check_released(const Kernel& kernel, const Make& make) {
  require_clean(kernel, watch({}, [&](Watch& watched) {
                  call_watched(watched, kernel, make, false);
                }));
}

// Requires that a call throws and leaves nothing behind if the n-th call of a
// shim fails. It may succeed if `may_succeed`, and `release` must not throw.
inline void check_failure(
    const Shim& shim,
    const Kernel& kernel,
    const Make& make,
    int n = 1,
    bool may_succeed = false) {
  const bool throws = !may_succeed && kernel.op.rfind("release", 0) != 0;
  const Replaced in_library(
      reinterpret_cast<const void*>(kernel_of(kernel.op)),
      shim.name,
      shim.instead);
  require_clean(
      kernel, watch({}, [&](Watch& watched) {
        const std::string text = thrown([&] {
          call_watched(watched, kernel, make, may_succeed, [&] {
            calls_until_failure = n;
          });
        });
        calls_until_failure = 0;
        if (throws && text.empty()) {
          throw std::runtime_error(
              std::string(shim.name) +
              " failed, and the code that it returned was not looked at");
        }
        if (text.find(" came back for ") != std::string::npos) {
          throw std::runtime_error(text);
        }
      }));
}
// Requires that `to` does not cut a size down to 32 bits.
inline void check_not_cut(const Shim& longer, Kernel kernel, const Make& make) {
  kernel.from = kernel.to;
  check_failure(longer, kernel, make, 1, true);
}
// Lets each of the first calls fail in turn. `release` may call the shim in
// vain after them.
inline void check_failures(
    int first, const Shim& shim, const Kernel& kernel, const Make& make) {
  {
    const Replaced in_library(
        reinterpret_cast<const void*>(kernel_of(kernel.op)),
        shim.name,
        shim.instead);
    calls = 0;
    StableIValue slot = make();
    kernel_of(kernel.op)(&slot, 1, 1);
    if (kernel.op.rfind("release", 0) != 0) {
      slots::release(kernel.type, slot);
    }
  }
  for (int n = std::min(first, calls); n > 0; --n) {
    check_failure(shim, kernel, make, n);
  }
}
// Lets each of the first calls fail in turn, with all calls that follow it.
inline void check_failures_for_good(
    int first, const Shim& shim, const Kernel& kernel, const Make& make) {
  for_good = true;
  check_failures(first, shim, kernel, make);
  for_good = false;
}

// Requires that a refused conversion leaves nothing behind. Returns its text.
inline std::string check_refused_value(const Kernel& kernel, const Make& make) {
  std::string text;
  require_clean(
      kernel, watch({}, [&](Watch& watched) {
        const Ledger::Pause pause;
        text = thrown([&] { call_watched(watched, kernel, make, false); });
      }));
  return text;
}

} // namespace workbook::chapter_02
