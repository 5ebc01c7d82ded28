// Every op on CPU: picks the rows for this machine, and shares the work.
#include "activation_cpu.h"
#include "../torch-ext/arguments.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace {

constexpr int64_t kElementsAThread = 32768; // fewer are done before it starts
constexpr int64_t kPastCache = int64_t{4} << 20; // bytes of a large result
constexpr int64_t kElementBytes[kDtypes] = {4, 2, 2};

//! [level]
// The best rows that this machine can run. ACTIVATION_CPU_LEVEL=baseline or v3
// asks for less, so that each can be tested on one machine.
const Level& choose_level() {
#if defined(__x86_64__)
  const char* asked = std::getenv("ACTIVATION_CPU_LEVEL");
  const auto wanted = [&](const Level& level) {
    return asked == nullptr || std::strcmp(asked, level.name) == 0;
  };
  // Every machine with AVX2 has F16C too, which clang has no word for.
  const bool v3 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (v4 && wanted(level_v4)) {
    return level_v4;
  }
  if (v3 && wanted(level_v3)) {
    return level_v3;
  }
#endif
  return level_baseline;
}
//! [level]

} // namespace

void activation_cpu(
    Op op,
    const torch::stable::Tensor& out,
    const torch::stable::Tensor& input,
    const Numbers& numbers) {
  static const Level& level = choose_level();
  const Arguments a(op, out, input);
  const Row row = level.rows[op][a.dtype];
  const int64_t bytes = kElementBytes[a.dtype];
  char* to = static_cast<char*>(a.out.mutable_data_ptr());
  const char* from = static_cast<const char*>(a.input.const_data_ptr());
  const int64_t count = a.rows * a.d;
  const bool past_cache = count * bytes > kPastCache;
  const int64_t in_turns = op == kSwigluoaiAndMul ? 2 : 1;
  // A share is a range of elements of the result: parts of rows.
  const auto share = [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t column = begin % a.d;
      const int64_t n = std::min(end - begin, a.d - column);
      const char* first =
          from + (begin / a.d * a.stride + column * in_turns) * bytes;
      row(to + begin * bytes,
          first,
          has_halves(op) ? first + a.d * bytes : first,
          n,
          numbers,
          past_cache);
      begin += n;
    }
#if defined(__x86_64__)
    _mm_sfence(); // streaming stores become visible before the share is done
#endif
  };
  if (count <= kElementsAThread) {
    share(0, count);
  } else {
    torch::stable::parallel_for(0, count, kElementsAThread, share);
  }
  a.finish(out);
}
