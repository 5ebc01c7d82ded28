// The ops: schemas, kernels for CPU, CUDA and Meta, and the module that Python
// imports.
#include "activation_cpu.h"
#include "arguments.h"
#include "checked_box.h"
#include "op_kind.h"
#include "outputs.h"
#include "registration.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <string>

#if defined(CUDA_KERNEL)
#include "activation_cuda.h"
#endif

//! [namespace]
// The ops' namespace is the build's own id, never a fixed name: two versions of
// a kernel may be loaded into one process, and each opens its namespace.
#define OPS TORCH_EXTENSION_NAME
//! [namespace]

namespace wb {
namespace {

// --- one op on one device ----------------------------------------------------

using Compute = void(
    OpKind op,
    Dtype dtype,
    const Rows& rows,
    const Options& options,
    int32_t device);

float limit_of(double limit) {
  STD_TORCH_CHECK(limit >= 0, "limit must not be negative, got ", limit);
  return static_cast<float>(limit);
}

// `first` and `second` are the numbers of a schema, in its order.
Options options_of(OpKind op, double first = 0, double second = 0) {
  switch (op) {
    case OpKind::kFatreluAndMul:
      return {static_cast<float>(first)};
    case OpKind::kSiluAndMulWithClamp:
      return {0, 0, limit_of(first)};
    case OpKind::kSwigluoaiAndMul:
      return {0, first, limit_of(second)};
    case OpKind::kSiluAndMul:
    case OpKind::kGeluAndMul:
    case OpKind::kGeluTanhAndMul:
    case OpKind::kSilu:
    case OpKind::kGelu:
    case OpKind::kGeluTanh:
    case OpKind::kGeluQuick:
      break; // no number
  }
  return {};
}

//! [kernel]
template <Compute* compute, OpKind op, Operands operands, typename... Numbers>
struct Kernel {
  // (Tensor! out, Tensor input, ...) -> ()
  static void write(
      const Tensor& out, const Tensor& input, Numbers... numbers) {
    check_args(operands, out, input);
    const Dtype dtype = check_dtype(input);
    if (out.numel() == 0) {
      return;
    }
    const bool contiguous = out.is_contiguous();
    Tensor to = contiguous ? out : torch::stable::new_empty(out, out.sizes());
    const Tensor from = with_even_rows(input);
    const Rows rows = flatten_rows(operands, dtype, to, from);
    const int32_t device = input.get_device_index();
    compute(op, dtype, rows, options_of(op, numbers...), device);
    if (!contiguous) { // back to where it was asked for
      Tensor result = out;
      torch::stable::copy_(result, to);
    }
  }

  // (Tensor input, ...) -> Tensor
  static Tensor functional(const Tensor& input, Numbers... numbers) {
    Tensor out = torch::stable::new_empty(input, result_sizes(operands, input));
    write(out, input, numbers...);
    return out;
  }
};
//! [kernel]

// No data, and no size is read, for sizes may be symbols.
template <Operands operands, typename... Numbers>
struct MetaKernel {
  static void write(const Tensor&, const Tensor&, Numbers...) {}

  static Tensor functional(const Tensor& input, Numbers...) {
    return empty_contiguous(
        operands == Operands::kOne ? input : gate_view(input));
  }
};

// --- all ops -----------------------------------------------------------------

using Boxed = void (*)(StableIValue*, uint64_t, uint64_t);

// `functional` is the op <name>_functional. It is no overload of the other:
// torch.library.opcheck takes an op with two only if the overload is named.
struct Boxes {
  Boxed write;
  Boxed functional;
};

template <typename Kernel>
constexpr Boxes boxes_of() {
  return {CHECKED_BOX(&Kernel::write), CHECKED_BOX(&Kernel::functional)};
}

//! [table]
struct Op {
  const char* name;
  const char* numbers; // of both schemas, behind `input`
  Boxes cpu, cuda, meta;
};

template <OpKind op, Operands operands, typename... Numbers>
constexpr Op entry(const char* name, const char* numbers = "") {
  return {
    name, numbers,
        boxes_of<Kernel<&activation_cpu, op, operands, Numbers...>>(),
#if defined(CUDA_KERNEL)
        boxes_of<Kernel<&activation_cuda, op, operands, Numbers...>>(),
#else
        {},
#endif
        boxes_of<MetaKernel<operands, Numbers...>>()
  };
}

constexpr Op kOps[] = {
    entry<OpKind::kSiluAndMul, Operands::kGateUp>("silu_and_mul"),
    entry<OpKind::kSiluAndMul, Operands::kUpGate>("mul_and_silu"),
    entry<OpKind::kGeluAndMul, Operands::kGateUp>("gelu_and_mul"),
    entry<OpKind::kGeluTanhAndMul, Operands::kGateUp>("gelu_tanh_and_mul"),
    entry<OpKind::kFatreluAndMul, Operands::kGateUp, double>(
        "fatrelu_and_mul", ", float threshold=0.0"),
    entry<OpKind::kSiluAndMulWithClamp, Operands::kGateUp, double>(
        "silu_and_mul_with_clamp", ", float limit"),
    entry<OpKind::kSwigluoaiAndMul, Operands::kInterleaved, double, double>(
        "swigluoai_and_mul", ", float alpha=1.702, float limit=7.0"),
    entry<OpKind::kSilu, Operands::kOne>("silu"),
    entry<OpKind::kGelu, Operands::kOne>("gelu"),
    entry<OpKind::kGeluTanh, Operands::kOne>("gelu_tanh"),
    entry<OpKind::kGeluTanh, Operands::kOne>("gelu_new"),
    entry<OpKind::kGeluTanh, Operands::kOne>("gelu_fast"),
    entry<OpKind::kGeluQuick, Operands::kOne>("gelu_quick"),
};
//! [table]

using Library = torch::stable::detail::StableLibrary;

//! [define]
void define(Library& m, const Op& op) {
  const std::string name = op.name;
  const std::string input = std::string("Tensor input") + op.numbers;
  m.def((name + "(Tensor! out, " + input + ") -> ()").c_str());
  m.def((name + "_functional(" + input + ") -> Tensor").c_str());
}
//! [define]
void implement(Library& m, Boxes Op::*device) {
  for (const Op& op : kOps) {
    const std::string name = op.name;
    m.impl(op.name, (op.*device).write);
    m.impl((name + "_functional").c_str(), (op.*device).functional);
  }
}

} // namespace
} // namespace wb

//! [registration]
STABLE_TORCH_LIBRARY_EXPAND(OPS, m) {
  for (const wb::Op& op : wb::kOps) {
    wb::define(m, op);
  }
}
STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPS, CPU, m) {
  wb::implement(m, &wb::Op::cpu);
}
#if defined(CUDA_KERNEL)
STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPS, CUDA, m) {
  wb::implement(m, &wb::Op::cuda);
}
#endif
STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPS, Meta, m) {
  wb::implement(m, &wb::Op::meta);
}
//! [registration]

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
