// 01 header-only types: silu_and_mul on dtypes, shapes and strides that come
// from headers alone. The library needs no libtorch, at link or at run time.
#include "dispatch.h"
#include "numerics.h"
#include "row_loop.h"
#include "silu_and_mul_row.h"
#include "sizes.h"

#include <torch/headeronly/core/TensorAccessor.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace wb {
namespace {

using torch::headeronly::HeaderOnlyTensorAccessor;

//! [rows]
// out is [rows, d] contiguous; input is [rows, 2d] with strides in elements.
template <typename T>
void silu_and_mul_rows(
    T* out,
    const T* input,
    IntHeaderOnlyArrayRef sizes,
    IntHeaderOnlyArrayRef strides) {
  const int64_t d = sizes[1] / 2;
  const int64_t bytes = sizes[0] * d * static_cast<int64_t>(sizeof(T));
  const bool non_temporal = bytes > kMaxCachedBytes;
  // TODO(01.7): read `input` through an accessor, which obeys the strides.
  STD_TORCH_CHECK(
      strides.equals({sizes[1], 1}), "TODO(01.7): obey ", to_string(strides));
  for (int64_t row = 0; row < sizes[0]; ++row, out += d) {
    const T* gate = input + row * sizes[1];
    silu_and_mul_row(out, gate, gate + d, d, non_temporal);
  }
  non_temporal_fence();
}
//! [rows]

} // namespace
} // namespace wb

// What the tests and the benchmark call. Each throws std::runtime_error on an
// argument that it does not take, and has then written nothing.
#define EXPORT extern "C" __attribute__((visibility("default")))

// The value of 16 bits, taken as a BFloat16.
EXPORT float wb01_widen_bfloat16(uint16_t bits) {
  return wb::widen_bfloat16(bits);
}

// The bits of the nearest BFloat16.
EXPORT uint16_t wb01_round_to_bfloat16(float value) {
  return wb::round_to_bfloat16(value).x;
}

// The bits of the nearest finite Float8_e5m2.
EXPORT uint8_t wb01_saturate_to_float8(float value) {
  return wb::saturate_to_float8(value).x;
}

// silu(gate) * up on the bits of one BFloat16, or Half, each.
EXPORT uint16_t wb01_silu_and_mul_bfloat16(uint16_t gate, uint16_t up) {
  using wb::BFloat16;
  return wb::silu_and_mul(
             BFloat16(gate, BFloat16::from_bits()),
             BFloat16(up, BFloat16::from_bits()))
      .x;
}

EXPORT uint16_t wb01_silu_and_mul_half(uint16_t gate, uint16_t up) {
  using torch::headeronly::Half;
  return wb::silu_and_mul(
             Half(gate, Half::from_bits()), Half(up, Half::from_bits()))
      .x;
}

// silu(gate) * up.
EXPORT double wb01_silu_and_mul_double(double gate, double up) {
  return wb::silu_and_mul(gate, up);
}

// Writes the `ndim` sizes of the result of silu_and_mul to `out`.
EXPORT void wb01_output_sizes(int64_t* out, const int64_t* sizes, size_t ndim) {
  const auto result = wb::output_sizes({sizes, ndim});
  std::copy(result.begin(), result.end(), out);
}

// out[rows, d] = silu(input[:, :d]) * input[:, d:]. `input` is [rows, 2d] with
// `strides` in elements and may be a view; `out` is contiguous. Both pointers
// are borrowed and may be null where there are no elements.
EXPORT void wb01_silu_and_mul(
    wb::ScalarType dtype,
    void* out,
    const void* input,
    const int64_t* sizes,
    const int64_t* strides,
    size_t ndim) {
  STD_TORCH_CHECK(ndim == 2, "input must have 2 dimensions, got ", ndim);
  const auto result = wb::output_sizes({sizes, ndim});
  const bool empty = result[0] * result[1] == 0;
  STD_TORCH_CHECK(empty || out != nullptr, "out must not be null");
  STD_TORCH_CHECK(empty || input != nullptr, "input must not be null");
  wb::dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (!empty) {
      wb::silu_and_mul_rows(
          static_cast<T*>(out),
          static_cast<const T*>(input),
          {sizes, ndim},
          {strides, ndim});
    }
  });
}
