// What the kernel of chapter 07 is compared with, for bench.py and sass.py: its
// own steps, the same traffic without arithmetic, and kernels in the style of
// serving engines. These have the launch and the arithmetic of
//   vLLM        04c8ba43f517, csrc/libtorch_stable/activation_kernels.cu
//   FlashInfer  162d9afca258, include/flashinfer/activation.cuh
//   sglang      072efcb8b463, jit_kernel/csrc/elementwise/activation.cuh
// and none of their code: 16 bytes an access each, no launch overlap (PDL),
// which does nothing for a kernel alone.
#include "launch.h"

#include <algorithm>
#include <string>

using namespace wb;

namespace {

// `expf` and `/`, as everyone begins.
struct Usual {
  template <typename Math>
  __device__ float operator()(Math, float gate, float up) const {
    return gate / (1 + expf(-gate)) * up;
  }
};

__global__ void empty() {}

// The floor: reads and writes what the kernel does, in the same shape.
template <int K>
__global__ void __launch_bounds__(256)
    same_traffic(const uint4* input, uint4* out, uint32_t vectors) {
  uint4 left[K], right[K];
  const uint32_t first = blockIdx.x * K * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const uint32_t v = min(first + k * blockDim.x, vectors - 1);
    const int64_t at = int64_t{v} * 2;
    left[k] = input[at];
    right[k] = input[at + 1];
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const uint32_t v = first + k * blockDim.x;
    if (v < vectors) {
      out[v] = {
          left[k].x ^ right[k].x,
          left[k].y ^ right[k].y,
          left[k].z ^ right[k].z,
          left[k].w ^ right[k].w};
    }
  }
}

// expf or __expf, then an exact division; rounded before the product or not.
template <bool fast_exp, bool twice, typename T>
__device__ T of_engine(T gate, T up) {
  const auto x = static_cast<float>(gate);
  const float silu = x / (1.0f + (fast_exp ? __expf(-x) : expf(-x)));
  const float first = twice ? static_cast<float>(T(silu)) : silu;
  return T(first * static_cast<float>(up));
}

template <bool fast_exp, bool twice, typename T, int N>
__device__ Vector<T, N> of_engine(
    const Vector<T, N>& gate, const Vector<T, N>& up) {
  Vector<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    result.at[i] = of_engine<fast_exp, twice>(gate.at[i], up.at[i]);
  }
  return result;
}

// A block for each row: vLLM's shape, of up to 1024 threads, and FlashInfer's,
// of up to 256.
template <bool fast_exp, bool twice, typename T>
__global__ void __launch_bounds__(1024)
    row_a_block(const T* input, T* out, int d) {
  constexpr int N = 16 / sizeof(T);
  const T* row = input + int64_t{blockIdx.x} * 2 * d;
  T* to = out + int64_t{blockIdx.x} * d;
#pragma unroll 1
  for (int i = threadIdx.x; i < d / N; i += blockDim.x) {
    const auto gate = load<T, N>(row + i * N);
    const auto up = load<T, N>(row + d + i * N);
    store(to + i * N, of_engine<fast_exp, twice>(gate, up));
  }
}

// sglang's shape: flat, a vector for each thread.
template <typename T>
__global__ void __launch_bounds__(1024)
    flat(const T* input, T* out, uint32_t vectors, uint32_t in_row) {
  constexpr int N = 16 / sizeof(T);
  const uint32_t v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= vectors) {
    return;
  }
  const uint32_t row = v / in_row;
  const T* at = input + (int64_t{v} + int64_t{row} * in_row) * N;
  const auto gate = load<T, N>(at);
  const auto up = load<T, N>(at + int64_t{in_row} * N);
  store(out + int64_t{v} * N, of_engine<false, false>(gate, up));
}

