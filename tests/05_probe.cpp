// The library that the tests of chapter 05 load: the folder under test, exports
// that call its functions, and declared calls of ops that this file registers.
// Handles that come in are borrowed, handles that go out are new.
#include "torch_call_dispatcher.cpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace probe {

using Handle = AtenTensorHandle;

Tensor borrow(Handle handle) {
  Handle mine = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(handle, &mine));
  return Tensor(mine);
}
Handle lend(const Tensor& tensor) {
  Handle theirs = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(tensor.get(), &theirs));
  return theirs;
}

using Two = std::tuple<Tensor, Tensor>;
using Everything = Op<void(
    Tensor,
    int64_t,
    double,
    bool,
    std::optional<int64_t>,
    std::vector<int64_t>,
    std::optional<Tensor>,
    std::string,
    ScalarType)>;

constexpr Op<Two(Tensor)> frexp{"aten::frexp", "Tensor"};
constexpr Op<Tensor(Tensor, int64_t, int64_t, int64_t)> narrow{
    "aten::narrow", ""};
constexpr Op<void()> nothing{"wb05_probe::nothing", ""};
constexpr Op<Tensor(Tensor, int64_t)> refuse{"wb05_probe::refuse", ""};
constexpr Op<Tensor(Tensor)> absent{"wb05_probe::absent", "by_design"};
constexpr Op<Tensor(Tensor, int64_t, double, bool)> numbers{
    "wb05_probe::numbers", ""};
constexpr Op<Tensor(Tensor, ScalarType)> to_dtype{"wb05_probe::to_dtype", ""};

Tensor refuse_kernel(const Tensor&, int64_t why) {
  STD_TORCH_CHECK(false, "refused because of ", why);
}
Tensor to_dtype_kernel(const Tensor& x, ScalarType) {
  return x;
}
std::string seen;
Tensor numbers_kernel(const Tensor& x, int64_t i, double f, bool b) {
  seen = std::to_string(i) + " " + std::to_string(f) + (b ? " true" : " false");
  return x;
}

} // namespace probe

using probe::Handle;

EXPORT void wb05_pack(Handle tensor, ScalarType dtype, StableIValue* slots) {
  const Tensor x = probe::borrow(tensor);
  probe::Everything::pack(
      slots, x, 0, 1, true, std::nullopt, {2, 3}, x, "a longer text", dtype);
}
EXPORT Handle wb05_take_one(StableIValue* slots) {
  return probe::lend(call_op::Returns<Tensor>::take(slots));
}
EXPORT void wb05_take_two(StableIValue* slots, Handle* out) {
  const auto [first, second] = call_op::Returns<probe::Two>::take(slots);
  out[0] = probe::lend(first);
  out[1] = probe::lend(second);
}
EXPORT size_t wb05_take_list(StableIValue* slots) {
  return call_op::Returns<std::vector<Tensor>>::take(slots).size();
}
EXPORT void wb05_frexp(Handle input, Handle* out) {
  const auto [mantissa, exponent] = call<probe::frexp>(probe::borrow(input));
  out[0] = probe::lend(mantissa);
  out[1] = probe::lend(exponent);
}
EXPORT Handle wb05_narrow(Handle input) {
  return probe::lend(call<probe::narrow>(probe::borrow(input), 0, 1, 2));
}
EXPORT void wb05_nothing() {
  call<probe::nothing>();
}
EXPORT void wb05_refuse(Handle input, int64_t why) {
  call<probe::refuse>(probe::borrow(input), why);
}
EXPORT void wb05_absent(Handle input) {
  call<probe::absent>(probe::borrow(input));
}
EXPORT const char* wb05_numbers(Handle input) {
  call<probe::numbers>(probe::borrow(input), 3, 4, false);
  return probe::seen.c_str();
}
EXPORT void wb05_to_dtype(Handle input, ScalarType dtype) {
  call<probe::to_dtype>(probe::borrow(input), dtype);
}
EXPORT Handle wb05_sum(Handle input, const int64_t* dims, size_t count) {
  return probe::lend(sum(probe::borrow(input), Dims(dims, dims + count)));
}
EXPORT void wb05_max(Handle input, int64_t dim, Handle* out) {
  const auto [values, indices] = max(probe::borrow(input), dim);
  out[0] = probe::lend(values);
  out[1] = probe::lend(indices);
}
EXPORT void wb05_maximum_into(Handle out, Handle self, Handle other) {
  maximum_into(probe::borrow(out), probe::borrow(self), probe::borrow(other));
}
EXPORT Handle wb05_clamp_max(Handle self, Handle most) {
  return probe::lend(clamp_max(probe::borrow(self), probe::borrow(most)));
}
EXPORT Handle wb05_add(Handle self, Handle other, double alpha) {
  return probe::lend(add(probe::borrow(self), probe::borrow(other), alpha));
}

STABLE_TORCH_LIBRARY(wb05_probe, m) {
  m.def("nothing() -> ()");
  m.def("refuse(Tensor x, int why) -> Tensor");
  m.def("numbers(Tensor x, int i, float f, bool b) -> Tensor");
  m.def("to_dtype(Tensor x, ScalarType dtype) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(wb05_probe, CompositeExplicitAutograd, m) {
  m.impl("nothing", [](StableIValue*, uint64_t, uint64_t) {});
  m.impl("refuse", TORCH_BOX(&probe::refuse_kernel));
  m.impl("numbers", TORCH_BOX(&probe::numbers_kernel));
  m.impl("to_dtype", TORCH_BOX(&probe::to_dtype_kernel));
}
