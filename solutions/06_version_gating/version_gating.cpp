// 06 version gating: ops that use newer APIs where they may and do without
// where they must. Compiled twice: for every libtorch since 2.10, and for the
// version of the headers.
#include "compat.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace wb {
namespace {

using torch::headeronly::DeviceType;
using torch::headeronly::ScalarType;
using torch::stable::Device;

// 0, 1, 2, ... in a buffer that comes from new, not from libtorch.
Tensor count(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) {
    STD_TORCH_CHECK(size >= 0, "a size must not be negative, got ", size);
    STD_TORCH_CHECK(size == 0 || n <= INT64_MAX / size, "too many elements");
    n *= size;
  }
  auto buffer = std::make_unique<int64_t[]>(static_cast<size_t>(n));
  std::iota(buffer.get(), buffer.get() + n, 0);
  Tensor result = wb::from_blob(
      buffer.get(),
      sizes,
      Device(DeviceType::CPU),
      ScalarType::Long,
      [](void* data) { delete[] static_cast<int64_t*>(data); });
  (void)buffer.release(); // the tensor's now
  return result;
}

int64_t stream(int64_t device) {
  STD_TORCH_CHECK(
      device >= 0 && device <= INT32_MAX,
      "device must be an index of a device, got ",
      device);
  return reinterpret_cast<int64_t>(
      current_stream(static_cast<int32_t>(device)));
}

} // namespace
} // namespace wb

// Expands NAMESPACE before it is pasted into names.
#define LIBRARY(name, m) STABLE_TORCH_LIBRARY(name, m)
#define LIBRARY_IMPL(name, key, m) STABLE_TORCH_LIBRARY_IMPL(name, key, m)

LIBRARY(NAMESPACE, m) {
  m.def("abi_report() -> str");
  m.def("is_supported() -> bool");
  m.def("count(int[] sizes) -> Tensor");
  m.def("permute(Tensor(a) self, int[] dims) -> Tensor(a)");
  m.def("current_stream(int device) -> int");
}

LIBRARY_IMPL(NAMESPACE, CompositeExplicitAutograd, m) {
  m.impl("abi_report", TORCH_BOX(&wb::abi_report));
  m.impl("is_supported", TORCH_BOX(&wb::is_supported));
  m.impl("count", TORCH_BOX(&wb::count));
  m.impl("permute", TORCH_BOX(&wb::permute));
  m.impl("current_stream", TORCH_BOX(&wb::stream));
}