template <typename T, int N, int K, typename F>
void run_vectorized(
    const Rows& r, const F& f, uint32_t threads, cudaStream_t stream) {
  const int64_t vectors = r.rows * r.d / N;
  const int64_t in_block = int64_t{threads} * K;
  const auto blocks =
      static_cast<uint32_t>((vectors + in_block - 1) / in_block);
  vectorized<T, N, K, Split><<<blocks, threads, 0, stream>>>(
      Params<T>{
          static_cast<const T*>(r.gate),
          static_cast<const T*>(r.up),
          static_cast<T*>(r.out),
          r.row_stride,
          static_cast<uint32_t>(vectors),
          FastDivmod(static_cast<uint32_t>(r.d / N))},
      f);
}

// False if there is no such version.
template <typename T>
bool run(
    const std::string& version,
    const Rows& r,
    int max_threads,
    cudaStream_t stream) {
  constexpr int N = 16 / sizeof(T);
  const auto* input = static_cast<const T*>(r.gate);
  auto* out = static_cast<T*>(r.out);
  const auto d = static_cast<int>(r.d);
  const auto rows = static_cast<unsigned>(r.rows);
  const auto in_row = static_cast<uint32_t>(d / N);
  const uint32_t vectors = rows * in_row;
  int device = 0;
  cudaGetDevice(&device);
  const Grid grid = grid_for(vectors, multiprocessors(device));
  // Threads of a block for each row: no more than it has vectors.
  const int of_row =
      std::min(static_cast<int>(in_row + 31) / 32 * 32, max_threads);
  if (version == "plain") {
    launch_plain<T>(r, Usual(), stream);
  } else if (version == "32 bits") {
    run_vectorized<T, 1, 1>(r, Usual(), 256, stream);
  } else if (version == "16 bytes") {
    run_vectorized<T, N, 1>(r, Usual(), 256, stream);
  } else if (version == "in flight") {
    run_vectorized<T, N, 2>(r, Usual(), 256, stream);
  } else if (version == "shaped") {
    run_vectorized<T, N, 2>(r, Usual(), grid.threads, stream);
  } else if (version == "fast arithmetic") { // the solution's own
    run_vectorized<T, N, 2>(r, SiluAndMul(), grid.threads, stream);
  } else if (version == "four in flight") {
    run_vectorized<T, N, 4>(r, SiluAndMul(), 256, stream);
  } else if (version == "same traffic") {
    same_traffic<kInFlight><<<grid.blocks, grid.threads, 0, stream>>>(
        reinterpret_cast<const uint4*>(input),
        reinterpret_cast<uint4*>(out),
        vectors);
  } else if (version == "empty") {
    empty<<<1, 32, 0, stream>>>();
  } else if (version == "vLLM style") {
    row_a_block<false, true><<<rows, of_row, 0, stream>>>(input, out, d);
  } else if (version == "FlashInfer style") {
    row_a_block<true, false><<<rows, of_row, 0, stream>>>(input, out, d);
  } else if (version == "sglang style") {
    const auto threads = static_cast<uint32_t>(max_threads);
    flat<<<(vectors + threads - 1) / threads, threads, 0, stream>>>(
        input, out, vectors, in_row);
  } else {
    return false;
  }
  return true;
}

} // namespace

// d must be a multiple of 16 bytes, all pointers of 16. `threads`, of a block,
// is for the engines' kernels. Gives a cudaError_t, or -1 if there is no such
// version or dtype.
extern "C" int wb07_version(
    const char* name,
    const char* dtype_name,
    const void* in,
    void* to,
    int64_t rows,
    int64_t d,
    int threads,
    void* stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  const std::string dtype = dtype_name;
  const int size = dtype == "float" ? 4 : 2;
  const Rows r{
      in, static_cast<const char*>(in) + d * size, to, rows, d, 2 * d, 1};
  const bool found = dtype == "float" ? run<float>(name, r, threads, stream)
      : dtype == "half"               ? run<Half>(name, r, threads, stream)
      : dtype == "bfloat16"           ? run<BFloat16>(name, r, threads, stream)
                                      : false;
  return found ? static_cast<int>(cudaGetLastError()) : -1;
}
