// Both libraries of this folder include this: the schemas, the kernels that are
// the same in both, and how a crossing inside a kernel is timed. `Tensor` is
// torch::stable's or ATen's.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
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

// --- kernels that do nothing
// ---------------------------------------------------

inline int64_t seen_last = 0;

inline int64_t seen() {
  return seen_last;
}
inline void empty() {
  seen_last = 0;
}
template <typename Tensor>
void tensor(const Tensor&) {
  seen_last = 1;
}
template <typename Tensor>
void two_tensors(const Tensor&, const Tensor&) {
  seen_last = 2;
}
template <typename Tensor>
void optional(const Tensor&, const std::optional<Tensor>& y) {
  seen_last = y.has_value();
}
template <typename Tensor>
void integer(const Tensor&, int64_t n) {
  seen_last = n;
}
template <typename Tensor>
void number(const Tensor&, double n) {
  seen_last = static_cast<int64_t>(n);
}
template <typename Tensor>
Tensor returned(const Tensor& x) {
  return x;
}

// --- crossings inside a kernel
// -------------------------------------------------

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

template <typename Tensor>
int64_t sizes(const Tensor& x) {
  return x.sizes()[1];
}
template <typename Tensor>
int64_t size(const Tensor& x) {
  return x.size(1);
}
template <typename Tensor>
int64_t strides(const Tensor& x) {
  return x.strides()[0];
}
template <typename Tensor>
int64_t numel(const Tensor& x) {
  return x.numel();
}
template <typename Tensor>
int64_t scalar_type(const Tensor& x) {
  return static_cast<int64_t>(x.scalar_type());
}
template <typename Tensor>
int64_t device_of(const Tensor& x) {
  return x.device().index();
}
template <typename Tensor>
int64_t untyped_pointer(const Tensor& x) {
  return reinterpret_cast<int64_t>(x.const_data_ptr());
}
template <typename Tensor>
int64_t typed_pointer(const Tensor& x) {
  return reinterpret_cast<int64_t>(x.template const_data_ptr<int64_t>());
}
template <typename Tensor>
int64_t is_contiguous(const Tensor& x) {
  return x.is_contiguous();
}
template <typename Tensor, auto to_tensor>
const Crossing<Tensor> kOfMetadata[] = {
    crossing<Tensor, &sizes<Tensor>, to_tensor>("x.sizes()"),
    crossing<Tensor, &size<Tensor>, to_tensor>("x.size(1)"),
    crossing<Tensor, &strides<Tensor>, to_tensor>("x.strides()"),
    crossing<Tensor, &numel<Tensor>, to_tensor>("x.numel()"),
    crossing<Tensor, &scalar_type<Tensor>, to_tensor>("x.scalar_type()"),
    crossing<Tensor, &device_of<Tensor>, to_tensor>("x.device()"),
    crossing<Tensor, &untyped_pointer<Tensor>, to_tensor>("x.const_data_ptr()"),
    crossing<Tensor, &typed_pointer<Tensor>, to_tensor>(
        "x.const_data_ptr<int64_t>()"),
    crossing<Tensor, &is_contiguous<Tensor>, to_tensor>("x.is_contiguous()"),
    crossing<Tensor, &returned<Tensor>, to_tensor>("copy of a Tensor"),
};

// Returns the crossing of this name, of those of metadata and of `others`.
template <typename Tensor, auto to_tensor, size_t count>
const Crossing<Tensor>& find(
    const Crossing<Tensor> (&others)[count], std::string_view name) {
  for (const auto& one : kOfMetadata<Tensor, to_tensor>) {
    if (name == one.name) {
      return one;
    }
  }
  for (const auto& one : others) {
    if (name == one.name) {
      return one;
    }
  }
  throw std::runtime_error("no such crossing");
}

} // namespace cost
