// The rows of the instruction set that the including file is compiled for.
#pragma once

#include "formulas.h"
#include "rows.h"

namespace {

template <class A, bool kSwapped = false>
struct AndMul {
  static constexpr bool kInTurns = false;
  explicit AndMul(const Numbers&) {}
  template <class T, class V>
  INLINE V call(V gate, V up) const {
    return kSwapped ? gate * A::template call<T>(up)
                    : A::template call<T>(gate) * up;
  }
};

struct FatreluAndMul {
  static constexpr bool kInTurns = false;
  explicit FatreluAndMul(const Numbers& numbers)
      : threshold(numbers.threshold) {}
  template <class T, class V>
  INLINE V call(V gate, V up) const {
    return above(gate, splat<V>(threshold)) * up;
  }
  double threshold;
};

struct SiluAndMulWithClamp {
  static constexpr bool kInTurns = false;
  explicit SiluAndMulWithClamp(const Numbers& numbers) : limit(numbers.limit) {}
  template <class T, class V>
  INLINE V call(V gate, V up) const {
    gate = min(splat<V>(limit), gate);
    up = max(splat<V>(-limit), min(splat<V>(limit), up));
    return Silu::call<T>(gate) * up;
  }
  double limit;
};

struct SwigluoaiAndMul {
  static constexpr bool kInTurns = true;
  explicit SwigluoaiAndMul(const Numbers& numbers)
      : alpha(numbers.alpha), limit(numbers.limit) {}
  template <class T, class V>
  INLINE V call(V gate, V up) const {
    gate = min(splat<V>(limit), gate);
    up = max(splat<V>(-limit), min(splat<V>(limit), up));
    return times_sigmoid<T>(gate, gate * splat<V>(alpha)) * (up + splat<V>(1));
  }
  double alpha;
  double limit;
};

template <class A>
struct Alone {
  static constexpr bool kInTurns = false;
  explicit Alone(const Numbers&) {}
  template <class T, class V>
  INLINE V call(V x, V) const {
    return A::template call<T>(x);
  }
};

template <class A, class T>
INLINE auto lanes_at(const A& op, const T* first, const T* second) {
  using V = LanesOf<T>;
  V x, y;
#if defined(__AVX2__)
  if constexpr (A::kInTurns) {
    deinterleave(load(first), load(first + V::kLanes), x, y);
  } else
#endif
  {
    x = load(first);
    y = load(second);
  }
  return narrow(op.template call<T>(x, y), T());
}

#if defined(__AVX2__)
// Fewer than a vector go through one of our own, so that nothing outside of the
// row is touched.
template <class A, class T>
INLINE void few(
    const A& op, T* out, const T* first, const T* second, int64_t count) {
  constexpr int64_t kLanes = LanesOf<T>::kLanes;
  T a[2 * kLanes] = {};
  T b[kLanes] = {};
  T y[kLanes];
  const size_t bytes = static_cast<size_t>(count) * sizeof(T);
  std::memcpy(a, first, A::kInTurns ? 2 * bytes : bytes);
  if (!A::kInTurns) {
    std::memcpy(b, second, bytes);
  }
  put(y, lanes_at(op, a, b));
  std::memcpy(out, y, bytes);
}
#endif

template <class A, class T>
void row(
    void* out_,
    const void* first_,
    const void* second_,
    int64_t n,
    const Numbers& numbers,
    bool past_cache) {
  const A op(numbers);
  T* out = static_cast<T*>(out_);
  const T* first = static_cast<const T*>(first_);
  constexpr int64_t kStep = A::kInTurns ? 2 : 1;
  const T* second = A::kInTurns ? first + 1 : static_cast<const T*>(second_);
  int64_t i = 0;
#if defined(__AVX2__)
  constexpr int64_t kLanes = LanesOf<T>::kLanes;
  constexpr int64_t kSize = sizeof(T);
  constexpr int64_t kAhead = 2048 / kSize;
  if (past_cache && n >= kLanes) { // streaming stores want alignment
    const auto address = reinterpret_cast<uintptr_t>(out);
    i = static_cast<int64_t>(-address % (kLanes * kSize)) / kSize;
    few(op, out, first, second, i);
    for (; i + kLanes <= n; i += kLanes) {
      __builtin_prefetch(first + kStep * i + kAhead);
      __builtin_prefetch(second + kStep * i + kAhead);
      stream(out + i, lanes_at(op, first + kStep * i, second + kStep * i));
    }
  }
  for (; i + kLanes <= n; i += kLanes) {
    put(out + i, lanes_at(op, first + kStep * i, second + kStep * i));
  }
  few(op, out + i, first + kStep * i, second + kStep * i, n - i);
#else
  (void)past_cache;
#pragma omp simd
  for (i = 0; i < n; ++i) {
    put(out + i, lanes_at(op, first + kStep * i, second + kStep * i));
  }
#endif
}

template <class A>
constexpr void set(Row (&rows)[kDtypes]) {
  rows[kFloat] = row<A, float>;
  rows[kHalf] = row<A, Half>;
  rows[kBFloat16] = row<A, BFloat16>;
}

constexpr Level make_level(const char* name) {
  Level level{name, {}};
  set<AndMul<Silu>>(level.rows[kSiluAndMul]);
  set<AndMul<Silu, true>>(level.rows[kMulAndSilu]);
  set<AndMul<Gelu>>(level.rows[kGeluAndMul]);
  set<AndMul<GeluTanh>>(level.rows[kGeluTanhAndMul]);
  set<FatreluAndMul>(level.rows[kFatreluAndMul]);
  set<SiluAndMulWithClamp>(level.rows[kSiluAndMulWithClamp]);
  set<SwigluoaiAndMul>(level.rows[kSwigluoaiAndMul]);
  set<Alone<Silu>>(level.rows[kSilu]);
  set<Alone<Gelu>>(level.rows[kGelu]);
  set<Alone<GeluTanh>>(level.rows[kGeluTanh]);
  set<Alone<GeluTanh>>(level.rows[kGeluNew]);
  set<Alone<GeluTanh>>(level.rows[kGeluFast]);
  set<Alone<GeluQuick>>(level.rows[kGeluQuick]);
  return level;
}

} // namespace
