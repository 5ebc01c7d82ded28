// The kernels: what one thread of a launch does. CUDA's own words, no torch; a
// test runs them on the host, one thread after the other.
#pragma once

#include "arithmetic.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
namespace wb::cuda {

constexpr int kThreads = 128; // of a block

// Widened, computed in float, rounded once.
template <typename T, typename F>
__device__ T apply(const F& f, T gate, T up) {
  return static_cast<T>(
      f(math_for<T>(), static_cast<float>(gate), static_cast<float>(up)));
}

//! [plain]
// An element a thread: for any strides, and as many elements as there may be.
template <typename T, typename F>
__global__ void plain(
    const T* gate,
    const T* up,
    T* out, // n elements, without gaps
    int64_t row_stride,
    int64_t column_stride,
    int64_t d,
    int64_t n,
    F f) {
  KERNEL_ASSERT(!"TODO(07.1): this thread's element, if it has one");
  (void)gate, (void)up, (void)out, (void)row_stride, (void)column_stride;
  (void)d, (void)n, (void)f;
}
//! [plain]

//! [fast_divmod]
// Divides by a number that is known before the launch. A GPU has no instruction
// for a division; this is a multiplication.
class FastDivmod {
 public:
  struct Result {
    uint32_t quotient, remainder;
  };

  explicit FastDivmod(uint32_t divisor)
      : divisor_(divisor), reciprocal_(~uint32_t{0} / divisor) {}

  __device__ Result operator()(uint32_t n) const {
    KERNEL_ASSERT(!"TODO(07.3): the same by reciprocal_, not divided");
    return {n / divisor_, n % divisor_ + 0 * reciprocal_};
  }

 private:
  uint32_t divisor_;
  uint32_t reciprocal_;
};
//! [fast_divmod]

//! [vector]
// Read and written by one instruction: at an address that is a multiple of it.
template <typename T, int N>
struct alignas(N * sizeof(T)) Vector {
  T at[N];
};

template <typename T, int N>
__device__ Vector<T, N> load(const T* from) {
  KERNEL_ASSERT(reinterpret_cast<uintptr_t>(from) % sizeof(Vector<T, N>) == 0);
  return *reinterpret_cast<const Vector<T, N>*>(from);
}

template <typename T, int N>
__device__ void store(T* to, const Vector<T, N>& vector) {
  KERNEL_ASSERT(reinterpret_cast<uintptr_t>(to) % sizeof(Vector<T, N>) == 0);
  *reinterpret_cast<Vector<T, N>*>(to) = vector;
}
//! [vector]

// What one launch works on: `vectors` vectors of the result, numbered row by
// row, at most 2^31. Elements may be more: their offsets have 64 bits.
template <typename T>
struct Params {
  const T* gate; // row r begins at element r * row_stride
  const T* up;
  T* out; // without gaps
  int64_t row_stride;
  uint32_t vectors;
  FastDivmod in_row; // divides by the vectors in a row
};

//! [split]
// The operands of N elements: gate in one half of a row, up in the other.
// Another layout of a row is another struct with these three functions.
template <typename T, int N>
struct Split {
  static __device__ Split
  read(const Params<T>& p, uint32_t row, int64_t column) {
    const int64_t from = row * p.row_stride + column;
    return {load<T, N>(p.gate + from), load<T, N>(p.up + from)};
  }
  __device__ T gate(int i) const {
    return gates.at[i];
  }
  __device__ T up(int i) const {
    return ups.at[i];
  }

  Vector<T, N> gates, ups;
};
//! [split]

//! [vectorized]
// A vector of N elements a thread. Neighbours take neighbouring vectors, so
// that what a warp reads at once lies side by side.
template <typename T, int N, template <typename, int> class Layout, typename F>
__global__ void __launch_bounds__(kThreads)
    vectorized(const Params<T> p, const F f) {
  KERNEL_ASSERT(!"TODO(07.5): this thread's vector, if it has one");
  (void)p, (void)f;
}
//! [vectorized]

} // namespace wb::cuda
#pragma GCC visibility pop
