// The ops: schemas, kernels for CPU and Meta (CUDA's are registered beside
// them where they are built), and the module that Python imports.
#include "../activation_cpu/activation_cpu.h"
#include "arguments.h"
#include "registration.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <vector>

#if defined(CUDA_KERNEL)
#include "../activation_cuda/activation_cuda.h"
#endif

//! [namespace]
// The ops' namespace is the build's own id, never a fixed name: two versions of
// a kernel may be loaded into one process, and each opens its namespace.
// TODO(08.2): this name is the same in every version.
#define OPS activation
//! [namespace]

namespace {

using Compute = void(Op, const Tensor&, const Tensor&, const Numbers&);

// --- boxes: what TORCH_BOX makes stack functions of --------------------------

// The plain ops: (Tensor! out, Tensor input) -> ().
template <Compute* compute, Op op>
void plain(const Tensor& out, const Tensor& input) {
  compute(op, out, input, {});
}
template <Compute* compute>
void fatrelu(const Tensor& out, const Tensor& input, double threshold) {
  Numbers numbers;
  numbers.threshold = threshold;
  compute(kFatreluAndMul, out, input, numbers);
}
template <Compute* compute>
void with_clamp(const Tensor& out, const Tensor& input, double limit) {
  Numbers numbers;
  numbers.limit = limit;
  compute(kSiluAndMulWithClamp, out, input, numbers);
}
template <Compute* compute>
void swigluoai(
    const Tensor& out, const Tensor& input, double alpha, double limit) {
  Numbers numbers;
  numbers.alpha = alpha;
  numbers.limit = limit;
  compute(kSwigluoaiAndMul, out, input, numbers);
}

// The same with a result of their own: (Tensor input, ...) -> Tensor.
template <auto write, Op op, class... N>
Tensor fresh(const Tensor& input, N... numbers) {
  const std::vector<int64_t> sizes = result_sizes(op, input);
  Tensor out = torch::stable::new_empty(input, sizes);
  write(out, input, numbers...);
  return out;
}

// --- Meta: no data, and no size is read, for sizes may be symbols ------------

template <class... N>
void meta(const Tensor& /*out*/, const Tensor& /*input*/, N... /*numbers*/) {}

Tensor left_half(const Tensor& input) { // a view
  StableIValue stack[] = {
      torch::stable::detail::from(input),
      torch::stable::detail::from(int64_t{2}),
      torch::stable::detail::from(int64_t{-1})};
  TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::chunk", "", stack, TORCH_ABI_VERSION));
  return torch::stable::detail::to<std::vector<Tensor>>(stack[0]).front();
}

Tensor new_contiguous(const Tensor& like) {
  using torch::headeronly::MemoryFormat;
  const auto none = [] { return torch::stable::detail::from(std::nullopt); };
  StableIValue stack[] = {
      torch::stable::detail::from(like),
      none(), // dtype, layout, device, pin_memory
      none(),
      none(),
      none(),
      torch::stable::detail::from(
          std::optional<MemoryFormat>(MemoryFormat::Contiguous))};
  TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::empty_like", "", stack, TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

template <Op op, class... N>
Tensor fresh_meta(const Tensor& input, N... /*numbers*/) {
  return new_contiguous(has_halves(op) ? left_half(input) : input);
}

// --- registration ------------------------------------------------------------

#define PLAIN_OPS(DO)                    \
  DO(silu_and_mul, kSiluAndMul)          \
  DO(mul_and_silu, kMulAndSilu)          \
  DO(gelu_and_mul, kGeluAndMul)          \
  DO(gelu_tanh_and_mul, kGeluTanhAndMul) \
  DO(silu, kSilu)                        \
  DO(gelu, kGelu)                        \
  DO(gelu_tanh, kGeluTanh)               \
  DO(gelu_new, kGeluNew)                 \
  DO(gelu_fast, kGeluFast)               \
  DO(gelu_quick, kGeluQuick)

using Library = torch::stable::detail::StableLibrary;

// What runs on a device, by one function for all ops.
template <Compute* compute>
void implement(Library& m) {
#define IMPLEMENT(NAME, OP)                        \
  m.impl(#NAME, TORCH_BOX((&plain<compute, OP>))); \
  m.impl(#NAME ".new", TORCH_BOX((&fresh<&plain<compute, OP>, OP>)));
  PLAIN_OPS(IMPLEMENT)
#undef IMPLEMENT
  m.impl("fatrelu_and_mul", TORCH_BOX((&fatrelu<compute>)));
  m.impl("silu_and_mul_with_clamp", TORCH_BOX((&with_clamp<compute>)));
  m.impl("swigluoai_and_mul", TORCH_BOX((&swigluoai<compute>)));
  m.impl(
      "fatrelu_and_mul.new",
      TORCH_BOX((&fresh<&fatrelu<compute>, kFatreluAndMul, double>)));
  m.impl(
      "silu_and_mul_with_clamp.new",
      TORCH_BOX((&fresh<&with_clamp<compute>, kSiluAndMulWithClamp, double>)));
  m.impl(
      "swigluoai_and_mul.new",
      TORCH_BOX(
          (&fresh<&swigluoai<compute>, kSwigluoaiAndMul, double, double>)));
}

} // namespace

STABLE_TORCH_LIBRARY_EXPAND(OPS, m) {
#define DEFINE(NAME, OP)                            \
  m.def(#NAME "(Tensor! out, Tensor input) -> ()"); \
  m.def(#NAME ".new(Tensor input) -> Tensor");
  PLAIN_OPS(DEFINE)
#undef DEFINE
  m.def("fatrelu_and_mul(Tensor! out, Tensor input, float threshold) -> ()");
  m.def("fatrelu_and_mul.new(Tensor input, float threshold=0.0) -> Tensor");
  m.def(
      "silu_and_mul_with_clamp(Tensor! out, Tensor input, float limit) -> ()");
  m.def("silu_and_mul_with_clamp.new(Tensor input, float limit) -> Tensor");
  m.def(
      "swigluoai_and_mul(Tensor! out, Tensor input, float alpha=1.702, "
      "float limit=7.0) -> ()");
  m.def(
      "swigluoai_and_mul.new(Tensor input, float alpha=1.702, "
      "float limit=7.0) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPS, CPU, m) {
  implement<&activation_cpu>(m);
}

#if defined(CUDA_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPS, CUDA, m) {
  implement<&activation_cuda>(m);
}
#endif

STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPS, Meta, m) {
#define META(NAME, OP)                 \
  m.impl(#NAME, TORCH_BOX((&meta<>))); \
  m.impl(#NAME ".new", TORCH_BOX((&fresh_meta<OP>)));
  PLAIN_OPS(META)
#undef META
  m.impl("fatrelu_and_mul", TORCH_BOX((&meta<double>)));
  m.impl("silu_and_mul_with_clamp", TORCH_BOX((&meta<double>)));
  m.impl("swigluoai_and_mul", TORCH_BOX((&meta<double, double>)));
  m.impl(
      "fatrelu_and_mul.new", TORCH_BOX((&fresh_meta<kFatreluAndMul, double>)));
  m.impl(
      "silu_and_mul_with_clamp.new",
      TORCH_BOX((&fresh_meta<kSiluAndMulWithClamp, double>)));
  m.impl(
      "swigluoai_and_mul.new",
      TORCH_BOX((&fresh_meta<kSwigluoaiAndMul, double, double>)));
}

REGISTER_EXTENSION_EXPAND(TORCH_EXTENSION_NAME)
