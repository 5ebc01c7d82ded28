// What the loop of every row kernel needs beside its formula. Build the file
// that has the loop with -O2 or -O3, -fopenmp-simd and -fno-trapping-math.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

// One machine-code copy of a function for SSE2, AVX2 and AVX-512 each; the
// dynamic linker picks one. GCC 11 and Clang, which says it is GCC 4, take the
// compiler's baseline, as do other machines. For internal functions: others are
// exported, whatever -fvisibility says.
#if defined(__x86_64__) && defined(__GLIBC__) && __GNUC__ >= 12
#define X86_64_LEVELS \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define X86_64_LEVELS
#endif

namespace wb {

//! [non_temporal]
// A result of more bytes than this, about one core's L2, is better written past
// the cache: an ordinary store would first read its line from memory.
constexpr int64_t kMaxCachedBytes = int64_t{1} << 20;

// A row is then computed tile by tile, each in L1 before it is stored.
template <typename T>
constexpr int64_t kTile = 256 / int64_t{sizeof(T)};

// Elements before the first that such a store can take. None can where `out` is
// not aligned to an element, as torch.frombuffer with an odd offset makes it.
template <typename T>
int64_t until_aligned(const T* out) {
  const auto address = reinterpret_cast<uintptr_t>(out);
  if (address % sizeof(T) != 0) {
    return std::numeric_limits<int64_t>::max();
  }
  return static_cast<int64_t>((16 - address % 16) % 16 / sizeof(T));
}

// `out` is aligned to 16 bytes.
template <typename T>
void store_non_temporal(T* out, const T* tile) {
#if defined(__x86_64__)
  for (int64_t i = 0; i < kTile<T>; i += 16 / int64_t{sizeof(T)}) {
    __m128i lane;
    std::memcpy(&lane, tile + i, sizeof(lane));
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), lane);
  }
#else
  std::memcpy(out, tile, kTile<T> * sizeof(T));
#endif
}

// Must be called after the last store_non_temporal, before another thread
// reads.
inline void non_temporal_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// Begins to read the tile that is 2 KiB further on.
template <typename T>
void prefetch(const T* row) {
  constexpr int64_t kPrefetchDistance = 2048 / int64_t{sizeof(T)};
  for (int64_t i = 0; i < kTile<T>; i += 64 / int64_t{sizeof(T)}) {
    __builtin_prefetch(row + kPrefetchDistance + i);
  }
}
//! [non_temporal]

} // namespace wb
