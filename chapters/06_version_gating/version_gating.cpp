// 06 version gating: ops that use newer APIs where they may and do without
// where they must. Compiled twice: for every libtorch since 2.10, and for the
// version of the headers.
#include "compat.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

using torch::headeronly::ScalarType;
using torch::stable::Device;
using torch::stable::Tensor;
namespace stable = torch::stable;

namespace {

// Buffers of count() that have not been deleted yet.
std::atomic<int64_t> alive{0};

// 0, 1, ... n - 1 in a buffer that comes from new, not from libtorch.
Tensor count(int64_t n) {
  STD_TORCH_CHECK(n >= 0, "n must not be negative, got ", n);
  auto buffer = std::make_unique<int64_t[]>(static_cast<size_t>(n));
  std::iota(buffer.get(), buffer.get() + n, 0);
  Tensor result = compat::from_blob(
      buffer.get(),
      {n},
      {1},
      Device(torch::headeronly::DeviceType::CPU),
      ScalarType::Long,
      [](void* data) {
        delete[] static_cast<int64_t*>(data);
        --alive;
      });
  (void)buffer.release(); // the tensor's now
  ++alive;
  return result;
}

// What compat::check throws when a call of libtorch fails.
std::string failing_call() {
  try {
    uint32_t type = 0;
    int32_t index = 0;
    compat::check(torch_parse_device_string("gpu", &type, &index), "device");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

template <class Call>
int64_t repeat(int64_t times, const Call& call) {
  int64_t sum = 0;
  for (int64_t i = 0; i < times; ++i) {
    sum += call();
  }
  return sum;
}

} // namespace

// Expands NAMESPACE before it is pasted into names.
#define LIBRARY(name, m) STABLE_TORCH_LIBRARY(name, m)
#define LIBRARY_IMPL(name, key, m) STABLE_TORCH_LIBRARY_IMPL(name, key, m)

LIBRARY(NAMESPACE, m) {
  m.def("version_text(int version) -> str");
  m.def("abi_report() -> str");
  m.def("count(int n) -> Tensor");
  m.def("buffers_alive() -> int");
  m.def("permute(Tensor(a) self, int[] dims) -> Tensor(a)");
  m.def("failing_call() -> str");
  m.def("current_stream(int device) -> int");
}

// Boxed by hand, which compiles in half the time that TORCH_BOX takes.
LIBRARY_IMPL(NAMESPACE, CompositeExplicitAutograd, m) {
  m.impl("version_text", [](StableIValue* stack, uint64_t, uint64_t) {
    stack[0] = stable::detail::from(compat::version_text(stack[0]));
  });
  m.impl("abi_report", [](StableIValue* stack, uint64_t, uint64_t) {
    stack[0] = stable::detail::from(compat::abi_report());
  });
  m.impl("count", [](StableIValue* stack, uint64_t, uint64_t) {
    stack[0] =
        stable::detail::from(count(stable::detail::to<int64_t>(stack[0])));
  });
  m.impl("buffers_alive", [](StableIValue* stack, uint64_t, uint64_t) {
    stack[0] = stable::detail::from(alive.load());
  });
  m.impl("permute", [](StableIValue* stack, uint64_t, uint64_t) {
    const auto self = stable::detail::to<Tensor>(stack[0]);
    const auto dims = stable::detail::to<std::vector<int64_t>>(stack[1]);
    stack[0] = stable::detail::from(compat::permute(self, dims));
  });
  m.impl("failing_call", [](StableIValue* stack, uint64_t, uint64_t) {
    stack[0] = stable::detail::from(failing_call());
  });
  m.impl("current_stream", [](StableIValue* stack, uint64_t, uint64_t) {
    const auto device =
        static_cast<int32_t>(stable::detail::to<int64_t>(stack[0]));
    stack[0] = stable::detail::from(compat::current_stream(device));
  });
}

// What the benchmark times: `times` calls of one function of libtorch, behind
// no gate and behind each kind of gate.
#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int64_t wb06_no_gate(int64_t times) {
  return repeat(times, [] { return aoti_torch_dtype_float32(); });
}
EXPORT int64_t wb06_compile_time_gate(int64_t times) {
#if COMPAT_TARGET(2, 10)
  return repeat(times, [] { return aoti_torch_dtype_float32(); });
#else
  return times;
#endif
}
EXPORT int64_t wb06_run_time_gate(int64_t times) {
  return repeat(times, [] {
    return aoti_torch_abi_version() >= COMPAT_VERSION(2, 10)
        ? aoti_torch_dtype_float32()
        : 0;
  });
}
EXPORT int64_t wb06_looked_up_once(int64_t times) {
  return repeat(times, [] {
    static const auto f = compat::symbol<int32_t()>("aoti_torch_dtype_float32");
    return f();
  });
}
EXPORT int64_t wb06_looked_up_each_time(int64_t times) {
  return repeat(times, [] {
    return compat::symbol<int32_t()>("aoti_torch_dtype_float32")();
  });
}
