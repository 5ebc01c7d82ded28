// Version gates for an extension on PyTorch's stable ABI: what it was built
// with, what it targets, what it runs on, and what it may use of each.
#pragma once

#include <torch/headeronly/version.h>

//! [guard]
// A version as PyTorch packs it, for an #if as well: 2.10 is 0x020a....
#define COMPAT_VERSION(major, minor) \
  (((0ULL + (major)) << 56) | ((0ULL + (minor)) << 48))

#if !defined(TORCH_TARGET_VERSION)
#error "define TORCH_TARGET_VERSION: 2.10 is 0x020a000000000000"
#elif TORCH_TARGET_VERSION < COMPAT_VERSION(2, 10)
#error "TORCH_TARGET_VERSION is below 2.10, which is 0x020a000000000000"
#elif TORCH_TARGET_VERSION > TORCH_ABI_VERSION
#error "TORCH_TARGET_VERSION is newer than the headers (0x0210... is 2.16)"
#endif

// For an #if. A C++ wrapper or a macro needs headers; a function of libtorch
// needs a target: the oldest libtorch that the binary will meet.
#define COMPAT_HEADERS(major, minor) \
  (TORCH_ABI_VERSION >= COMPAT_VERSION(major, minor))
#define COMPAT_TARGET(major, minor) \
  (TORCH_TARGET_VERSION >= COMPAT_VERSION(major, minor))
//! [guard]

#include "error_text.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

//! [weak]
// The function is in libtorch_cuda.so, and on ROCm in libtorch_hip.so; a
// PyTorch for the CPU has it nowhere. It is weak, so that the library loads
// there too: the address is null then. It is also null if the library is not
// linked with libtorch.so, which leads the loader to the other two.
extern "C" __attribute__((weak)) AOTITorchError
aoti_torch_get_current_cuda_stream(int32_t device, void** stream);
//! [weak]

// Hidden: extensions with other targets, in the same process, have their own.
#pragma GCC visibility push(hidden)
namespace wb {

using torch::stable::Tensor;

//! [abi_report]
// "2.13.0": a byte each for major, minor and patch, from the top.
inline std::string version_text(uint64_t version) {
  const auto byte = [version](int shift) {
    return std::to_string(version >> shift & 0xff);
  };
  return byte(56) + "." + byte(48) + "." + byte(40);
}

// Whether the running libtorch is one that the library is made for. An older
// one may load it all the same.
inline bool is_supported() {
  return aoti_torch_abi_version() >= TORCH_TARGET_VERSION;
}

// The first line of a bug report.
inline std::string abi_report() {
  return "built with " + version_text(TORCH_ABI_VERSION) + ", targets " +
      version_text(TORCH_TARGET_VERSION) + ", runs on " +
      version_text(aoti_torch_abi_version());
}
//! [abi_report]

// Throws std::runtime_error, with the reason, if a call of libtorch failed.
inline void check(AOTITorchError code, const char* call) {
  STD_TORCH_CHECK(code == TORCH_SUCCESS, call, ": ", error_text());
}

//! [from_blob]
// A contiguous tensor that owns `data`: `deleter(data)` runs once, when the
// tensor dies; below target 2.11, which copies, at once. (A copy on a GPU is
// asynchronous: `deleter` must wait for it.) If libtorch refuses, this throws,
// and `data` is still the caller's. (If there is no memory for the Tensor
// itself, from target 2.11 on the deleter has run.) Sizes are believed: below
// target 2.11 libtorch's refusal of a negative one is lost.
inline Tensor from_blob(
    void* data,
    torch::headeronly::IntHeaderOnlyArrayRef sizes,
    torch::stable::Device device,
    torch::headeronly::ScalarType dtype,
    void (*deleter)(void*)) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  }
#if COMPAT_TARGET(2, 11)
  return torch::stable::from_blob(data, sizes, strides, device, dtype, deleter);
#else
  Tensor copy = torch::stable::clone(
      torch::stable::from_blob(data, sizes, strides, device, dtype));
  deleter(data);
  return copy;
#endif
}
//! [from_blob]

//! [permute]
// A view of `self` with its dimensions in the order `dims`.
inline Tensor permute(const Tensor& self, const std::vector<int64_t>& dims) {
#if COMPAT_HEADERS(2, 14)
  return torch::stable::permute(self, dims);
#else
  const StableIValue list = torch::stable::detail::from(dims); // may throw
  StableIValue stack[] = {torch::stable::detail::from(self), list};
  check(
      torch_call_dispatcher("aten::permute", "", stack, TORCH_ABI_VERSION),
      "aten::permute");
  return torch::stable::detail::to<Tensor>(stack[0]);
#endif
}
//! [permute]

//! [current_stream]
// The device's own handle of its current stream: a cudaStream_t on CUDA.
inline void* current_stream(int32_t device) {
#if COMPAT_TARGET(2, 13)
  return torch::stable::accelerator::getCurrentStream(device).nativeHandle();
#else
  STD_TORCH_CHECK(
      aoti_torch_get_current_cuda_stream != nullptr,
      "aoti_torch_get_current_cuda_stream is missing: this PyTorch has no GPU "
      "part, or the extension is not linked with libtorch.so");
  void* stream = nullptr;
  check(
      aoti_torch_get_current_cuda_stream(device, &stream),
      "aoti_torch_get_current_cuda_stream");
  return stream;
#endif
}
//! [current_stream]

} // namespace wb
#pragma GCC visibility pop
