// The library that the tests of chapter 05 load: the folder under test, exports
// that call its functions, and declared calls of ops that this file registers.
// Handles that come in are borrowed, handles that go out are new.
#include "torch_call_dispatcher.cpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
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
constexpr OpDecl<Tensor(
    Tensor,
    Device,
    Device,
    Layout,
    MemoryFormat,
    MemoryFormat,
    std::string,
    std::optional<MemoryFormat>,
    std::vector<Tensor>)>
    rarer{"wb05_probe::rarer", ""};

constexpr OpDecl<Two(Tensor)> frexp{"aten::frexp", "Tensor"};
constexpr OpDecl<Tensor(Tensor, int64_t, int64_t, int64_t)> narrow{
    "aten::narrow", ""};
constexpr OpDecl<std::vector<Tensor>(Tensor, int64_t)> unbind{
    "aten::unbind", "int"};
constexpr OpDecl<void()> nothing{"wb05_probe::nothing", ""};
template <size_t>
using Int = int64_t;
template <size_t... i>
std::tuple<Int<i>...> ints(std::index_sequence<i...>);
using Twenty = decltype(ints(std::make_index_sequence<20>()));
constexpr OpDecl<Twenty()> count{"wb05_probe::count", ""};
constexpr OpDecl<Tensor(Tensor, int64_t)> refuse{"wb05_probe::refuse", ""};
constexpr OpDecl<void(Tensor, int64_t)> refuse_none{
    "wb05_probe::refuse", "none"};
constexpr OpDecl<Two(Tensor, int64_t)> refuse_two{"wb05_probe::refuse", "two"};
constexpr OpDecl<std::vector<Tensor>(Tensor, int64_t)> refuse_list{
    "wb05_probe::refuse", "list"};
constexpr OpDecl<Tensor(Tensor)> absent{"wb05_probe::absent", "by_design"};
using Dtypes = std::vector<ScalarType>;
constexpr OpDecl<void(Tensor, std::optional<ScalarType>)> maybe{
    "wb05_probe::absent", "maybe"};
constexpr OpDecl<void(Tensor, Dtypes)> list{"wb05_probe::absent", "list"};
constexpr OpDecl<void(Tensor, std::optional<Dtypes>)> maybe_list{
    "wb05_probe::absent", "maybe_list"};
constexpr OpDecl<Tensor(Tensor, int64_t, double, bool)> numbers{
    "wb05_probe::numbers", ""};

