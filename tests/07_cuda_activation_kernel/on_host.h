// The words of CUDA, for a compiler of the host: the kernels of the chapters 07
// and 08 are compiled by it, and run one thread after the other. Include it
// before them. What the hardware computes has the same edges here.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>

#define __device__
#define __forceinline__ inline
#define __global__
#define __host__
#define __launch_bounds__(threads)
#define KERNEL_ASSERT(condition)                       \
  do {                                                 \
    if (!(condition)) {                                \
      throw std::runtime_error("failed: " #condition); \
    }                                                  \
  } while (false)

namespace on_host {

struct Index {
  uint32_t x, y, z;
};

// The threads of the blocks [begin, end) of a launch of `blocks`.
template <typename... Parameters, typename... Arguments>
void run_part(
    uint64_t begin,
    uint64_t end,
    uint64_t blocks,
    uint32_t threads,
    void (*kernel)(Parameters...),
    const Arguments&... arguments);

// The last ones.
template <typename... Parameters, typename... Arguments>
void run(
    uint64_t begin,
    uint64_t end,
    uint32_t threads,
    void (*kernel)(Parameters...),
    const Arguments&... arguments) {
  run_part(begin, end, end, threads, kernel, arguments...);
}

} // namespace on_host

inline on_host::Index blockIdx, threadIdx, blockDim, gridDim;

template <typename... Parameters, typename... Arguments>
void on_host::run_part(
    uint64_t begin,
    uint64_t end,
    uint64_t blocks,
    uint32_t threads,
    void (*kernel)(Parameters...),
    const Arguments&... arguments) {
  gridDim = {static_cast<uint32_t>(blocks), 1, 1};
  blockDim = {threads, 1, 1};
  for (uint64_t block = begin; block < end; ++block) {
    blockIdx = {static_cast<uint32_t>(block), 0, 0};
    for (uint32_t thread = 0; thread < threads; ++thread) {
      threadIdx = {thread, 0, 0};
      kernel(arguments...);
    }
  }
}

// The intrinsics that have one result on any machine. Those that approximate,
// such as __expf, have another on each.
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t{a} * b >> 32);
}
template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return *at;
}
template <class T>
void __stcs(T* at, T value) {
  *at = value;
}

struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) int2 {
  int32_t x, y;
};
struct alignas(16) int4 {
  int32_t x, y, z, w;
};

namespace wb::cuda {

inline int approximations = 0; // that were called

inline float approx_exp2(float x) {
  ++approximations;
  return x < -126 ? 0 : std::exp2(x);
}
inline float approx_reciprocal(float x) {
  ++approximations;
  return std::fabs(x) > 0x1p126f ? 0 : 1 / x;
}

} // namespace wb::cuda
