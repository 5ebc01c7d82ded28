// What a gate costs: a function of libtorch that only returns a number, called
// directly and behind each kind of gate. The call itself is as cheap as one to
// libtorch can be, so any real one makes the ratios smaller.
#include "bench/bench.h"
#include "testing/library.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace workbook {
namespace {

constexpr int64_t kCalls = 1000;

Member member(const char* name, Role role, const char* symbol) {
  auto* const calls = function<int64_t(int64_t)>(symbol);
  const auto sum = std::make_shared<int64_t>(0);
  return {
      name,
      role,
      [calls, sum] { *sum = calls(kCalls); },
      [sum] { *sum = -1; },
      [sum]() -> std::string {
        return *sum == kCalls * aoti_torch_dtype_float32()
            ? ""
            : "the sum of the results is " + std::to_string(*sum);
      },
      role == Role::kPeer};
}

std::vector<Group> groups(bool) {
  return {{"gate", "", std::to_string(kCalls) + " calls", "warm", 0, 1, [] {
             return std::vector<Member>{
                 member("no gate", Role::kFloor, "wb06_no_gate"),
                 member("solution", Role::kSubject, "wb06_compile_time_gate"),
                 member("if (version)", Role::kPeer, "wb06_run_time_gate"),
                 member("looked up once", Role::kPeer, "wb06_looked_up_once"),
                 member(
                     "looked up each time",
                     Role::kPeer,
                     "wb06_looked_up_each_time")};
           }}};
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  return workbook::run_benchmarks(
      "06_version_gating", workbook::groups, argc, argv);
}
