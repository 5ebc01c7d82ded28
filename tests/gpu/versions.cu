// What the kernel of chapter 07 is compared with, for bench.py and sass.py: its
// own steps, the same traffic without arithmetic, and kernels in the style of
// serving engines. These have the launch and the arithmetic of
//   vLLM        04c8ba43f517, csrc/libtorch_stable/activation_kernels.cu
//   FlashInfer  162d9afca258, include/flashinfer/activation.cuh
//   sglang      072efcb8b463, jit_kernel/csrc/elementwise/activation.cuh
// and none of their code: 16 bytes an access each. The last two engines let a
// launch overlap with the one ahead of it (programmatic dependent launch, PDL)
// if they are asked to: these are versions of their own.
#include "functors.h"
#include "launch_rows.h"

#include <algorithm>
#include <string>

using namespace wb::cuda;
using wb::Rows;

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
__global__ void __launch_bounds__(kThreads)
    same_traffic(const uint4* input, uint4* out, uint32_t vectors) {
  const uint32_t v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < vectors) {
    const uint4 left = input[int64_t{v} * 2], right = input[int64_t{v} * 2 + 1];
    out[v] = {
        left.x ^ right.x, left.y ^ right.y, left.z ^ right.z, left.w ^ right.w};
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

// An overlapped launch begins before the one ahead of it has ended.
template <bool overlap>
__device__ void wait_for_the_one_ahead() {
  if constexpr (overlap) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
}
template <bool overlap>
__device__ void let_the_next_begin() {
  if constexpr (overlap) {
    asm volatile("griddepcontrol.launch_dependents;");
  }
}

// A block for each row: vLLM's shape, of up to 1024 threads, and FlashInfer's,
// of up to 256.
template <bool fast_exp, bool twice, typename T, bool overlap>
__global__ void __launch_bounds__(1024)
    row_a_block(const T* input, T* out, int d) {
  constexpr int N = 16 / sizeof(T);
  const T* row = input + int64_t{blockIdx.x} * 2 * d;
  T* to = out + int64_t{blockIdx.x} * d;
  wait_for_the_one_ahead<overlap>();
#pragma unroll 1
  for (int i = threadIdx.x; i < d / N; i += blockDim.x) {
    const auto gate = load<T, N>(row + i * N);
    const auto up = load<T, N>(row + d + i * N);
    store(to + i * N, of_engine<fast_exp, twice>(gate, up));
  }
  let_the_next_begin<overlap>();
}

// sglang's shape: flat, a vector for each thread.
template <typename T, bool overlap>
__global__ void __launch_bounds__(1024)
    flat(const T* input, T* out, uint32_t vectors, uint32_t in_row) {
  constexpr int N = 16 / sizeof(T);
  const uint32_t v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= vectors) {
    return;
  }
  const uint32_t row = v / in_row;
  const T* at = input + (int64_t{v} + int64_t{row} * in_row) * N;
  wait_for_the_one_ahead<overlap>();
  const auto gate = load<T, N>(at);
  const auto up = load<T, N>(at + int64_t{in_row} * N);
  store(out + int64_t{v} * N, of_engine<false, false>(gate, up));
  let_the_next_begin<overlap>();
}

template <typename... Parameters, typename... Arguments>
void launch_overlapped(
    uint32_t blocks,
    uint32_t threads,
    cudaStream_t stream,
    void (*kernel)(Parameters...),
    const Arguments&... arguments) {
  cudaLaunchAttribute overlaps{};
  overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlaps.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  config.attrs = &overlaps;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

// The solution's kernel with vectors of N elements, whatever the rows allow.
template <int N, typename T, typename F>
void launch_width(const Rows& r, const F& f, cudaStream_t stream) {
  const auto in_row = static_cast<uint32_t>(r.d / N);
  const auto vectors = static_cast<uint32_t>(r.rows) * in_row;
  const auto at = [](const void* address) {
    return static_cast<const T*>(address);
  };
  const LaunchConfig config(vectors, kThreads, stream);
  cudaLaunchKernelEx(
      &config,
      vectorized<T, N, Split, F>,
      Params<T>{
          at(r.gate),
          at(r.up),
          static_cast<T*>(r.out),
          r.row_stride,
          vectors,
          FastDivmod(in_row)},
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
  // Threads of a block for each row: no more than it has vectors.
  const int of_row =
      std::min(static_cast<int>(in_row + 31) / 32 * 32, max_threads);
  const auto threads = static_cast<uint32_t>(max_threads);
  const uint32_t flat_blocks = (vectors + threads - 1) / threads;
  if (version == "plain") {
    launch_plain<T>(r, Usual(), stream);
  } else if (version == "32 bits") {
    launch_width<1, T>(r, Usual(), stream);
  } else if (version == "16 bytes") {
    launch_width<N, T>(r, Usual(), stream);
  } else if (version == "fast arithmetic") { // the solution's own
    launch_width<N, T>(r, SiluAndMul(), stream);
  } else if (version == "same traffic") {
    const LaunchConfig config(vectors, kThreads, stream);
    cudaLaunchKernelEx(
        &config,
        same_traffic,
        reinterpret_cast<const uint4*>(input),
        reinterpret_cast<uint4*>(out),
        vectors);
  } else if (version == "empty") {
    empty<<<1, 32, 0, stream>>>();
  } else if (version == "vLLM style") {
    row_a_block<false, true, T, false>
        <<<rows, of_row, 0, stream>>>(input, out, d);
  } else if (version == "FlashInfer style") {
    row_a_block<true, false, T, false>
        <<<rows, of_row, 0, stream>>>(input, out, d);
  } else if (version == "FlashInfer style, PDL") {
    launch_overlapped(
        rows, of_row, stream, row_a_block<true, false, T, true>, input, out, d);
  } else if (version == "sglang style") {
    flat<T, false>
        <<<flat_blocks, threads, 0, stream>>>(input, out, vectors, in_row);
  } else if (version == "sglang style, PDL") {
    launch_overlapped(
        flat_blocks,
        threads,
        stream,
        flat<T, true>,
        input,
        out,
        vectors,
        in_row);
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
