// The kernels for the GPU, for each op, dtype and width. No torch header: they
// would make this file five times as slow.
#include "activations.h"
#include "functors.h"
#include "launch_activation.h"
#include "launch_rows.h"

namespace wb::cuda {
namespace {

// To the plain kernel every other element is a gate; to vectors a row is one
// run of elements.
template <typename T, typename F>
cudaError_t launch_interleaved(
    const Rows& rows, const F& f, cudaStream_t stream) {
  Rows run = rows;
  run.up = rows.gate;
  run.column_stride = 1;
  return vector_width(run, sizeof(T)) != 0
      ? launch_rows<T, Interleaved>(run, f, stream)
      : launch_plain<T>(rows, f, stream);
}

template <typename T>
cudaError_t launch_op(
    OpKind op, const Rows& r, const Options& p, cudaStream_t stream) {
  const auto split = [&](const auto& f) {
    return launch_rows<T, Split>(r, f, stream);
  };
  const auto unary = [&](const auto& f) {
    return launch_rows<T, Unary>(r, f, stream);
  };
  switch (op) {
    case OpKind::kSiluAndMul:
      return split(SiluAndMul());
    case OpKind::kGeluAndMul:
      return split(GeluAndMul());
    case OpKind::kGeluTanhAndMul:
      return split(GeluTanhAndMul());
    case OpKind::kFatreluAndMul:
      return split(FatreluAndMul{p.threshold});
    case OpKind::kSiluAndMulWithClamp:
      return split(SiluAndMulWithClamp{p.limit});
    case OpKind::kSwigluoaiAndMul:
      return launch_interleaved<T>(
          r, SwigluoaiAndMul{two_floats(p.alpha), p.limit}, stream);
    case OpKind::kSilu:
      return unary(Alone<SiluAndMul>());
    case OpKind::kGelu:
      return unary(Alone<GeluAndMul>());
    case OpKind::kGeluTanh:
      return unary(Alone<GeluTanhAndMul>());
    case OpKind::kGeluQuick:
      return unary(Alone<GeluQuickAndMul>());
  }
  return cudaErrorInvalidValue; // no op
}

} // namespace

const char* launch_activation(
    OpKind op,
    Dtype dtype,
    const Rows& rows,
    const Options& options,
    void* stream) {
  return text_of(dispatch(dtype, [&](auto zero) {
    return launch_op<decltype(zero)>(
        op, rows, options, static_cast<cudaStream_t>(stream));
  }));
}

} // namespace wb::cuda
