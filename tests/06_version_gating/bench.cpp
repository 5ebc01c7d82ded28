// What a gate costs: a function of libtorch that only returns a number, called
// directly and behind each kind of gate. The call itself is as cheap as one to
// libtorch can be, so any real one makes the ratios smaller.
#include "bench/bench.h"
#include "../../solutions/06_version_gating/compat.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Is as cheap as aoti_torch_dtype_float32, and declared as one that may be
// missing.
extern "C" __attribute__((weak)) int32_t aoti_torch_dtype_float64();

namespace workbook {
namespace {

constexpr int64_t kCalls = 1000;

template <typename Call>
Member member(const char* name, Role role, const Call& call) {
  const auto sum = std::make_shared<int64_t>(0);
  return {
      name,
      role,
      [call, sum] {
        int64_t total = 0;
        for (int64_t i = 0; i < kCalls; ++i) {
          total += call();
        }
        *sum = total;
      },
      [sum] { *sum = -1; },
      [call, sum]() -> std::string {
        return *sum == kCalls * call()
            ? ""
            : "the sum of the results is " + std::to_string(*sum);
      }};
}

int32_t looked_up() {
  using Function = int32_t();
  return reinterpret_cast<Function*>(
      dlsym(RTLD_DEFAULT, "aoti_torch_dtype_float32"))();
}

std::vector<Group> groups(bool) {
  return {
      {"gate",
       "",
       std::to_string(kCalls) + " calls",
       "warm",
       0,
       1,
       {member(
            "no gate", Role::kFloor, [] { return aoti_torch_dtype_float32(); }),
        member(
            "#if (target)",
            Role::kSubject,
            [] {
#if COMPAT_TARGET(2, 10)
              return aoti_torch_dtype_float32();
#else
              return 0;
#endif
            }),
        member(
            "weak",
            Role::kPeer,
            [] {
              return aoti_torch_dtype_float64 != nullptr
                  ? aoti_torch_dtype_float64()
                  : 0;
            }),
        member(
            "if (version)",
            Role::kPeer,
            [] {
              return aoti_torch_abi_version() >= COMPAT_VERSION(2, 10)
                  ? aoti_torch_dtype_float32()
                  : 0;
            }),
        member("dlsym each time", Role::kPeer, looked_up)}}};
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  return workbook::run_benchmarks(workbook::groups, argc, argv);
}
