// silu_and_mul and its relatives for CPU and CUDA: checks, the plan, the
// launch. The kernel is in gated.h; no CUDA header is needed here.
#include "checks.h"
#include "compat.h"
#include "launch.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>

namespace activation {
namespace {

// One call, after the checks.
struct Task {
  Op op;
  Dtype dtype;
  Halves halves;
};

//! [cpu]
// The launch on the host, its blocks shared by libtorch's threads.
template <class T>
void run_on_cpu(const Task& task, const Problem& problem, const Plan& plan) {
  torch::stable::parallel_for(
      0, plan.blocks(problem.vectors), 8, [&](int64_t begin, int64_t end) {
        run_on_host<T>(
            problem,
            task.halves,
            AnyOp{task.op},
            plan,
            static_cast<uint32_t>(begin),
            static_cast<uint32_t>(end));
      });
}

struct Cpu {
  explicit Cpu(const Tensor&) {}

  void run(const Task& task, const Problem& problem, const Plan& plan) const {
    switch (task.dtype) {
      case Dtype::kFloat:
        return run_on_cpu<float>(task, problem, plan);
      default: // TODO(07.3): the same with c10::Half and c10::BFloat16
        STD_TORCH_CHECK(false, "TODO(07.3): half and bfloat16");
    }
  }
};
//! [cpu]

//! [cuda]
#ifdef WITH_CUDA
struct Cuda {
  explicit Cuda(const Tensor& input) : index(input.get_device_index()) {}

  void run(const Task& task, const Problem& problem, const Plan& plan) const {
    STD_TORCH_CHECK(false, "TODO(07.2): device, stream, launch, error");
    launch(task.op, task.dtype, problem, task.halves, plan, nullptr);
  }

  int32_t index;
};
#endif
//! [cuda]

//! [gated]
// out = f(gate) * up, one half of the input's last dimension each. Waits for
// nothing, and allocates only to copy an input whose rows are not evenly apart.
template <class Device>
void gated(const Tensor& out, const Tensor& any, Op op, bool swapped) {
  check_out(out, any);
  const Dtype dtype = dtype_of(any);
  if (out.numel() == 0) {
    return; // no rows, or rows of nothing
  }
  const Device device(any);
  const auto stride = row_stride(any);
  const Tensor input = stride ? any : torch::stable::contiguous(any);
  const int64_t d = out.size(-1);
  const Tensors tensors{
      input.const_data_ptr(),
      out.mutable_data_ptr(),
      out.numel() / d,
      d,
      stride.value_or(2 * d),
      dtype == Dtype::kFloat ? 4 : 2};
  const Task task{op, dtype, swapped ? Halves{d, 0} : Halves{0, d}};
  const int width = vector_width(tensors);
  for_each_piece(tensors, width, kMostVectors, [&](const Problem& problem) {
    device.run(task, problem, plan_for(problem.vectors, width));
  });
}
//! [gated]

// Boxed by hand: faster to compile than TORCH_BOX. Steals both arguments.
template <class Device, Op op, bool swapped = false>
void boxed(StableIValue* stack, uint64_t, uint64_t) {
  const auto out = torch::stable::detail::to<Tensor>(stack[0]);
  const auto input = torch::stable::detail::to<Tensor>(stack[1]);
  gated<Device>(out, input, op, swapped);
}

template <class Device>
void register_ops(torch::stable::detail::StableLibrary& m) {
  m.impl("silu_and_mul", &boxed<Device, Op::kSilu>);
  m.impl("mul_and_silu", &boxed<Device, Op::kSilu, true>);
  m.impl("gelu_and_mul", &boxed<Device, Op::kGelu>);
  m.impl("gelu_tanh_and_mul", &boxed<Device, Op::kGeluTanh>);
}

void boxed_nothing(StableIValue* stack, uint64_t, uint64_t) {
  (void)torch::stable::detail::to<Tensor>(stack[0]); // released
  (void)torch::stable::detail::to<Tensor>(stack[1]);
}

} // namespace
} // namespace activation

STABLE_TORCH_LIBRARY(wb07, m) {
  m.def("silu_and_mul(Tensor! out, Tensor input) -> ()");
  m.def("mul_and_silu(Tensor! out, Tensor input) -> ()");
  m.def("gelu_and_mul(Tensor! out, Tensor input) -> ()");
  m.def("gelu_tanh_and_mul(Tensor! out, Tensor input) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(wb07, CPU, m) {
  activation::register_ops<activation::Cpu>(m);
}
#ifdef WITH_CUDA
STABLE_TORCH_LIBRARY_IMPL(wb07, CUDA, m) {
  activation::register_ops<activation::Cuda>(m);
}
#endif
STABLE_TORCH_LIBRARY_IMPL(wb07, Meta, m) {
  for (const char* op :
       {"silu_and_mul", "mul_and_silu", "gelu_and_mul", "gelu_tanh_and_mul"}) {
    m.impl(op, &activation::boxed_nothing);
  }
}
