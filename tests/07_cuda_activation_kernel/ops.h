// Calls of the ops of chapter 07, through libtorch's dispatcher for tensors on
// the CPU and on Meta, and directly for the pretended GPU.
#pragma once

#include "fake_gpu.h"
#include "inputs.h"
#include "probe.h"
#include "testing/dispatcher.h"
#include "testing/library.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace workbook::chapter_07 {

// Loads the library with the ops, which lies beside the probe's library.
inline void load_ops() {
  static void* const loaded = [] {
    Dl_info info;
    dladdr(library_symbol("wb07_probe_trace"), &info);
    const auto beside = std::filesystem::path(info.dli_fname)
                            .replace_filename("libcuda_activation_kernel.so");
    void* const handle = dlopen(beside.c_str(), RTLD_LAZY);
    return handle ? handle : throw std::runtime_error(dlerror());
  }();
  (void)loaded;
}

inline void call_out(const Tensor& out, const Tensor& input) {
  load_ops();
  StableIValue stack[] = {
      torch::stable::detail::from(out), torch::stable::detail::from(input)};
  call_op("wb07::silu_and_mul", "out", stack);
}

// Calls an op that takes one or two tensors and returns one.
template <typename... Tensors>
Tensor call(const std::string& op, const Tensors&... tensors) {
  load_ops();
  StableIValue stack[] = {torch::stable::detail::from(tensors)...};
  call_op("wb07::" + op, "", stack);
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// Calls the kernel that is registered for CUDA, as libtorch would.
template <size_t N>
void call_cuda(const std::string& op, StableIValue (&stack)[N], int returns) {
  load_ops();
  const auto found = pretend::state().kernels.find("CUDA " + op);
  if (found == pretend::state().kernels.end()) {
    throw std::runtime_error(
        "no kernel for CUDA: without nvcc the folder is built for CPU only; "
        "./workbook nvcc --fetch gets one");
  }
  found->second(stack, N, static_cast<uint64_t>(returns));
}

inline void call_cuda_out(const Tensor& out, const Tensor& input) {
  StableIValue stack[] = {
      torch::stable::detail::from(out), torch::stable::detail::from(input)};
  call_cuda("silu_and_mul.out", stack, 0);
}

// Launches silu_and_mul of [rows, 2d] on the pretended GPU.
inline void launch_untouched(
    int64_t rows, int64_t d, ScalarType dtype = ScalarType::BFloat16) {
  call_cuda_out(
      untouched({rows, d}, {d, 1}, dtype, kOut),
      untouched({rows, 2 * d}, {2 * d, 1}, dtype, kInput));
}

// One of the three ops, and a call of it.
struct Op {
  std::string name;
  std::function<void()> call;
};
inline std::vector<Op> ops_of(const Tensor& out, const Tensor& input) {
  return {
      {"silu_and_mul.out", [=] { call_cuda_out(out, input); }},
      {"silu_and_mul",
       [=] {
         StableIValue stack[] = {torch::stable::detail::from(input)};
         call_cuda("silu_and_mul", stack, 1);
         torch::stable::detail::to<Tensor>(stack[0]);
       }},
      {"silu_and_mul_backward", [=] {
         StableIValue stack[] = {
             torch::stable::detail::from(out),
             torch::stable::detail::from(input)};
         call_cuda("silu_and_mul_backward", stack, 1);
         torch::stable::detail::to<Tensor>(stack[0]);
       }}};
}

} // namespace workbook::chapter_07
