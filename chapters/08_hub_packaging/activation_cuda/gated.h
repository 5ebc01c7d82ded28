// The kernel, for the GPU and for the host: which vectors a thread takes, what
// it reads, computes and writes. For nvcc and any C++17 compiler; no torch.
#pragma once

#include "functors.h"

#include <cstdint>

namespace activation {

//! [problem]
// A vector's row, and its number within the row.
struct Place {
  uint32_t row, column;
};

// A GPU has no instruction for a division; this is a multiplication.
class Rows {
 public:
  explicit Rows(uint32_t vectors)
      : vectors_(vectors), reciprocal_(~uint32_t{0} / vectors) {}

  HOST_DEVICE Place operator()(uint32_t v) const {
    // Rounded down twice: at most 1 too small.
    const auto row = static_cast<uint32_t>(uint64_t{v} * reciprocal_ >> 32);
    const uint32_t column = v - row * vectors_;
    return column < vectors_ ? Place{row, column}
                             : Place{row + 1, column - vectors_};
  }

 private:
  uint32_t vectors_; // in a row
  uint32_t reciprocal_;
};

// What one launch works on: `vectors` vectors of equal width, numbered row by
// row, at most 2^31. Elements may be more: their offsets have 64 bits.
struct Problem {
  const void* input; // row r begins at element r * stride
  void* out;         // rows without gaps
  int64_t stride;
  uint32_t vectors;
  Rows place;
};

// blockIdx.x, threadIdx.x and blockDim.x of one thread of a launch.
struct Thread {
  uint32_t block, thread, threads;
};
//! [problem]

//! [vector]
// Read and written by one instruction: at an address that is a multiple of it.
template <class T, int N>
struct alignas(N * sizeof(T)) Vector {
  T at[N];
};

template <class T, int N>
HOST_DEVICE Vector<T, N> load(const T* from) {
  HOST_CHECK(
      reinterpret_cast<uintptr_t>(from) % sizeof(Vector<T, N>) == 0,
      "a vector is read at an address that is no multiple of its size");
  return *reinterpret_cast<const Vector<T, N>*>(from);
}

template <class T, int N>
HOST_DEVICE void store(T* to, const Vector<T, N>& vector) {
  HOST_CHECK(
      reinterpret_cast<uintptr_t>(to) % sizeof(Vector<T, N>) == 0,
      "a vector is written at an address that is no multiple of its size");
  *reinterpret_cast<Vector<T, N>*>(to) = vector;
}
//! [vector]

// How a row is read: N elements of each half of [..., 2d]. Another layout is
// another struct with the same two members.
struct Halves {
  int64_t gate, up; // where in a row they begin: 0 and d, or d and 0

  template <class T, int N>
  struct Operands {
    Vector<T, N> gate, up;

    template <class F>
    HOST_DEVICE float apply(const F& f, int i) const {
      return f(
          math_for<T>(),
          static_cast<float>(gate.at[i]),
          static_cast<float>(up.at[i]));
    }
  };

  template <class T, int N>
  HOST_DEVICE Operands<T, N> read(const T* row, int64_t column) const {
    return {load<T, N>(row + gate + column), load<T, N>(row + up + column)};
  }
};

//! [vector_of]
// The k-th vector of a thread: neighbours take neighbouring vectors, so that
// what a warp reads at once lies side by side.
HOST_DEVICE inline uint32_t vector_of(
    const Thread& self, uint32_t k, uint32_t in_flight) {
  return (self.block * in_flight + k) * self.threads + self.thread;
}
//! [vector_of]

//! [run_thread]
// What one thread does: K vectors of N elements.
template <class T, int N, uint32_t K, class Layout, class F>
HOST_DEVICE void run_thread(
    const Problem& p, const Layout& layout, const F& f, const Thread& self) {
  using Operands = typename Layout::template Operands<T, N>;

  // Past the end it reads the last vector again: with a branch here the
  // compiler would wait for one read before it begins the next.
  const auto read = [&](uint32_t k) {
    const uint32_t v = vector_of(self, k, K);
    const Place at = p.place(v < p.vectors ? v : p.vectors - 1);
    const T* row = static_cast<const T*>(p.input) + at.row * p.stride;
    return layout.template read<T, N>(row, int64_t{at.column} * N);
  };
  const auto write = [&](uint32_t k, const Operands& operands) {
    Vector<T, N> result;
    UNROLL
    for (int i = 0; i < N; ++i) {
      result.at[i] = static_cast<T>(operands.apply(f, i));
    }
    const uint32_t v = vector_of(self, k, K);
    if (v < p.vectors) {
      store(static_cast<T*>(p.out) + int64_t{v} * N, result);
    }
  };

  // All reads are on their way before the first result is computed.
  Operands operands[K];
  UNROLL
  for (uint32_t k = 0; k < K; ++k) {
    operands[k] = read(k);
  }
  UNROLL
  for (uint32_t k = 0; k < K; ++k) {
    write(k, operands[k]);
  }
}
//! [run_thread]

} // namespace activation
