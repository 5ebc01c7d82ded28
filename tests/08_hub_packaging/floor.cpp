// What chapter 08 is measured against: the same bytes moved by an op that only
// takes their exclusive or, in as many threads; past the cache where asked to.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

using torch::stable::Tensor;

// One machine-code copy for each x86-64 level; the dynamic linker picks one.
#if defined(__x86_64__) && defined(__GLIBC__) && __GNUC__ >= 12
#define X86_64_LEVELS \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define X86_64_LEVELS
#endif

namespace {

X86_64_LEVELS void exclusive_or(
    unsigned char* __restrict out,
    const unsigned char* __restrict gate,
    const unsigned char* __restrict up,
    int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<unsigned char>(gate[i] ^ up[i]);
  }
}

// `out` is aligned to 16 bytes and `n` is divisible by 16.
void past_cache(
    unsigned char* out,
    const unsigned char* gate,
    const unsigned char* up,
    int64_t n) {
#if defined(__x86_64__)
  const auto load = [](const unsigned char* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  for (int64_t i = 0; i < n; i += 16) {
    _mm_stream_si128(
        reinterpret_cast<__m128i*>(out + i),
        _mm_xor_si128(load(gate + i), load(up + i)));
  }
  _mm_sfence();
#else
  exclusive_or(out, gate, up, n);
#endif
}

// Bytes: out is [rows, d], input [rows, 2d].
void exclusive_or_op(const Tensor& out, const Tensor& input, bool streaming) {
  const int64_t d = out.size(1);
  auto* to = static_cast<unsigned char*>(out.mutable_data_ptr());
  const auto* from = static_cast<const unsigned char*>(input.const_data_ptr());
  const auto work = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto* gate = from + row * 2 * d;
      (streaming ? past_cache : exclusive_or)(to + row * d, gate, gate + d, d);
    }
  };
  torch::stable::parallel_for(0, out.size(0), 1 + 65536 / d, work);
}

} // namespace

STABLE_TORCH_LIBRARY(workbook_floor, m) {
  m.def("xor(Tensor! out, Tensor input, bool streaming) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(workbook_floor, CPU, m) {
  m.impl("xor", TORCH_BOX(&exclusive_or_op));
}
