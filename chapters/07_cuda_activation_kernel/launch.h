// The line between activation.cu, which knows CUDA, and the ops, which know
// torch: neither includes the other's headers.
#pragma once

#include "gated.h"
#include "plan.h"

namespace activation {

enum class Dtype { kFloat, kHalf, kBFloat16 };
enum class Op { kSilu, kGelu, kGeluTanh };

// Calls call(functor) with the functor of `op`.
template <class Call>
void with_functor(Op op, const Call& call) {
  switch (op) {
    case Op::kSilu:
      return call(SiluAndMul());
    case Op::kGelu:
      return call(GeluAndMul());
    case Op::kGeluTanh:
      return call(GeluTanhAndMul());
  }
}

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
