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

namespace wb::probe {

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
constexpr OpDecl<Tensor(
    Tensor,
    int64_t,
    double,
    bool,
    std::optional<int64_t>,
    std::vector<int64_t>,
    std::optional<Tensor>,
    std::string,
    ScalarType)>
    everything{"wb05_probe::everything", ""};

constexpr OpDecl<Two(Tensor)> frexp{"aten::frexp", "Tensor"};
constexpr OpDecl<Tensor(Tensor, int64_t, int64_t, int64_t)> narrow{
    "aten::narrow", ""};
constexpr OpDecl<std::vector<Tensor>(Tensor, int64_t)> unbind{
    "aten::unbind", "int"};
constexpr OpDecl<void()> nothing{"wb05_probe::nothing", ""};
constexpr OpDecl<Tensor(Tensor, int64_t)> refuse{"wb05_probe::refuse", ""};
constexpr OpDecl<Tensor(Tensor)> absent{"wb05_probe::absent", "by_design"};
constexpr OpDecl<Tensor(Tensor, int64_t, double, bool)> numbers{
    "wb05_probe::numbers", ""};

Tensor refuse_kernel(const Tensor&, int64_t why) {
  STD_TORCH_CHECK(false, "refused because of ", why);
}
std::string seen;
Tensor numbers_kernel(const Tensor& x, int64_t i, double f, bool b) {
  seen = std::to_string(i) + " " + std::to_string(f) + (b ? " true" : " false");
  return x;
}

} // namespace wb::probe

namespace probe = wb::probe;
using probe::Handle;
using wb::call;
using wb::ScalarType;
using wb::Tensor;

EXPORT const char* wb05_text() {
  static const std::string text = probe::everything.text();
  return text.c_str();
}
EXPORT const char* wb05_no_types() {
  static const std::string text = wb::in_parentheses<>();
  return text.c_str();
}
template <typename T>
using Text = wb::SchemaType<T>;
EXPORT const char* wb05_nested() {
  using Dim = std::optional<int64_t>;
  using Dims = std::vector<int64_t>;
  static const std::string text = Text<Dim>::text() + " " + Text<Dims>::text() +
      " " + Text<std::vector<Tensor>>::text() + " " +
      Text<std::optional<Dims>>::text() + " " +
      Text<std::vector<std::optional<Tensor>>>::text();
  return text.c_str();
}
// Whether types with a T in them are supported.
template <typename T>
bool supports_any() {
  using wb::SchemaType;
  return SchemaType<T>::supported || SchemaType<std::optional<T>>::supported ||
      SchemaType<std::vector<T>>::supported ||
      SchemaType<std::vector<std::optional<T>>>::supported;
}
template <typename T>
bool supports_all() {
  using wb::SchemaType;
  return SchemaType<T>::supported && SchemaType<std::optional<T>>::supported &&
      SchemaType<std::vector<T>>::supported &&
      SchemaType<std::vector<std::optional<T>>>::supported;
}
EXPORT bool wb05_supports_any_int_or_float() {
  return supports_any<int>() || supports_any<float>();
}
EXPORT bool wb05_supports_all_tensors() {
  return supports_all<Tensor>();
}
EXPORT void wb05_everything(Handle tensor, ScalarType dtype) {
  const Tensor x = probe::borrow(tensor);
  call<probe::everything>(
      x, 0, 1, true, std::nullopt, {2, 3}, x, "a text", dtype);
}
EXPORT size_t wb05_unbind(Handle input) {
  return call<probe::unbind>(probe::borrow(input), 0).size();
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
EXPORT Handle wb05_sum(Handle input, const int64_t* dims, size_t count) {
  return probe::lend(
      wb::sum(probe::borrow(input), wb::Dims(dims, dims + count)));
}
EXPORT void wb05_max(Handle input, int64_t dim, Handle* out) {
  const auto [values, indices] = wb::max(probe::borrow(input), dim);
  out[0] = probe::lend(values);
  out[1] = probe::lend(indices);
}
EXPORT void wb05_maximum_into(Handle out, Handle self, Handle other) {
  wb::maximum_into(
      probe::borrow(out), probe::borrow(self), probe::borrow(other));
}
EXPORT Handle wb05_clamp_max(Handle self, Handle most) {
  return probe::lend(wb::clamp_max(probe::borrow(self), probe::borrow(most)));
}
EXPORT Handle wb05_add(Handle self, Handle other, double alpha) {
  return probe::lend(wb::add(probe::borrow(self), probe::borrow(other), alpha));
}

STABLE_TORCH_LIBRARY(wb05_probe, m) {
  m.def(
      "everything(Tensor a, int b, float c, bool d, int? e, int[] f, "
      "Tensor? g, str h, ScalarType i) -> Tensor"); // its kernel is the test's
  m.def("nothing() -> ()");
  m.def("refuse(Tensor x, int why) -> Tensor");
  m.def("numbers(Tensor x, int i, float f, bool b) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(wb05_probe, CompositeExplicitAutograd, m) {
  m.impl("nothing", [](StableIValue*, uint64_t, uint64_t) {});
  m.impl("refuse", TORCH_BOX(&probe::refuse_kernel));
  m.impl("numbers", TORCH_BOX(&probe::numbers_kernel));
}
