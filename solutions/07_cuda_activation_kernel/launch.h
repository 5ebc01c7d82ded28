// The line between activation.cu, which knows CUDA, and the ops, which know
// torch: neither includes the other's headers.
#pragma once

#include "gated.h"
#include "plan.h"

namespace activation {

enum class Dtype { kFloat, kHalf, kBFloat16 };
enum class Op { kSilu, kGelu, kGeluTanh };

// Whichever it is: for where speed is no aim, since a kernel for each functor
// takes time to compile.
struct AnyOp {
  Op op;

  template <class Math>
  HOST_DEVICE float operator()(Math math, float gate, float up) const {
    switch (op) {
      case Op::kGelu:
        return GeluAndMul()(math, gate, up);
      case Op::kGeluTanh:
        return GeluTanhAndMul()(math, gate, up);
      default:
        return SiluAndMul()(math, gate, up);
    }
  }
};

// Puts the kernel on `stream`, a cudaStream_t of the current device. Gives
// nullptr, or why it could not; neither waits nor allocates.
const char* launch(
    Op op,
    Dtype dtype,
    const Problem& problem,
    const Halves& halves,
    const Plan& plan,
    void* stream);

} // namespace activation
