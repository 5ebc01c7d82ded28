// What both libraries of this folder have in common: the schemas, and how a
// crossing inside a kernel is timed. `Tensor` is torch::stable's or ATen's.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace cost {

// Ops that take arguments and do nothing; `seen` tells what the last one saw.
constexpr const char* kArguments[] = {
    "empty() -> ()",
    "tensor(Tensor x) -> ()",
    "two_tensors(Tensor x, Tensor y) -> ()",
    "optional(Tensor x, Tensor? y) -> ()",
    "tensors(Tensor x, Tensor[] ys) -> ()",
    "integers(Tensor x, int[] ns) -> ()",
    "integer(Tensor x, int n) -> ()",
    "number(Tensor x, float n) -> ()",
    "string(Tensor x, str s) -> ()",
    "device(Tensor x, Device d) -> ()",
    "dtype(Tensor x, ScalarType t) -> ()",
    "returned(Tensor x) -> Tensor",
};
// `crossing` returns the seconds that a crossing took, `crossed` what it gave.
constexpr const char* kOthers[] = {
    "seen() -> int",
    "crossing(Tensor x, str what, int times) -> float",
    "crossed(Tensor x, str what) -> Tensor",
    "fresh(Tensor x) -> Tensor",
    "product(Tensor x, Tensor y) -> Tensor",
    "difference(Tensor x, Tensor y, Tensor? index) -> Tensor",
};

template <typename Library>
void define(Library& library) {
  for (const char* schema : kArguments) {
    library.def(schema);
  }
  for (const char* schema : kOthers) {
    library.def(schema);
  }
}

template <typename F>
double time(int64_t times, F f) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (int64_t i = 0; i < times; ++i) {
    const auto result = f();
    asm volatile("" : : "r"(&result) : "memory"); // as if somebody read it
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <typename Tensor>
struct Crossing {
  const char* name;
  double (*seconds)(const Tensor& x, int64_t times);
  Tensor (*result)(const Tensor& x);
};

// `once` is a function of x that returns a tensor or an integer, and
// `to_tensor` makes a tensor of the integer.
template <typename Tensor, auto once, auto to_tensor>
Crossing<Tensor> crossing(const char* name) {
  return {
      name,
      [](const Tensor& x, int64_t times) {
        return time(times, [&x] { return once(x); });
      },
      [](const Tensor& x) -> Tensor {
        if constexpr (std::is_same_v<decltype(once(x)), Tensor>) {
          return once(x);
        } else {
          return to_tensor(once(x));
        }
      }};
}

template <typename Crossings>
const auto& find(const Crossings& crossings, std::string_view name) {
  for (const auto& one : crossings) {
    if (name == one.name) {
      return one;
    }
  }
  throw std::runtime_error("no such crossing");
}

} // namespace cost
