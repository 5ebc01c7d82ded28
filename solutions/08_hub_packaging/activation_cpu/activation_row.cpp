#include "activation_row.h"
#include "formulas.h"
#include "row_loop.h"
#include "widen_narrow.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace wb {
namespace {

//! [row]
// How the operands lie, each with what it reads of a row for one result.
struct Split {
  static constexpr int kStride = 1;
  static constexpr bool kUnary = false;
};
struct Interleaved {
  static constexpr int kStride = 2;
  static constexpr bool kUnary = false;
};
struct Unary {
  static constexpr int kStride = 1;
  static constexpr bool kUnary = true;
};

template <typename T>
[[gnu::always_inline]] inline void widen_tile(
    const T* from, float* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    to[i] = widen(from[i]);
  }
}
[[gnu::always_inline]] inline void widen_tile(
    const Half* from, float* to, int64_t n) {
  widen(from, to, n);
}
template <typename T>
[[gnu::always_inline]] inline void narrow_tile(
    const float* from, T* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    narrow(from[i], to[i]);
  }
}
[[gnu::always_inline]] inline void narrow_tile(
    const float* from, Half* to, int64_t n) {
  narrow(from, to, n);
}

[[gnu::always_inline]] inline BFloat16 low_half(uint32_t word) {
  return {static_cast<uint16_t>(word), BFloat16::from_bits()};
}
[[gnu::always_inline]] inline BFloat16 high_half(uint32_t word) {
  return {static_cast<uint16_t>(word >> 16), BFloat16::from_bits()};
}

template <typename T, typename F, typename Layout>
struct Row {
  static constexpr int kStride = Layout::kStride;
  const F f;

  //! [pairs]
  // Two BFloat16 lie in a word of 32 bits, whose halves a shift and a mask
  // widen: a loop over one after the other has shuffles as well.
  [[gnu::always_inline]] void pairs(
      T* out, const T* gate, const T* up, int64_t n) const {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      uint32_t x = 0;
      uint32_t y = 0x3f803f80; // 1 and 1
      std::memcpy(&x, gate + 2 * i, sizeof(x));
      if (!Layout::kUnary) {
        std::memcpy(&y, up + 2 * i, sizeof(y));
      }
      T low;
      T high;
      narrow(f(T(), widen(low_half(x)), widen(low_half(y))), low);
      narrow(f(T(), widen(high_half(x)), widen(high_half(y))), high);
      const uint32_t both = low.x | static_cast<uint32_t>(high.x) << 16;
      std::memcpy(out + 2 * i, &both, sizeof(both));
    }
  }
  //! [pairs]

  // I is T, or float for what was widened before; so is O.
  template <typename O, typename I>
  [[gnu::always_inline]] void loop(
      O* out, const I* gate, const I* up, int64_t n) const {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float right = Layout::kUnary ? 1 : widen(up[i * kStride]);
      narrow(f(T(), widen(gate[i * kStride]), right), out[i]);
    }
  }

  [[gnu::always_inline]] void span(
      T* out, const T* gate, const T* up, int64_t n) const {
    int64_t i = 0;
    if constexpr (std::is_same_v<T, BFloat16> && kStride == 1) {
      pairs(out, gate, up, n / 2);
      i = n - n % 2;
    } else if constexpr (std::is_same_v<T, Half> || kStride == 2) {
      // By way of float, tile by tile: where the processor converts Half, and
      // to take gate and up apart.
      constexpr int64_t kSize = kTile<T>;
      const bool by_tile = !std::is_same_v<T, Half> || converts_half();
      for (; by_tile && i + kSize <= n; i += kSize) {
        alignas(64) float x[kSize * kStride];
        alignas(64) float y[kSize];
        widen_tile(gate + i * kStride, x, kSize * kStride);
        if (kStride == 1 && !Layout::kUnary) {
          widen_tile(up + i, y, kSize);
        }
        loop(x, x, kStride == 1 ? y : x + 1, kSize);
        narrow_tile(x, out + i, kSize);
      }
    }
    loop(out + i, gate + i * kStride, up + i * kStride, n - i);
  }

  [[gnu::always_inline]] void operator()(
      T* out, const T* gate, const T* up, int64_t d, bool non_temporal) const {
    int64_t i = 0;
    if (non_temporal) {
      i = std::min(d, until_aligned(out));
      span(out, gate, up, i);
      for (; i + kTile<T> <= d; i += kTile<T>) {
        alignas(64) T tile[kTile<T>];
        for (int k = 0; k < kStride; ++k) {
          prefetch(gate + i * kStride + k * kTile<T>);
        }
        if (kStride == 1 && !Layout::kUnary) {
          prefetch(up + i);
        }
        span(tile, gate + i * kStride, up + i * kStride, kTile<T>);
        store_non_temporal(out + i, tile);
      }
    }
    span(out + i, gate + i * kStride, up + i * kStride, d - i);
  }
};
//! [row]

// Each op's own loops.
template <typename T>
X86_64_LEVELS void any_row(
    const RowOp& op, T* out, const T* gate, const T* up, int64_t d, bool nt) {
  const Options& p = op.options;
  switch (op.kind) {
    case OpKind::kSiluAndMul:
      return Row<T, SiluAndMul, Split>{}(out, gate, up, d, nt);
    case OpKind::kGeluAndMul:
      return Row<T, GeluAndMul, Split>{}(out, gate, up, d, nt);
    case OpKind::kGeluTanhAndMul:
      return Row<T, GeluTanhAndMul, Split>{}(out, gate, up, d, nt);
    case OpKind::kFatreluAndMul:
      return Row<T, FatreluAndMul, Split>{{p.threshold}}(out, gate, up, d, nt);
    case OpKind::kSiluAndMulWithClamp:
      return Row<T, SiluAndMulWithClamp, Split>{{p.limit}}(
          out, gate, up, d, nt);
    case OpKind::kSwigluoaiAndMul:
      return Row<T, SwigluoaiAndMul, Interleaved>{{p.alpha, p.limit}}(
          out, gate, up, d, nt);
    case OpKind::kSilu:
      return Row<T, SiluAndMul, Unary>{}(out, gate, up, d, nt);
    case OpKind::kGelu:
      return Row<T, GeluAndMul, Unary>{}(out, gate, up, d, nt);
    case OpKind::kGeluTanh:
      return Row<T, GeluTanhAndMul, Unary>{}(out, gate, up, d, nt);
    case OpKind::kGeluQuick:
      return Row<T, GeluQuickAndMul, Unary>{}(out, gate, up, d, nt);
  }
}

} // namespace

template <typename T>
void activation_row(
    const RowOp& op,
    T* out,
    const T* gate,
    const T* up,
    int64_t d,
    bool non_temporal) {
  any_row(op, out, gate, up, d, non_temporal);
}

template void activation_row(
    const RowOp&, float*, const float*, const float*, int64_t, bool);
template void activation_row(
    const RowOp&, Half*, const Half*, const Half*, int64_t, bool);
template void activation_row(
    const RowOp&, BFloat16*, const BFloat16*, const BFloat16*, int64_t, bool);

} // namespace wb
