// 01 header-only types: silu_and_mul on dtypes, shapes and strides that come
// from headers alone. The library needs no libtorch, at link or at run time.
#include "numerics.h"
#include "silu_and_mul_row.h"

#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/TensorAccessor.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using torch::headeronly::HeaderOnlyTensorAccessor;
using torch::headeronly::IntHeaderOnlyArrayRef;

namespace {

// A result larger than this, about one core's L2, is written past the cache.
constexpr int64_t kStreamingBytes = int64_t{1} << 20;

std::string to_string(IntHeaderOnlyArrayRef sizes) {
  std::ostringstream text;
  for (size_t i = 0; i < sizes.size(); ++i) {
    text << (i == 0 ? "[" : ", ") << sizes[i];
  }
  text << (sizes.empty() ? "[]" : "]");
  return text.str();
}

//! [output_sizes]
// [..., 2d] -> [..., d]. Throws unless the last size is even.
std::vector<int64_t> output_sizes(IntHeaderOnlyArrayRef sizes) {
  STD_TORCH_CHECK(
      !sizes.empty() && sizes.back() % 2 == 0,
      "sizes must end in an even number, got ",
      to_string(sizes));
  std::vector<int64_t> result = sizes.vec();
  result.back() /= 2;
  return result;
}
//! [output_sizes]

//! [rows]
// out is [rows, d] contiguous; input is [rows, 2d] with strides in elements.
template <class T>
void silu_and_mul_rows(
    T* out,
    const T* input,
    IntHeaderOnlyArrayRef sizes,
    IntHeaderOnlyArrayRef strides) {
  const int64_t d = sizes[1] / 2;
  const int64_t bytes = sizes[0] * d * static_cast<int64_t>(sizeof(T));
  const bool streaming = bytes > kStreamingBytes;
  const HeaderOnlyTensorAccessor<const T, 2> in(
      input, sizes.data(), strides.data());
  for (int64_t row = 0; row < in.size(0); ++row, out += d) {
    if (in.stride(1) == 1) {
      const T* gate = in[row].data();
      silu_and_mul_row(out, gate, gate + d, d, streaming);
    } else {
      for (int64_t i = 0; i < d; ++i) {
        out[i] = silu_and_mul<T>(in[row][i], in[row][i + d]);
      }
    }
  }
  silu_and_mul_fence();
}
//! [rows]

} // namespace

// What the tests and the benchmark call. Each throws std::runtime_error on an
// argument that it does not take, and has then written nothing.
#define EXPORT extern "C" __attribute__((visibility("default")))

// Bytes of one element of `dtype`.
EXPORT int64_t wb01_element_size(ScalarType dtype) {
  return element_size(dtype);
}

// The bits of the nearest BFloat16.
EXPORT uint16_t wb01_round_to_bfloat16(float value) {
  return round_to_bfloat16(value).x;
}

// The bits of the nearest finite Float8_e5m2.
EXPORT uint8_t wb01_saturate_to_float8(float value) {
  return saturate_to_float8(value).x;
}

// silu(gate) * up on the bits of one BFloat16 each.
EXPORT uint16_t wb01_silu_and_mul_bfloat16(uint16_t gate, uint16_t up) {
  return silu_and_mul(
             BFloat16(gate, BFloat16::from_bits()),
             BFloat16(up, BFloat16::from_bits()))
      .x;
}

// Writes the `ndim` sizes of the result of silu_and_mul to `out`.
EXPORT void wb01_output_sizes(int64_t* out, const int64_t* sizes, size_t ndim) {
  const auto result = output_sizes(IntHeaderOnlyArrayRef(sizes, ndim));
  std::copy(result.begin(), result.end(), out);
}

// out[rows, d] = silu(input[:, :d]) * input[:, d:]. `input` is [rows, 2d] with
// `strides` in elements and may be a view; `out` is contiguous. Both pointers
// are borrowed and may be null where there are no elements.
EXPORT void wb01_silu_and_mul(
    ScalarType dtype,
    void* out,
    const void* input,
    const int64_t* sizes,
    const int64_t* strides,
    size_t ndim) {
  STD_TORCH_CHECK(ndim == 2, "input must have 2 dimensions, got ", ndim);
  const IntHeaderOnlyArrayRef shape(sizes, ndim);
  const IntHeaderOnlyArrayRef steps(strides, ndim);
  const auto result = output_sizes(shape);
  const bool empty = result[0] * result[1] == 0;
  STD_TORCH_CHECK(empty || out != nullptr, "out must not be null");
  STD_TORCH_CHECK(empty || input != nullptr, "input must not be null");
  element_size(dtype); // refuses other dtypes by our message
  //! [dispatch]
  THO_DISPATCH_V2(
      dtype,
      "silu_and_mul",
      AT_WRAP([&] {
        silu_and_mul_rows(
            static_cast<scalar_t*>(out),
            static_cast<const scalar_t*>(input),
            shape,
            steps);
      }),
      ScalarType::Float,
      ScalarType::Half,
      ScalarType::BFloat16);
  //! [dispatch]
}
