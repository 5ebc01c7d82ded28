// What the kernels compute, in words that CPU and CUDA share.
#pragma once

#pragma GCC visibility push(hidden)
namespace wb {

enum class OpKind {
  kSiluAndMul,
  kGeluAndMul,
  kGeluTanhAndMul,
  kFatreluAndMul,
  kSiluAndMulWithClamp,
  kSwigluoaiAndMul,
  kSilu, // from here on of one operand: gate and up are the same
  kGelu,
  kGeluTanh,
  kGeluQuick,
};

// What an op is called with besides tensors. What elements are compared with is
// a float, as they are: the double 0.1 is less than the float 0.1.
struct Options {
  float threshold = 0;  // fatrelu
  double alpha = 1.702; // swigluoai
  float limit = 0;      //     swigluoai, clamp
};

} // namespace wb
#pragma GCC visibility pop
