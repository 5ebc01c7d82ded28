// One row, or a part of one, of every op, for every dtype: compiled once for
// each instruction set, and chosen at run time.
#pragma once

#include <cstdint>

enum Op : int {
  kSiluAndMul,
  kMulAndSilu,
  kGeluAndMul,
  kGeluTanhAndMul,
  kFatreluAndMul,
  kSiluAndMulWithClamp,
  kSwigluoaiAndMul, // gate and up lie in turns: its input is one row
  kSilu,            // from here on [..., d] -> [..., d]
  kGelu,
  kGeluTanh,
  kGeluNew,
  kGeluFast,
  kGeluQuick,
  kOps,
};

enum Dtype : int { kFloat, kHalf, kBFloat16, kDtypes };

// What an op is called with besides tensors.
struct Numbers {
  double threshold = 0; // fatrelu
  double alpha = 1.702; // swigluoai
  double limit = 0;     //     swigluoai, clamp
};

// out[i] for i < n, from `first` and `second`: where the op has no halves, both
// are the same. Where they lie in turns `second` is not looked at.
// `past_cache` writes `out` by streaming stores; the caller fences.
using Row = void (*)(
    void* out,
    const void* first,
    const void* second,
    int64_t n,
    const Numbers& numbers,
    bool past_cache);

struct Level {
  const char* name;
  Row rows[kOps][kDtypes];
};

extern const Level level_baseline;
#if defined(__x86_64__)
extern const Level level_v3; // AVX2, FMA, F16C
extern const Level level_v4; // AVX-512
#endif
