// What chapter 07's kernel might be instead, for variants.py: other numbers of
// vectors a thread and of threads a block, accesses that say how long a cache
// shall keep what they move, 32 bytes of each operand side by side, blocks that
// stay, and launches that overlap (programmatic dependent launch, PDL). The
// arithmetic is the solution's. bfloat16 only.
#include "functors.h"
#include "launch_rows.h"

#include <cub/device/device_transform.cuh>

#include <algorithm>
#include <cuda/std/tuple>
#include <type_traits>

using namespace wb::cuda;
using wb::Rows;

namespace {

enum Read { kRead, kReadStreaming, kReadPastL1 };
enum Write { kWrite, kWriteStreaming };
// Whether a launch may begin before the one ahead of it has ended: it then
// waits before its first read. It lets the next one begin when it begins
// itself, or not before it ends.
enum Overlap { kAlone, kWait, kWaitAndRelease };

template <int Bytes>
using Word = std::conditional_t<
    Bytes == 16,
    uint4,
    std::conditional_t<
        Bytes == 8,
        uint2,
        std::conditional_t<Bytes == 4, uint32_t, uint16_t>>>;

template <Read how, typename V>
__device__ V read(const V* from) {
  if constexpr (how == kReadStreaming) {
    return __ldcs(from);
  } else if constexpr (how == kReadPastL1) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
  } else {
    return *from;
  }
}

template <Write how, typename V>
__device__ void write(V* to, const V& v) {
  if constexpr (how == kWriteStreaming) {
    __stcs(to, v);
  } else {
    *to = v;
  }
}

template <typename V>
__device__ V compute(const V& gate, const V& up) {
  constexpr int N = sizeof(V) / 2;
  union Both {
    __device__ Both() {}
    V bits;
    Vector<BFloat16, N> numbers;
  } x, y, result;
  x.bits = gate;
  y.bits = up;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    result.numbers.at[i] =
        apply(SiluAndMul(), x.numbers.at[i], y.numbers.at[i]);
  }
  return result.bits;
}

// K vectors a thread, each of W accesses of each operand.
template <
    typename V,
    int K,
    int W,
    Read how,
    Write how_to,
    bool stays,
    Overlap overlap>
__global__ void __launch_bounds__(512) variant(
    const V* gate, V* out, uint32_t vectors, FastDivmod in_row, uint32_t row) {
  const auto tile = K * blockDim.x;
  const auto tiles = (vectors + tile - 1) / tile;
  if constexpr (overlap == kWaitAndRelease) {
    asm volatile("griddepcontrol.launch_dependents;");
  }
  for (uint32_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    V x[K][W], y[K][W];
    const V* from[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const uint32_t v =
          min(t * tile + k * blockDim.x + threadIdx.x, vectors - 1);
      const auto at = in_row(v);
      from[k] = gate + int64_t{at.quotient} * 2 * row + at.remainder * W;
    }
    if constexpr (overlap != kAlone) {
      asm volatile("griddepcontrol.wait;" ::: "memory");
    }
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
      for (int w = 0; w < W; ++w) {
        x[k][w] = read<how>(from[k] + w);
        y[k][w] = read<how>(from[k] + row + w);
      }
    }
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const uint32_t v = t * tile + k * blockDim.x + threadIdx.x;
      if (v < vectors) {
#pragma unroll
        for (int w = 0; w < W; ++w) {
          write<how_to>(out + int64_t{v} * W + w, compute(x[k][w], y[k][w]));
        }
      }
    }
    if constexpr (!stays) {
      break;
    }
  }
}

// A row of the grid for each row: no division, and as many rows as a grid has,
// 65535. A short row leaves most of its block without work.
template <typename V>
__global__ void __launch_bounds__(512)
    rows_of_grid(const V* input, V* out, uint32_t row) {
  const uint32_t column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column < row) {
    const V* const gate = input + int64_t{blockIdx.y} * 2 * row + column;
    out[int64_t{blockIdx.y} * row + column] =
        compute(__ldg(gate), __ldg(gate + row));
  }
}

template <typename V>
cudaError_t run_rows(
    const void* in, void* to, int64_t rows, int64_t d, cudaStream_t stream) {
  const auto row = static_cast<uint32_t>(d * 2 / sizeof(V));
  const dim3 grid((row + 127) / 128, static_cast<unsigned>(rows));
  rows_of_grid<<<grid, 128, 0, stream>>>(
      static_cast<const V*>(in), static_cast<V*>(to), row);
  return cudaGetLastError();
}

