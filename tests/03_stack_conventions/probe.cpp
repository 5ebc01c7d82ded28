// The library that the tests of chapter 03 load: the folder under test, exports
// that call its functions, and kernels and ops that are written with stack.h.
// Handles that come in are borrowed, handles that go out are new.
#include "stack_conventions.cpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace wb::probe {

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

using Six = std::tuple<
    Tensor,
    std::optional<ScalarType>,
    std::vector<Tensor>,
    std::string,
    std::vector<std::optional<Tensor>>,
    ScalarType>;
bool fail = false;
// Takes its arguments and, unless `fail` says to throw between, gives them back
// or drops them.
template <typename... T>
void take_six(
    StableIValue* slots,
    uint64_t num_args,
    uint64_t num_returns,
    const std::tuple<T...>*) {
  const auto values = to_values<T...>(slots, num_args);
  STD_TORCH_CHECK(!fail, "thrown by the body");
  if (num_returns > 0) {
    std::apply(
        [&](const T&... value) { from_values(slots, num_returns, value...); },
        values);
  }
}
void six(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  take_six(slots, num_args, num_returns, static_cast<Six*>(nullptr));
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
void throwing_six(StableIValue* slots, uint64_t num_args, uint64_t) {
  six(slots, num_args, 0);
  STD_TORCH_CHECK(false, "thrown by the body");
}

// Five tensors and a dtype, in slot K: the one that can be refused.
template <int K, int... I>
void take_six_at(
    StableIValue* slots, uint64_t num_args, std::integer_sequence<int, I...>) {
  to_values<std::conditional_t<I == K, ScalarType, Tensor>...>(slots, num_args);
}
template <int K>
void six_at(StableIValue* slots, uint64_t num_args, uint64_t) {
  take_six_at<K>(slots, num_args, std::make_integer_sequence<int, 6>());
}

// Six arguments: a window that opens as it is told, and ends without an
// exception when `taken` slots have left it.
struct WindowOf {
  size_t first, last, taken;
} window_of{};
template <typename... T>
void open_window(StableIValue* slots, const std::tuple<T...>*) {
  OwnedSlots<T...> owned{slots, window_of.first, window_of.last};
  for (size_t i = 0; i < window_of.taken; ++i) {
    owned.next();
  }
}
void window(StableIValue* slots, uint64_t, uint64_t) {
  open_window(slots, static_cast<Six*>(nullptr));
}

// Takes twelve tensors. Gives the first of them in all forms, each twice, and
// values that are zeros.
template <int>
using TensorAt = Tensor;
template <int... I>
Tensor first_of(
    StableIValue* slots, uint64_t num_args, std::integer_sequence<int, I...>) {
  return std::get<0>(to_values<TensorAt<I>...>(slots, num_args));
}
void each_twice(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto twelve = std::make_integer_sequence<int, 12>();
  const Tensor x = first_of(slots, num_args, twelve);
  const std::string text = "longer than the small buffer";
  const std::optional<Tensor> maybe = x, none;
  const std::vector<Tensor> list = {x, x};
  constexpr int64_t zero = 0;
  from_values(
      slots,
      num_returns,
      x,
      x,
      text,
      text,
      maybe,
      maybe,
      list,
      list,
      none,
      zero,
      0.0,
      x);
}

// libtorch takes 64 arguments at most: x and these.
constexpr size_t kNumbers = 63;
template <size_t... I>
Tensor call_wide(const Tensor& x, std::index_sequence<I...>) {
  return std::get<0>(call_by_name<Tensor>(
      "wb03_probe::wide", "", x, static_cast<int64_t>(I)...));
}

// nest(Tensor x, int depth, bool fail) -> Tensor: calls itself, then passes on
// what it got. At the bottom is `wide`; or it fails, with the text of an op
// that is not there: whoever called it has lost x all the same.
void nest(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto [x, depth, fails] =
      to_values<Tensor, int64_t, bool>(slots, num_args);
  if (depth == 0) {
    if (fails) {
      call_by_name<>("wb03_probe::absent", "");
    }
    const Tensor same = call_wide(x, std::make_index_sequence<kNumbers>());
    from_values(slots, num_returns, same);
    return;
  }
  const auto [below] =
      call_by_name<Tensor>("wb03_probe::nest", "", x, depth - 1, fails);
  from_values(slots, num_returns, below);
}

// wide(Tensor x, int a0, int a1, ...) -> Tensor: x, passed on as it is.
void wide(StableIValue*, uint64_t, uint64_t) {}

void nothing(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  to_values<>(slots, num_args);
  from_values(slots, num_returns);
}

// count() -> (int, ...): the next twelve numbers.
void count(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  static std::atomic<int64_t> last = 0;
  to_values<>(slots, num_args);
  const int64_t n = last += 12;
  from_values(
      slots,
      num_returns,
      n - 11,
      n - 10,
      n - 9,
      n - 8,
      n - 7,
      n - 6,
      n - 5,
      n - 4,
      n - 3,
      n - 2,
      n - 1,
      n);
}

// lists(int[][] x) -> int[][]: what it got.
void lists(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto [x] =
      to_values<std::vector<std::vector<int64_t>>>(slots, num_args);
  from_values(slots, num_returns, x);
}

template <typename... R>
constexpr bool same =
    same_backwards<std::tuple<R...>>(std::index_sequence_for<R...>());

using Kernel = void(StableIValue*, uint64_t, uint64_t);

} // namespace wb::probe

