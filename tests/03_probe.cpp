// The library that the tests of chapter 03 load: the folder under test, exports
// that call its functions, and kernels and ops that are written with stack.h.
// Handles that come in are borrowed, handles that go out are new.
#include "stack_conventions.cpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace probe {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
namespace detail = torch::stable::detail;

Tensor borrow(AtenTensorHandle handle) {
  AtenTensorHandle mine = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(handle, &mine));
  return Tensor(mine);
}
AtenTensorHandle lend(const Tensor& tensor) {
  AtenTensorHandle theirs = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(tensor.get(), &theirs));
  return theirs;
}

// (Six) -> (Six): gives back what it takes, unless `fail` says to throw
// between.
using Six = std::tuple<
    Tensor,
    std::optional<ScalarType>,
    std::vector<Tensor>,
    std::string,
    std::vector<std::optional<Tensor>>,
    ScalarType>;
bool fail = false;
template <class... T>
void echo(
    StableIValue* slots,
    uint64_t num_args,
    uint64_t num_returns,
    const std::tuple<T...>*) {
  const auto values = stack::take<T...>(slots, num_args);
  STD_TORCH_CHECK(!fail, "thrown by the body");
  std::apply(
      [&](const T&... value) { stack::give(slots, num_returns, value...); },
      values);
}
void echo_six(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  echo(slots, num_args, num_returns, static_cast<Six*>(nullptr));
}

// Values for the six; the last is refused if `dtype` cannot be converted.
Six values(AtenTensorHandle handle, ScalarType dtype) {
  const Tensor tensor = borrow(handle);
  return {
      tensor,
      ScalarType::Float,
      {tensor, tensor},
      "longer than the small buffer",
      {tensor, std::nullopt},
      dtype};
}

// six(...) -> (): takes all and throws.
template <class... T>
void take(StableIValue* slots, uint64_t count, const std::tuple<T...>*) {
  stack::take<T...>(slots, count);
}
void six(StableIValue* slots, uint64_t num_args, uint64_t) {
  take(slots, num_args, static_cast<Six*>(nullptr));
  STD_TORCH_CHECK(false, "thrown by the body");
}

// Five tensors and a dtype, in slot K: the one that can be refused.
template <int K, int... I>
void take_six_at(
    StableIValue* slots, uint64_t num_args, std::integer_sequence<int, I...>) {
  stack::take<std::conditional_t<I == K, ScalarType, Tensor>...>(
      slots, num_args);
}
template <int K>
void six_at(StableIValue* slots, uint64_t num_args, uint64_t) {
  take_six_at<K>(slots, num_args, std::make_integer_sequence<int, 6>());
}

// nest(Tensor x, int depth, bool fail) -> Tensor: calls itself, then passes on
// what it got.
void nest(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto [x, depth, fails] =
      stack::take<Tensor, int64_t, bool>(slots, num_args);
  STD_TORCH_CHECK(depth > 0 || !fails, "thrown at the bottom");
  if (depth == 0) {
    stack::give(slots, num_returns, x);
    return;
  }
  const auto [below] =
      stack::call<Tensor>("wb03_probe::nest", "", x, depth - 1, fails);
  stack::give(slots, num_returns, below);
}

void nothing(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  stack::take<>(slots, num_args);
  stack::give(slots, num_returns);
}

// lists(int[][] x) -> int[][]: what it got.
void lists(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto [x] =
      stack::take<std::vector<std::vector<int64_t>>>(slots, num_args);
  stack::give(slots, num_returns, x);
}

using Kernel = void(StableIValue*, uint64_t, uint64_t);

} // namespace probe

EXPORT AtenTensorHandle wb03_divide(AtenTensorHandle a, AtenTensorHandle b) {
  return probe::lend(by_hand::divide(probe::borrow(a), probe::borrow(b)));
}
EXPORT void wb03_frexp(AtenTensorHandle input, AtenTensorHandle* out) {
  const auto [mantissa, exponent] = by_hand::frexp(probe::borrow(input));
  out[0] = probe::lend(mantissa);
  out[1] = probe::lend(exponent);
}
EXPORT AtenTensorHandle wb03_square(AtenTensorHandle input) {
  return probe::lend(by_hand::square(input));
}
EXPORT void wb03_multiply_into(
    AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle other) {
  by_hand::multiply_into(
      probe::borrow(out), probe::borrow(self), probe::borrow(other));
}
EXPORT probe::Kernel* wb03_gate_and_up() {
  return &by_hand::boxed_gate_and_up;
}
EXPORT probe::Kernel* wb03_echo_six() {
  return &probe::echo_six;
}
EXPORT probe::Kernel* wb03_six_at(int k) {
  constexpr probe::Kernel* kernels[] = {
      &probe::six_at<0>,
      &probe::six_at<1>,
      &probe::six_at<2>,
      &probe::six_at<3>,
      &probe::six_at<4>,
      &probe::six_at<5>};
  return kernels[k];
}
EXPORT probe::Kernel* wb03_lists() {
  return &probe::lists;
}
EXPORT void wb03_fail(bool fail) {
  probe::fail = fail;
}
EXPORT void wb03_call_six(AtenTensorHandle tensor, probe::ScalarType dtype) {
  std::apply(
      [](const auto&... value) {
        stack::call<>("wb03_probe::six", "", value...);
      },
      probe::values(tensor, dtype));
}
EXPORT void wb03_call_frexp(AtenTensorHandle input, AtenTensorHandle* out) {
  const auto [mantissa, exponent] = stack::call<probe::Tensor, probe::Tensor>(
      "aten::frexp", "Tensor", probe::borrow(input));
  out[0] = probe::lend(mantissa);
  out[1] = probe::lend(exponent);
}
EXPORT void wb03_call_nothing() {
  stack::call<>("wb03_probe::nothing", "");
}
EXPORT void wb03_call_absent(AtenTensorHandle input) {
  stack::call<>("wb03_probe::absent", "", probe::borrow(input));
}

STABLE_TORCH_LIBRARY(wb03_probe, m) {
  m.def(
      "six(Tensor a, ScalarType? b, Tensor[] c, str d, Tensor?[] e, "
      "ScalarType f) -> ()");
  m.def("nest(Tensor x, int depth, bool fail) -> Tensor");
  m.def("nothing() -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(wb03_probe, CompositeExplicitAutograd, m) {
  m.impl("six", &probe::six);
  m.impl("nest", &probe::nest);
  m.impl("nothing", &probe::nothing);
}
