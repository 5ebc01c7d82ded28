// silu_and_mul and its gradient on a GPU. No torch header: with them this file
// takes six times as long to compile, or more.
#include "silu_and_mul_cuda.h"

#include "backward.h"
#include "launch.h"

namespace wb::cuda {

const char* launch_silu_and_mul(Dtype dtype, const Rows& rows, void* stream) {
  return text_of(dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch_rows<T, Split>(
        rows, SiluAndMul(), static_cast<cudaStream_t>(stream));
  }));
}

const char* launch_silu_and_mul_backward(
    Dtype dtype,
    const void* grad,
    const void* input,
    void* result,
    int64_t rows,
    int64_t d,
    void* stream) {
  return text_of(dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    return launch(
        grid_for(rows * d),
        static_cast<cudaStream_t>(stream),
        plain_backward<T, SiluAndMulBackward>,
        static_cast<const T*>(grad),
        static_cast<const T*>(input),
        static_cast<T*>(result),
        d,
        rows * d,
        SiluAndMulBackward());
  }));
}

} // namespace wb::cuda