void count_kernel(StableIValue* slots, uint64_t, uint64_t num_returns) {
  for (uint64_t i = 0; i < num_returns; ++i) {
    slots[i] = i + 1;
  }
}
template <typename R>
R refuse_kernel(const Tensor&, int64_t why) {
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

// Each text is made anew at each call.
const char* kept(const std::string& text) {
  static std::string last;
  last = text;
  return last.c_str();
}
EXPORT const char* wb05_text() {
  return kept(probe::everything.text());
}
// The version of the headers that it was built with.
EXPORT uint64_t wb05_headers() {
  return TORCH_ABI_VERSION;
}
EXPORT const char* wb05_no_types() {
  return kept(wb::in_parentheses<>());
}
template <size_t>
using MaybeInts = std::optional<std::vector<int64_t>>;
template <size_t... i>
std::string texts_of_lists(std::index_sequence<i...>) {
  return wb::in_parentheses<MaybeInts<i>...>();
}
EXPORT const char* wb05_forty_types() {
  return kept(texts_of_lists(std::make_index_sequence<40>()));
}
template <typename T>
using Maybe = std::optional<T>;
template <typename T>
using List = std::vector<T>;
using wb::SchemaType;
template <typename T>
std::string line_of_names() {
  return SchemaType<T>::text() + " " + SchemaType<Maybe<T>>::text() + " " +
      SchemaType<List<T>>::text() + " " + SchemaType<Maybe<List<T>>>::text() +
      " " + SchemaType<List<Maybe<T>>>::text() + "\n";
}
// A line for each type of the table.
EXPORT const char* wb05_names() {
  return kept(
      line_of_names<bool>() + line_of_names<int64_t>() +
      line_of_names<double>() + line_of_names<std::string>() +
      line_of_names<Tensor>() + line_of_names<wb::Device>() +
      line_of_names<ScalarType>() + line_of_names<wb::Layout>() +
      line_of_names<wb::MemoryFormat>());
}
// Whether types with a T in them are supported.
template <typename T>
bool supports_any() {
  return SchemaType<T>::supported || SchemaType<Maybe<T>>::supported ||
      SchemaType<List<T>>::supported || SchemaType<Maybe<List<T>>>::supported ||
      SchemaType<List<Maybe<T>>>::supported;
}
template <typename T>
bool supports_all() {
  return SchemaType<T>::supported && SchemaType<Maybe<T>>::supported &&
      SchemaType<List<T>>::supported && SchemaType<Maybe<List<T>>>::supported &&
      SchemaType<List<Maybe<T>>>::supported;
}
// Returns in what an int or a float is supported that should not be, or "".
EXPORT const char* wb05_supports_int_or_float() {
  if (SchemaType<int>::supported || SchemaType<float>::supported) {
    return "int or float";
  }
  if (SchemaType<Maybe<int>>::supported ||
      SchemaType<Maybe<float>>::supported) {
    return "an optional of int or of float";
  }
  return supports_any<int>() || supports_any<float>()
      ? "a list of int or of float"
      : "";
}
// No schema has the type of a device alone.
EXPORT bool wb05_supports_any_device_type() {
  return supports_any<wb::DeviceType>();
}
EXPORT bool wb05_supports_all_tensors() {
  return supports_all<Tensor>();
}
EXPORT bool wb05_supports_all_others() {
  return supports_all<bool>() && supports_all<int64_t>() &&
      supports_all<double>() && supports_all<std::string>() &&
      supports_all<wb::Device>() && supports_all<ScalarType>() &&
      supports_all<wb::Layout>() && supports_all<wb::MemoryFormat>();
}
EXPORT void wb05_everything(Handle tensor, ScalarType dtype) {
  const Tensor x = probe::borrow(tensor);
  call<probe::everything>(
      x, 0, 1, true, std::nullopt, {2, 3}, x, "a text", dtype);
}
// What is next to nothing, or below.
EXPORT void wb05_least(Handle tensor) {
  const Tensor x = probe::borrow(tensor);
  call<probe::everything>(
      x, -1, -0.0, false, 0, {}, std::nullopt, "", ScalarType::Byte);
}
// `dtype` in an optional, in a list and in an optional list.
EXPORT void wb05_in_maybe(Handle tensor, ScalarType dtype) {
  call<probe::maybe>(probe::borrow(tensor), dtype);
}
EXPORT void wb05_in_list(Handle tensor, ScalarType dtype) {
  const probe::Dtypes dtypes = {ScalarType::Float, dtype};
  call<probe::list>(probe::borrow(tensor), dtypes);
}
EXPORT void wb05_in_maybe_list(Handle tensor, ScalarType dtype) {
  const probe::Dtypes dtypes = {ScalarType::Float, dtype};
  call<probe::maybe_list>(probe::borrow(tensor), dtypes);
}
EXPORT void wb05_rarer(Handle tensor) {
  using torch::headeronly::DeviceType;
  const Tensor x = probe::borrow(tensor);
  call<probe::rarer>(
      x,
      wb::Device(DeviceType::CPU),
      wb::Device(DeviceType::CUDA, 1),
      wb::Layout::SparseCsr,
      wb::MemoryFormat::ChannelsLast,
      wb::MemoryFormat::ChannelsLast3d,
      std::string("a\0b", 3),
      wb::MemoryFormat::Preserve,
      {x, x});
}
EXPORT size_t wb05_unbind(Handle input) {
  return call<probe::unbind>(probe::borrow(input), 0).size();
}
EXPORT void wb05_frexp(Handle input, Handle* out) {
  const auto [mantissa, exponent] = call<probe::frexp>(probe::borrow(input));
  out[0] = probe::lend(mantissa);
  out[1] = probe::lend(exponent);
}
// No test calls it.
EXPORT Handle wb05_narrow(Handle input) {
  return probe::lend(call<probe::narrow>(probe::borrow(input), 0, 1, 2));
}
EXPORT void wb05_nothing() {
  call<probe::nothing>();
}
EXPORT void wb05_count(int64_t* out) {
  std::apply(
      [&](auto... number) { ((*out++ = number), ...); }, call<probe::count>());
}
EXPORT void wb05_refuse(Handle input, int64_t why) {
  call<probe::refuse>(probe::borrow(input), why);
}
EXPORT void wb05_refuse_none(Handle input, int64_t why) {
  call<probe::refuse_none>(probe::borrow(input), why);
}
EXPORT void wb05_refuse_two(Handle input, int64_t why) {
  call<probe::refuse_two>(probe::borrow(input), why);
}
EXPORT void wb05_refuse_list(Handle input, int64_t why) {
  call<probe::refuse_list>(probe::borrow(input), why);
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
  m.def(
      "rarer(Tensor a, Device b, Device c, Layout d, MemoryFormat e, "
      "MemoryFormat f, str g, MemoryFormat? h, Tensor[] i) -> Tensor");
  m.def("nothing() -> ()");
  m.def(
      "count() -> (int, int, int, int, int, int, int, int, int, int, "
      "int, int, int, int, int, int, int, int, int, int)"); // twenty
  m.def("refuse(Tensor x, int why) -> Tensor");
  m.def("refuse.none(Tensor x, int why) -> ()");
  m.def("refuse.two(Tensor x, int why) -> (Tensor, Tensor)");
  m.def("refuse.list(Tensor x, int why) -> Tensor[]");
  m.def("numbers(Tensor x, int i, float f, bool b) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(wb05_probe, CompositeExplicitAutograd, m) {
  m.impl("nothing", [](StableIValue*, uint64_t, uint64_t) {});
  m.impl("count", &probe::count_kernel);
  m.impl("refuse", TORCH_BOX(&probe::refuse_kernel<Tensor>));
  m.impl("refuse.none", TORCH_BOX(&probe::refuse_kernel<void>));
  m.impl("refuse.two", TORCH_BOX(&probe::refuse_kernel<probe::Two>));
  m.impl("refuse.list", TORCH_BOX(&probe::refuse_kernel<std::vector<Tensor>>));
  m.impl("numbers", TORCH_BOX(&probe::numbers_kernel));
}
