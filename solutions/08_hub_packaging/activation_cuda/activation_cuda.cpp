// Every op on CUDA: device, stream, launch. No CUDA header is needed here.
#include "activation_cuda.h"
#include "current_stream.h"
#include "launch_activation.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/headeronly/util/Exception.h>

namespace wb {

void activation_cuda(
    OpKind op,
    Dtype dtype,
    const Rows& rows,
    const Options& options,
    int32_t device) {
  // A stream belongs to a device, which must be the current one.
  const torch::stable::accelerator::DeviceGuard guard(device);
  const char* const error =
      cuda::launch_activation(op, dtype, rows, options, current_stream(device));
  STD_TORCH_CHECK(error == nullptr, "CUDA says: ", error);
}

} // namespace wb