struct Shape {
  const void* input;
  void* out;
  int64_t rows, d; // elements
  int threads;     // of a block
  int blocks;      // that stay, or 0
  cudaStream_t stream;
};

template <
    int Bytes,
    int K,
    int W,
    Read how,
    Write how_to,
    bool stays,
    Overlap overlap>
cudaError_t run(const Shape& s) {
  using V = Word<Bytes>;
  const auto row = static_cast<uint32_t>(s.d * 2 / Bytes);
  const auto vectors = static_cast<uint32_t>(s.rows * row / W);
  const auto tile = static_cast<uint32_t>(K * s.threads);
  auto blocks = (vectors + tile - 1) / tile;
  if (stays) {
    blocks = std::min(blocks, static_cast<uint32_t>(s.blocks));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = static_cast<unsigned>(s.threads);
  config.stream = s.stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = overlap != kAlone;
  return cudaLaunchKernelEx(
      &config,
      variant<V, K, W, how, how_to, stays, overlap>,
      static_cast<const V*>(s.input),
      static_cast<V*>(s.out),
      vectors,
      FastDivmod(row / W),
      row);
}

template <int Bytes, int K, int W, Read how, Write how_to>
cudaError_t run(const Shape& s, int overlap) {
  return overlap == kAlone ? run<Bytes, K, W, how, how_to, false, kAlone>(s)
      : overlap == kWait
      ? run<Bytes, K, W, how, how_to, false, kWait>(s)
      : run<Bytes, K, W, how, how_to, false, kWaitAndRelease>(s);
}

template <int K, int W>
cudaError_t run(const Shape& s, int how, int how_to, int overlap) {
  if (s.blocks > 0) {
    return overlap == kAlone
        ? run<16, K, W, kRead, kWrite, true, kAlone>(s)
        : run<16, K, W, kRead, kWrite, true, kWaitAndRelease>(s);
  }
  switch (how * 2 + how_to) {
    case 0:
      return run<16, K, W, kRead, kWrite>(s, overlap);
    case 1:
      return run<16, K, W, kRead, kWriteStreaming>(s, overlap);
    case 2:
      return run<16, K, W, kReadStreaming, kWrite>(s, overlap);
    case 3:
      return run<16, K, W, kReadStreaming, kWriteStreaming>(s, overlap);
    case 4:
      return run<16, K, W, kReadPastL1, kWrite>(s, overlap);
    default:
      return run<16, K, W, kReadPastL1, kWriteStreaming>(s, overlap);
  }
}

struct OfTwo {
  __device__ BFloat16 operator()(BFloat16 gate, BFloat16 up) const {
    return apply(SiluAndMul(), gate, up);
  }
};

} // namespace

// [rows, 2d] to [rows, d]; returns a cudaError_t, or -1 for no such variant.
extern "C" int wb07_variant(
    const void* in,
    void* to,
    int64_t rows,
    int64_t d,
    int in_flight,
    int width,
    int threads,
    int how,
    int how_to,
    int blocks,
    int overlap,
    void* stream) {
  const Shape s{
      in, to, rows, d, threads, blocks, static_cast<cudaStream_t>(stream)};
  switch (in_flight * 100 + width) {
    case 102:
      return run<2, 1, 1, kRead, kWrite>(s, overlap);
    case 104:
      return run<4, 1, 1, kRead, kWrite>(s, overlap);
    case 108:
      return run<8, 1, 1, kRead, kWrite>(s, overlap);
    case 116:
      return run<1, 1>(s, how, how_to, overlap);
    case 216:
      return run<2, 1>(s, how, how_to, overlap);
    case 416:
      return run<4, 1>(s, how, how_to, overlap);
    case 132:
      return run<1, 2>(s, how, how_to, overlap);
    default:
      return -1;
  }
}

extern "C" int wb07_rows(
    const void* in,
    void* to,
    int64_t rows,
    int64_t d,
    int width,
    void* stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  return width == 16 ? run_rows<uint4>(in, to, rows, d, stream)
                     : run_rows<uint2>(in, to, rows, d, stream);
}

// CUDA's own library, which moves in bulk (TMA) on 9.0: of one row, since it
// knows no rows.
extern "C" int wb07_transform(
    const void* in, void* to, int64_t n, void* stream) {
  const auto* gate = static_cast<const BFloat16*>(in);
  return cub::DeviceTransform::Transform(
      ::cuda::std::make_tuple(gate, gate + n),
      static_cast<BFloat16*>(to),
      n,
      OfTwo(),
      static_cast<cudaStream_t>(stream));
}
