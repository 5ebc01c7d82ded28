// Calls of the functions that the library of chapter 01 exports, and what no
// call may change: static variables, and the mode of the processor.
#pragma once

#include "testing/checks.h"
#include "testing/library.h"
#include "testing/symbols.h"

#include <doctest/doctest.h>

#include <torch/headeronly/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <vector>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace workbook::chapter_01 {

using c10::ScalarType;

// Returns how the thread rounds and flushes subnormals, on x86-64 only.
inline unsigned float_mode() {
#ifdef __SSE__
  return _mm_getcsr() & ~0x3fu; // without the flags of past exceptions
#else
  return 0;
#endif
}

// While it lives, the thread flushes subnormal floats to 0, as it does after
// torch.set_flush_denormal(True). No call may change this mode. It works on
// x86-64 only.
class Flushing {
#ifdef __SSE__
 public:
  Flushing() {
    _mm_setcsr(before_ | 0x8040);
  }
  ~Flushing() {
    const bool changes_the_mode_of_the_processor =
        (_mm_getcsr() & 0x8040) != 0x8040;
    _mm_setcsr(before_);
    CHECK_FALSE(changes_the_mode_of_the_processor);
  }

 private:
  unsigned before_ = _mm_getcsr();
#else
 public:
  Flushing() {}
  ~Flushing() {}
#endif
};

// Requires that calls of `call(i)` change no static variable of the library,
// where another thread would find the change, and no mode of the processor.
template <class Call>
void check_keeps_nothing(const Call& call) {
  const void* const inside = library_symbol("wb01_silu_and_mul");
  for (int i = 0; i < 8; ++i) {
    call(i); // the first calls may initialise static variables
  }
  const uint64_t before = static_checksum(inside);
  for (int i = 0; i < 8; ++i) {
    const unsigned mode = float_mode();
    call(i);
    const bool changes_the_mode_of_the_processor = float_mode() != mode;
    CHECK_FALSE(changes_the_mode_of_the_processor);
    const bool changes_a_static_variable = static_checksum(inside) != before;
    INFO("all threads share it, and another one would find it there");
    CHECK_FALSE(changes_a_static_variable);
  }
}

// Returns the text that an export throws, which must be a std::runtime_error.
template <class Call>
doctest::String catch_error(const Call& call) {
  return refusal([&] {
    try {
      call();
    } catch (const std::runtime_error&) {
      throw;
    } catch (const std::exception&) {
      throw std::runtime_error("(another exception than std::runtime_error)");
    }
  });
}

// Calls the exported silu_and_mul.
inline void silu_and_mul(
    ScalarType dtype,
    void* out,
    const void* input,
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& strides) {
  using Signature = void(
      ScalarType, void*, const void*, const int64_t*, const int64_t*, size_t);
  function<Signature>("wb01_silu_and_mul")(
      dtype, out, input, sizes.data(), strides.data(), sizes.size());
}

template <class T>
void silu_and_mul(
    T* out,
    const T* input,
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& strides) {
  silu_and_mul(c10::CppTypeToScalarType<T>::value, out, input, sizes, strides);
}

// Returns the text by which silu_and_mul refuses these arguments.
inline doctest::String refuse(
    ScalarType dtype,
    void* out,
    const void* input,
    const std::vector<int64_t>& sizes) {
  const std::vector<int64_t> strides(sizes.size(), 1);
  return catch_error([&] { silu_and_mul(dtype, out, input, sizes, strides); });
}

using Sizes = std::vector<int64_t>;

// Returns the sizes of the result, computed by the exported output_sizes.
inline Sizes output_sizes(Sizes sizes) {
  const Sizes before = sizes;
  Sizes out(sizes.size() + 1, -1);
  function<void(int64_t*, const int64_t*, size_t)>("wb01_output_sizes")(
      out.data(), sizes.data(), sizes.size());
  CHECK(out.back() == -1); // the call has not written past the sizes
  CHECK(sizes == before);  // the call has not changed its input
  out.pop_back();
  return out;
}

} // namespace workbook::chapter_01