namespace probe = wb::probe;

EXPORT AtenTensorHandle wb03_divide(AtenTensorHandle a, AtenTensorHandle b) {
  return probe::lend(wb::divide(probe::borrow(a), probe::borrow(b)));
}
EXPORT void wb03_frexp(AtenTensorHandle input, AtenTensorHandle* out) {
  const auto [mantissa, exponent] = wb::frexp(probe::borrow(input));
  out[0] = probe::lend(mantissa);
  out[1] = probe::lend(exponent);
}
EXPORT AtenTensorHandle wb03_square(AtenTensorHandle input) {
  return probe::lend(wb::square(input));
}
EXPORT void wb03_multiply_into(
    AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle other) {
  // One handle is one tensor, also where it stands for two of the arguments.
  const wb::Tensor a = probe::borrow(out);
  const wb::Tensor b = self == out ? a : probe::borrow(self);
  const wb::Tensor c = other == out ? a
      : other == self               ? b
                                    : probe::borrow(other);
  wb::multiply_into(a, b, c);
}
EXPORT probe::Kernel* wb03_gate_and_up() {
  return &wb::boxed_gate_and_up;
}
EXPORT probe::Kernel* wb03_six() {
  return &probe::six;
}
EXPORT probe::Kernel* wb03_window(size_t first, size_t last, size_t taken) {
  probe::window_of = {first, last, taken};
  return &probe::window;
}
EXPORT probe::Kernel* wb03_each_twice() {
  return &probe::each_twice;
}
EXPORT void wb03_take_three(StableIValue* slots, int64_t* out) {
  std::tie(out[0], out[1], out[2]) =
      wb::to_values<int64_t, int64_t, int64_t>(slots, 3);
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
EXPORT void wb03_call_six(AtenTensorHandle tensor, wb::ScalarType dtype) {
  std::apply(
      [](const auto&... value) {
        wb::call_by_name<>("wb03_probe::six", "", value...);
      },
      probe::values(tensor, dtype));
}
EXPORT void wb03_call_frexp(AtenTensorHandle input, AtenTensorHandle* out) {
  const auto [mantissa, exponent] = wb::call_by_name<wb::Tensor, wb::Tensor>(
      "aten::frexp", "Tensor", probe::borrow(input));
  out[0] = probe::lend(mantissa);
  out[1] = probe::lend(exponent);
}
EXPORT void wb03_call_nothing() {
  wb::call_by_name<>("wb03_probe::nothing", "");
}
EXPORT void wb03_call_count(int64_t* out) {
  using I = int64_t;
  std::apply(
      [&](auto... next) { ((*out++ = next), ...); },
      wb::call_by_name<I, I, I, I, I, I, I, I, I, I, I, I>(
          "wb03_probe::count", ""));
}
// Of the tests' returns, whether stack.h lets them be asked for.
EXPORT bool wb03_same_backwards(const char* returns) {
  using wb::Tensor;
  using Maybe = std::optional<Tensor>;
  const struct {
    std::string returns;
    bool same;
  } rows[] = {
      {"", probe::same<>},
      {"Tensor", probe::same<Tensor>},
      {"Tensor, Tensor", probe::same<Tensor, Tensor>},
      {"int, Tensor, int", probe::same<int64_t, Tensor, int64_t>},
      {"Tensor, Tensor?, Tensor?, Tensor",
       probe::same<Tensor, Maybe, Maybe, Tensor>},
      {"Tensor, int", probe::same<Tensor, int64_t>},
      {"Tensor?, Tensor", probe::same<Maybe, Tensor>},
      {"Tensor, Tensor?, Tensor, Tensor",
       probe::same<Tensor, Maybe, Tensor, Tensor>}};
  const auto* const row =
      std::find_if(std::begin(rows), std::end(rows), [&](const auto& row) {
        return row.returns == returns;
      });
  STD_TORCH_CHECK(row != std::end(rows), "no row for ", returns);
  return row->same;
}
// The version of the headers that it was built with.
EXPORT uint64_t wb03_headers() {
  return TORCH_ABI_VERSION;
}
EXPORT void wb03_call_absent(AtenTensorHandle input) {
  wb::call_by_name<>("wb03_probe::absent", "", probe::borrow(input));
}

STABLE_TORCH_LIBRARY(wb03_probe, m) {
  m.def(
      "six(Tensor a, ScalarType? b, Tensor[] c, str d, Tensor?[] e, "
      "ScalarType f) -> ()");
  m.def("nest(Tensor x, int depth, bool fail) -> Tensor");
  std::string wide = "wide(Tensor x";
  for (size_t i = 0; i < wb::probe::kNumbers; ++i) {
    wide += ", int a" + std::to_string(i);
  }
  m.def((wide + ") -> Tensor").c_str());
  m.def("nothing() -> ()");
  m.def(
      "count() -> "
      "(int, int, int, int, int, int, int, int, int, int, int, int)");
}

STABLE_TORCH_LIBRARY_IMPL(wb03_probe, CompositeExplicitAutograd, m) {
  m.impl("six", &probe::throwing_six);
  m.impl("nest", &probe::nest);
  m.impl("wide", &probe::wide);
  m.impl("nothing", &probe::nothing);
  m.impl("count", &probe::count);
}
