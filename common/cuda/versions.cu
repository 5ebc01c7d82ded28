// What the kernel of chapter 07 is compared with, for bench.py and sass.py: its
// own steps, the same traffic without arithmetic, and kernels in the style of
// serving engines, written after the shape of theirs. All of bfloat16.
#include "gated.h"
#include "gpu_types.h"
#include "plan.h"

#include <cuda_runtime.h>

#include <string>

using namespace activation;
using Eight = Vector<BFloat16, 8>;

namespace {

struct SiluPrecise {
  template <class Math>
  HOST_DEVICE float operator()(Math, float gate, float up) const {
    return SiluAndMul()(Precise(), gate, up);
  }
};

template <int N, uint32_t K, class F>
__global__ void __launch_bounds__(256)
    step(const Problem problem, const Halves halves, const F f) {
  run_thread<BFloat16, N, K>(
      problem, halves, f, {blockIdx.x, threadIdx.x, blockDim.x});
}

__global__ void empty() {}

// The floor: reads and writes what the kernel does, in the same shape.
template <uint32_t K>
__global__ void __launch_bounds__(256)
    same_traffic(const uint4* input, uint4* out, uint32_t vectors) {
  uint4 left[K], right[K];
  const Thread self{blockIdx.x, threadIdx.x, blockDim.x};
  UNROLL
  for (uint32_t k = 0; k < K; ++k) {
    const uint32_t v = min(vector_of(self, k, K), vectors - 1);
    const int64_t at = int64_t{v} * 2;
    left[k] = input[at];
    right[k] = input[at + 1];
  }
  UNROLL
  for (uint32_t k = 0; k < K; ++k) {
    const uint32_t v = vector_of(self, k, K);
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
template <bool fast_exp, bool twice>
__device__ BFloat16 of_engine(BFloat16 gate, BFloat16 up) {
  const float x = static_cast<float>(gate);
  const float silu = x / (1.0f + (fast_exp ? __expf(-x) : expf(-x)));
  const float first = twice ? static_cast<float>(BFloat16(silu)) : silu;
  return BFloat16(first * static_cast<float>(up));
}

// A block for each row: vLLM's shape with up to 1024 threads, FlashInfer's with
// up to 256.
template <bool fast_exp, bool twice>
__global__ void row_a_block(const BFloat16* input, BFloat16* out, int d) {
  const BFloat16* row = input + int64_t{blockIdx.x} * 2 * d;
  BFloat16* to = out + int64_t{blockIdx.x} * d;
  for (int i = threadIdx.x; i < d / 8; i += blockDim.x) {
    const Eight gate = load<BFloat16, 8>(row + i * 8);
    const Eight up = load<BFloat16, 8>(row + d + i * 8);
    Eight result;
    UNROLL
    for (int j = 0; j < 8; ++j) {
      result.at[j] = of_engine<fast_exp, twice>(gate.at[j], up.at[j]);
    }
    store(to + i * 8, result);
  }
}

// sglang's shape: flat, a vector for each thread.
__global__ void __launch_bounds__(256) flat(
    const BFloat16* input, BFloat16* out, uint32_t vectors, uint32_t in_row) {
  const uint32_t v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= vectors) {
    return;
  }
  const uint32_t row = v / in_row;
  const BFloat16* at = input + (int64_t{v} + int64_t{row} * in_row) * 8;
  const Eight gate = load<BFloat16, 8>(at);
  const Eight up = load<BFloat16, 8>(at + int64_t{in_row} * 8);
  Eight result;
  UNROLL
  for (int j = 0; j < 8; ++j) {
    result.at[j] = of_engine<false, false>(gate.at[j], up.at[j]);
  }
  store(out + int64_t{v} * 8, result);
}

template <int N, uint32_t K, class F>
void run_step(
    const Tensors& tensors, const F& f, int threads, cudaStream_t stream) {
  for_each_piece(tensors, N, kMostVectors, [&](const Problem& problem) {
    const auto in_block = static_cast<uint32_t>(threads) * K;
    const uint32_t blocks = (problem.vectors + in_block - 1) / in_block;
    step<N, K>
        <<<blocks, threads, 0, stream>>>(problem, Halves{0, tensors.d}, f);
  });
}

} // namespace

// d must be a multiple of 8, all pointers of 16. Gives a cudaError_t, or -1 if
// there is no such version.
extern "C" int wb07_version(
    const char* name,
    const void* in,
    void* to,
    int64_t rows,
    int64_t d,
    void* stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  const auto* input = static_cast<const BFloat16*>(in);
  auto* out = static_cast<BFloat16*>(to);
  const Tensors tensors{in, to, rows, d, 2 * d, 2};
  const auto vectors = static_cast<uint32_t>(rows * d / 8);
  const auto in_row = static_cast<uint32_t>(d / 8);
  const auto threads_of = [&](int most) {
    return static_cast<unsigned>(d / 8 < most ? (d / 8 + 31) / 32 * 32 : most);
  };
  const std::string version = name;
  if (version == "naive") {
    run_step<1, 1>(tensors, SiluPrecise(), 256, stream);
  } else if (version == "16 bytes") {
    run_step<8, 1>(tensors, SiluPrecise(), 256, stream);
  } else if (version == "in flight") {
    run_step<8, 2>(tensors, SiluPrecise(), 256, stream);
  } else if (version == "shaped") {
    run_step<8, 2>(
        tensors, SiluPrecise(), plan_for(vectors, 8).threads, stream);
  } else if (version == "fast arithmetic") { // the solution's own
    run_step<8, 2>(tensors, SiluAndMul(), plan_for(vectors, 8).threads, stream);
  } else if (version == "four in flight") {
    run_step<8, 4>(tensors, SiluAndMul(), 256, stream);
  } else if (version == "same traffic") {
    const Plan plan = plan_for(vectors, 8);
    same_traffic<kInFlight><<<plan.blocks(vectors), plan.threads, 0, stream>>>(
        reinterpret_cast<const uint4*>(in),
        reinterpret_cast<uint4*>(to),
        vectors);
  } else if (version == "empty") {
    empty<<<1, 32, 0, stream>>>();
  } else if (version == "vLLM style") {
    row_a_block<false, true>
        <<<static_cast<unsigned>(rows), threads_of(1024), 0, stream>>>(
            input, out, static_cast<int>(d));
  } else if (version == "FlashInfer style") {
    row_a_block<true, false>
        <<<static_cast<unsigned>(rows), threads_of(256), 0, stream>>>(
            input, out, static_cast<int>(d));
  } else if (version == "sglang style") {
    flat<<<(vectors + 255) / 256, 256, 0, stream>>>(
        input, out, vectors, in_row);
  } else {
    return -1;
  }
  return static_cast<int>(cudaGetLastError());
}
