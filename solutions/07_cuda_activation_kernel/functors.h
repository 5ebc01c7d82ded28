// A functor computes one element, in float.
#pragma once

#include "arithmetic.h"

// Hidden: kernels of other libraries in the process have names like these.
#pragma GCC visibility push(hidden)
namespace wb::cuda {

//! [functors]
// A functor is copied to the GPU by value, so it may hold parameters.
struct SiluAndMul {
  template <typename Math>
  __device__ float operator()(Math math, float gate, float up) const {
    return math.times_sigmoid(gate, gate) * up;
  }
};
//! [functors]

} // namespace wb::cuda
#pragma GCC visibility pop
