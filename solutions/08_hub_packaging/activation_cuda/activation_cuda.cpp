// Every op on CUDA: the plan and the launch. No CUDA header is needed here.
#include "activation_cuda.h"
#include "../torch-ext/arguments.h"
#include "launch.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/headeronly/util/Exception.h>

//! [stream]
// Of libtorch_cuda.so, declared by torch only where all of CUDA is. Weak, so
// that the library loads without it; and by no dlsym, which asks for
// glibc 2.34.
extern "C" __attribute__((weak)) AOTITorchError
aoti_torch_get_current_cuda_stream(int32_t device, void** stream);

static void* current_stream(int32_t device) {
  STD_TORCH_CHECK(
      aoti_torch_get_current_cuda_stream != nullptr,
      "activation: this torch has no CUDA");
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return stream;
}
//! [stream]

void activation_cuda(
    Op op,
    const torch::stable::Tensor& out,
    const torch::stable::Tensor& input,
    const Numbers& numbers) {
  const Arguments a(op, out, input);
  if (a.rows == 0) {
    return; // a launch of no blocks is an error
  }
  // A stream belongs to a device, which must be the current one.
  const torch::stable::accelerator::DeviceGuard guard(input.get_device_index());
  void* const stream = current_stream(input.get_device_index());
  const activation::Tensors tensors{
      a.input.const_data_ptr(),
      a.out.mutable_data_ptr(),
      a.rows,
      a.d,
      a.stride,
      a.dtype == kFloat ? 4 : 2};
  const int width = activation::vector_width(tensors);
  activation::for_each_piece(
      tensors,
      width,
      activation::kMostVectors,
      [&](const activation::Problem& problem) {
        const char* const error = launch(
            op,
            a.dtype,
            problem,
            a.d,
            numbers,
            activation::plan_for(problem.vectors, width),
            stream);
        STD_TORCH_CHECK(error == nullptr, "activation: CUDA says: ", error);
      });
  a.finish(out);
}
