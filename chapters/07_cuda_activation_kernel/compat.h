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

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <vector>

// Hidden: extensions with other targets, in the same process, have their own.
#pragma GCC visibility push(hidden)
namespace compat {

using torch::stable::Tensor;
namespace detail = torch::stable::detail;

//! [abi_report]
// "2.13.0"
inline std::string version_text(uint64_t version) {
  const auto byte = [version](int shift) {
    return std::to_string(version >> shift & 0xff);
  };
  return byte(56) + "." + byte(48) + "." + byte(40);
}

inline std::string abi_report() {
  return "built with " + version_text(TORCH_ABI_VERSION) + ", targets " +
      version_text(TORCH_TARGET_VERSION) + ", runs on " +
      version_text(aoti_torch_abi_version());
}
//! [abi_report]

//! [symbol]
// A function that the process may lack: null then. It is sought in what the
// extension is linked with; `library` is one that may be loaded besides.
template <class Function>
Function* symbol(const char* name, const char* library = nullptr) {
  void* const loaded =
      library ? dlopen(library, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  return reinterpret_cast<Function*>(
      dlsym(loaded ? loaded : RTLD_DEFAULT, name));
}

// Throws instead. A static initialised by it tries again at its next call.
template <class Function>
Function* needed(const char* name, const char* library = nullptr) {
  auto* const found = symbol<Function>(name, library);
  const std::string running = version_text(aoti_torch_abi_version());
  STD_TORCH_CHECK(found, name, " is not loaded, with libtorch ", running);
  return found;
}
//! [symbol]

//! [error_text]
// Why this thread's last call of libtorch failed.
inline std::string error_text() {
  static const auto text =
      symbol<const char*()>("torch_exception_get_what_without_backtrace");
  return text ? text() : "libtorch before 2.13 wrote the reason to stderr";
}
//! [error_text]

// Throws std::runtime_error, with the reason, if a call of libtorch failed.
inline void check(AOTITorchError code, const char* call) {
  STD_TORCH_CHECK(code == TORCH_SUCCESS, call, ": ", error_text());
}

//! [from_blob]
// A tensor that owns `data`: `deleter(data)` runs once, when the tensor dies;
// below target 2.11, which copies, at once. (A copy on a GPU is asynchronous:
// `deleter` must wait for it.) If this throws, `data` is still the caller's.
inline Tensor from_blob(
    void* data,
    torch::headeronly::IntHeaderOnlyArrayRef sizes,
    torch::headeronly::IntHeaderOnlyArrayRef strides,
    torch::stable::Device device,
    torch::headeronly::ScalarType dtype,
    void (*deleter)(void*)) {
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
  const char* const op = "aten::permute";
  StableIValue stack[] = {detail::from(self), detail::from(dims)};
  check(torch_call_dispatcher(op, "", stack, TORCH_ABI_VERSION), op);
  return detail::to<Tensor>(stack[0]);
#endif
}
//! [permute]

//! [current_stream]
// The device's own handle of its current stream: a cudaStream_t on CUDA.
inline void* current_stream(int32_t device) {
#if COMPAT_TARGET(2, 13)
  return torch::stable::accelerator::getCurrentStream(device).nativeHandle();
#else
  const char* const name = "aoti_torch_get_current_cuda_stream";
  using Function = AOTITorchError(int32_t, void**);
  static const auto get = needed<Function>(name, "libtorch_cuda.so");
  void* stream = nullptr;
  check(get(device, &stream), name);
  return stream;
#endif
}
//! [current_stream]

} // namespace compat
#pragma GCC visibility pop
