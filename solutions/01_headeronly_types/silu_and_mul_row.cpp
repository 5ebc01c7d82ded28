// silu_and_mul over one row, for float, Half and BFloat16, in portable C++ that
// the compiler vectorises for SSE2, AVX2 and AVX-512 and chooses at load time.
// Build with -O2 or -O3, -fopenmp-simd and -fno-trapping-math.
#include "silu_and_mul_row.h"
#include "widen_narrow.h"

#include <torch/headeronly/util/bit_cast.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

// One machine-code copy of a function for each x86-64 level; the dynamic
// linker picks one. Elsewhere the compiler's baseline has to do.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
#define X86_64_LEVELS \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define X86_64_LEVELS
#endif

using torch::headeronly::BFloat16;
using torch::headeronly::Half;

namespace {

//! [silu]
// x / (1 + e^-x), as ATen defines it: NaN at -inf, -0 where e^-x overflows.
// e^-x is Cephes' expf: reduce by n * ln 2 in two parts, a polynomial of degree
// 7 on [-ln2/2, ln2/2], then n goes into the exponent field. The clamps are on
// integers because GCC 12 does not vectorise float ones.
inline float silu(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  const uint32_t magnitude = std::min(bits & 0x7fffffffu, 0x42b20000u); // 89
  const float minus_x = bit_cast<float>(magnitude | (~bits & 0x80000000u));
  constexpr float kRound = 0x1.8p23f; // adding it leaves an integer
  const float shifted = minus_x * 0x1.715476p0f + kRound;
  const float n = shifted - kRound;
  const float r = (minus_x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const int32_t exponent = bit_cast<int32_t>(shifted) - 0x4b400000;
  const int32_t power = bit_cast<int32_t>(p) + exponent * (1 << 23);
  const int32_t clamped = std::min(std::max(power, 0), 0x7f800000); // 0 .. inf
  return x / (1.0f + bit_cast<float>(clamped));
}
//! [silu]

template <class T>
[[gnu::always_inline]] inline void span(
    T* out, const T* gate, const T* up, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    narrow(silu(widen(gate[i])) * widen(up[i]), out[i]);
  }
}

template <class T>
[[gnu::always_inline]] inline void whole_row(
    T* out, const T* gate, const T* up, int64_t d, bool streaming) {
  int64_t i = 0;
#if defined(__x86_64__)
  // Compute a tile in L1, then write it past the cache: a plain store would
  // first read `out` from memory. Streaming stores want 16-byte alignment.
  constexpr int64_t kSize = sizeof(T);
  constexpr int64_t kTile = 256 / kSize;
  constexpr int64_t kAhead = 2048 / kSize;
  if (streaming) {
    const int64_t misaligned = reinterpret_cast<uintptr_t>(out) % 16;
    i = std::min<int64_t>(d, (16 - misaligned) % 16 / kSize);
    span(out, gate, up, i);
    for (; i + kTile <= d; i += kTile) {
      alignas(64) T tile[kTile];
      for (int64_t line = 0; line < kTile; line += 64 / kSize) {
        __builtin_prefetch(gate + i + kAhead + line);
        __builtin_prefetch(up + i + kAhead + line);
      }
      span(tile, gate + i, up + i, kTile);
      for (int64_t j = 0; j < kTile; j += 16 / kSize) {
        __m128i lane;
        std::memcpy(&lane, tile + j, 16);
        _mm_stream_si128(reinterpret_cast<__m128i*>(out + i + j), lane);
      }
    }
  }
#else
  (void)streaming; // plain stores
#endif
  span(out + i, gate + i, up + i, d - i);
}

// Internal, because the clones of an exported function ignore -fvisibility.
X86_64_LEVELS void by_level(
    float* out, const float* gate, const float* up, int64_t d, bool streaming) {
  whole_row(out, gate, up, d, streaming);
}
X86_64_LEVELS void by_level(
    Half* out, const Half* gate, const Half* up, int64_t d, bool streaming) {
  whole_row(out, gate, up, d, streaming);
}
X86_64_LEVELS void by_level(
    BFloat16* out,
    const BFloat16* gate,
    const BFloat16* up,
    int64_t d,
    bool streaming) {
  whole_row(out, gate, up, d, streaming);
}

} // namespace

void silu_and_mul_row(
    float* out, const float* gate, const float* up, int64_t d, bool streaming) {
  by_level(out, gate, up, d, streaming);
}
void silu_and_mul_row(
    Half* out, const Half* gate, const Half* up, int64_t d, bool streaming) {
  by_level(out, gate, up, d, streaming);
}
void silu_and_mul_row(
    BFloat16* out,
    const BFloat16* gate,
    const BFloat16* up,
    int64_t d,
    bool streaming) {
  by_level(out, gate, up, d, streaming);
}

void silu_and_mul_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}
