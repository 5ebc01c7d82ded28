// C++ functions of right and of wrong types, which the test program of chapter
// 04 registers itself to show what TORCH_BOX checks and what it loses.
#pragma once

#include "testing/asan.h"
#include "testing/checks.h"
#include "testing/ledger.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#if WORKBOOK_ASAN
#include <sanitizer/lsan_interface.h>
#endif

#include <cstddef>
#include <cstdint>

namespace workbook::chapter_04 {

using c10::ScalarType;
using torch::stable::Tensor;

inline float arrived = 0;
inline float half_of_a_double(float value) {
  arrived = value;
  return value;
}
inline double a_double(double value) {
  return value;
}
inline int32_t half_of_an_int(int32_t value) {
  return value;
}
inline int64_t an_int(int64_t value) {
  return value;
}
inline int64_t two_and_dtype(const Tensor&, const Tensor&, ScalarType) {
  return 0;
}
inline int64_t dtype_and_two(ScalarType, const Tensor&, const Tensor&) {
  return 0;
}
inline int64_t throw_error(const Tensor&, const Tensor&) {
  STD_TORCH_CHECK(false, "thrown by the body");
}

// While it lives, LeakSanitizer ignores new allocations.
struct LeaksIgnored {
#if WORKBOOK_ASAN
  LeaksIgnored() {
    __lsan_disable();
  }
  ~LeaksIgnored() {
    __lsan_enable();
  }
#endif
};

// Returns the number of blocks that a second call of an op leaves allocated.
template <class Call>
size_t count_lost(const Call& call) {
  [[maybe_unused]] const LeaksIgnored ignored;
  CHECK(
      refusal(call) !=
      "(nothing was thrown)"); // the first call fills libtorch's caches
  const Ledger ledger;
  refusal(call);
  return Ledger::alive();
}

} // namespace workbook::chapter_04
