// Tests of chapter 04: a case a step, called through libtorch's dispatcher.
// Then what TORCH_BOX leaves unchecked, and what registration can go wrong by,
// on ops that this file registers itself.
#include "testing/aten.h"
#include "testing/child.h"
#include "testing/compare.h"
#include "testing/dispatcher.h"
#include "testing/ledger.h"
#include "testing/library.h"
#include "testing/print.h"
#include "testing/random.h"
#include "testing/refusal.h"
#include "testing/schema.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/version.h>

#include <dlfcn.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace workbook;
using c10::BFloat16;
using c10::Half;
using c10::ScalarType;
using doctest::Contains;
using torch::headeronly::DeviceType;
using torch::stable::Tensor;
using torch::stable::detail::StableLibrary;

// --- what a Meta kernel asks -------------------------------------------------

namespace {
bool watching = false;
int sizes_read = 0;

template <class Function>
Function* next(const char* name, Function*) {
  sizes_read += watching;
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
} // namespace

// These take the place of libtorch's own, which they call: a size, once read,
// is a number, and torch.compile has to compile again for another one.
extern "C" {
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle tensor, int64_t** sizes) {
  return next("aoti_torch_get_sizes", &aoti_torch_get_sizes)(tensor, sizes);
}
AOTITorchError aoti_torch_get_size(
    AtenTensorHandle tensor, int64_t d, int64_t* size) {
  return next("aoti_torch_get_size", &aoti_torch_get_size)(tensor, d, size);
}
AOTITorchError aoti_torch_get_strides(
    AtenTensorHandle tensor, int64_t** strides) {
  return next("aoti_torch_get_strides", &aoti_torch_get_strides)(
      tensor, strides);
}
AOTITorchError aoti_torch_get_stride(
    AtenTensorHandle tensor, int64_t d, int64_t* stride) {
  return next("aoti_torch_get_stride", &aoti_torch_get_stride)(
      tensor, d, stride);
}
AOTITorchError aoti_torch_get_numel(AtenTensorHandle tensor, int64_t* numel) {
  return next("aoti_torch_get_numel", &aoti_torch_get_numel)(tensor, numel);
}
}

namespace {

using Sizes = std::vector<int64_t>;

// Calls an op by its name; Results are what it returns, none or more.
template <class... Results, class... Arguments>
auto call(
    const std::string& op,
    const std::string& overload,
    const Arguments&... arguments) {
  constexpr size_t kSlots =
      std::max<size_t>({1, sizeof...(Results), sizeof...(Arguments)});
  StableIValue stack[kSlots] = {torch::stable::detail::from(arguments)...};
  call_op(op, overload, stack);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::tuple<Results...>{
        torch::stable::detail::to<Results>(stack[I])...};
  }
  (std::index_sequence_for<Results...>());
}

using MaybeTensor = std::optional<Tensor>;
using MaybeDouble = std::optional<double>;

Tensor silu_and_mul(const Tensor& input) {
  return std::get<0>(call<Tensor>("wb04::silu_and_mul", "", input));
}
void silu_and_mul_out(const Tensor& out, const Tensor& input) {
  call("wb04::silu_and_mul", "out", out, input);
}
Tensor swiglu(
    const Tensor& input,
    const MaybeTensor& bias,
    double alpha,
    const MaybeDouble& limit) {
  return std::get<0>(
      call<Tensor>("wb04::swiglu", "", input, bias, alpha, limit));
}
std::tuple<Tensor, Tensor> silu_and_mul_amax(const Tensor& input) {
  return call<Tensor, Tensor>("wb04::silu_and_mul_amax", "", input);
}
Tensor silu_and_mul_backward(const Tensor& grad, const Tensor& input) {
  return std::get<0>(
      call<Tensor>("wb04::silu_and_mul_backward", "", grad, input));
}

std::string dtype_of(const Tensor& source) {
  return toString(source.scalar_type());
}

template <class T>
Tensor random_tensor(const Sizes& sizes, Random& random) {
  size_t n = 1;
  for (const int64_t size : sizes) {
    n *= static_cast<size_t>(size);
  }
  std::vector<T> data(n);
  for (T& value : data) {
    value = T(random.normal(4));
  }
  return tensor<T>(data, sizes);
}

// A view of the same sizes, whose elements are `step` apart.
Tensor strided(const Tensor& whole, int64_t step) {
  Tensor wide = torch::stable::unsqueeze(whole, -1);
  Sizes sizes = wide.sizes().vec();
  sizes.back() = step;
  Tensor filled = torch::stable::new_zeros(whole, sizes);
  Tensor view = torch::stable::select(filled, -1, step - 1);
  torch::stable::copy_(view, whole);
  return view;
}

template <class T>
std::vector<double> elements(const Tensor& source) {
  std::vector<double> result;
  for (const T& value : values<T>(torch::stable::contiguous(source))) {
    result.push_back(static_cast<double>(value));
  }
  return result;
}

double gated(double gate, double up, double alpha, double limit) {
  gate = std::min(gate, limit);
  up = std::max(-limit, std::min(up, limit));
  return gate / (1 + std::exp(-alpha * gate)) * up;
}

// The exact result for rows of 2d elements; `bias` has 2d elements or none.
std::vector<double> exact(
    const std::vector<double>& input,
    size_t d,
    const std::vector<double>& bias = {},
    double alpha = 1,
    double limit = INFINITY) {
  std::vector<double> result;
  for (size_t i = 0; i < input.size(); i += 2 * d) {
    for (size_t j = 0; j < d; ++j) {
      const double gate = input[i + j] + (bias.empty() ? 0 : bias[j]);
      const double up = input[i + d + j] + (bias.empty() ? 0 : bias[d + j]);
      result.push_back(gated(gate, up, alpha, limit));
    }
  }
  return result;
}

// Half an ulp is correct rounding; before it come a few ulp of the computation.
template <class T>
constexpr double kTolerance = sizeof(T) == 2 ? 0.502 : 6;

template <class T>
std::string difference(
    const Tensor& got,
    const std::vector<double>& want,
    double tolerance = kTolerance<T>) {
  return first_difference<T>(values<T>(got), want, tolerance);
}

template <class Check>
void for_each_dtype(const Check& check) {
  check(float{});
  check(double{});
  check(Half{});
  check(BFloat16{});
}

const std::vector<Sizes> kShapes = {
    {2}, {3, 8}, {2, 3, 34}, {1, 1, 1, 2}, {0, 8}, {3, 0}, {129, 512}};

Tensor on_meta(const Sizes& sizes, ScalarType dtype = ScalarType::Float) {
  return torch::stable::empty(
      sizes,
      dtype,
      std::nullopt,
      torch::stable::Device(DeviceType::Meta),
      std::nullopt,
      std::nullopt);
}

} // namespace

TEST_CASE("04.1 the schema says which argument is written") {
  const std::string schema = schema_of("wb04", "silu_and_mul.out");
  REQUIRE_MESSAGE(
      schema != "", "Could not find schema for wb04::silu_and_mul.out");
  // "Tensor($0! -> ) out" is how libtorch prints "Tensor! out".
  const doctest::String text = schema.c_str();
  CHECK_MESSAGE(
      schema.find("!") < schema.find(") out, "), "out is not marked: ", text);
  CHECK(text == Contains(") out, Tensor input)"));
  CHECK(text == Contains(") -> ()"));
}

TEST_CASE("04.2 a hand-boxed kernel takes what the stack holds") {
  Random random;
  for_each_dtype([&](auto zero) {
    using T = decltype(zero);
    for (const Sizes& sizes : kShapes) {
      Sizes half = sizes;
      half.back() /= 2;
      // out lies within a larger tensor, of which nothing else may change.
      Sizes wider = half;
      wider.front() += 2;
      const Tensor whole = random_tensor<T>(wider, random);
      const auto before = elements<T>(whole);
      const Tensor out =
          torch::stable::narrow(const_cast<Tensor&>(whole), 0, 1, half.front());
      const Tensor input = random_tensor<T>(sizes, random);
      silu_and_mul_out(out, input);
      const auto d = static_cast<size_t>(half.back());
      CHECK(difference<T>(out, exact(elements<T>(input), d)) == "");
      const auto after = elements<T>(whole);
      const size_t step = after.size() / static_cast<size_t>(wider.front());
      for (size_t i = 0; i < step; ++i) {
        REQUIRE(after[i] == before[i]);
        REQUIRE(after[after.size() - 1 - i] == before[before.size() - 1 - i]);
      }
    }
    const Tensor input = strided(random_tensor<T>({5, 12}, random), 3);
    const Tensor out = random_tensor<T>({5, 6}, random);
    silu_and_mul_out(out, input);
    CHECK(difference<T>(out, exact(elements<T>(input), 6)) == "");
  });
}

TEST_CASE("04.3 TORCH_BOX boxes a kernel that returns a tensor") {
  Random random;
  for_each_dtype([&](auto zero) {
    using T = decltype(zero);
    for (const Sizes& sizes : kShapes) {
      Sizes half = sizes;
      half.back() /= 2;
      const Tensor input = random_tensor<T>(sizes, random);
      const auto before = elements<T>(input);
      const Tensor out = silu_and_mul(input);
      REQUIRE(out.sizes().vec() == half);
      CHECK(out.is_contiguous());
      CHECK(dtype_of(out) == dtype_of(input));
      const auto d = static_cast<size_t>(half.back());
      CHECK(difference<T>(out, exact(before, d)) == "");
      CHECK_MESSAGE(
          elements<T>(input) == before, "input was written to: is out a view?");
    }
    Tensor wide = random_tensor<T>({12, 5}, random);
    const Tensor input = torch::stable::transpose(wide, 0, 1);
    const Tensor out = silu_and_mul(input);
    CHECK(out.is_contiguous());
    CHECK(difference<T>(out, exact(elements<T>(input), 6)) == "");
  });
}

TEST_CASE("04.4 each schema type arrives in its C++ type") {
  Random random;
  const Tensor input = random_tensor<float>({5, 12}, random);
  const Tensor bias = random_tensor<float>({12}, random);
  const auto x = elements<float>(input);
  for (const bool with_bias : {false, true}) {
    for (const double alpha : {1.0, 1.702, -0.1, 0.0}) {
      for (const double limit : {double{INFINITY}, 7.0, 0.1}) {
        CAPTURE(with_bias);
        CAPTURE(alpha);
        CAPTURE(limit);
        const Tensor out = swiglu(
            input,
            with_bias ? MaybeTensor(bias) : std::nullopt,
            alpha,
            std::isinf(limit) ? std::nullopt : MaybeDouble(limit));
        REQUIRE(out.sizes().vec() == Sizes{5, 6});
        const auto b =
            with_bias ? elements<float>(bias) : std::vector<double>();
        CHECK(difference<float>(out, exact(x, 6, b, alpha, limit), 40) == "");
      }
    }
  }
  const Tensor wide = strided(bias, 2);
  CHECK(
      difference<float>(
          swiglu(input, wide, 1, std::nullopt),
          exact(x, 6, elements<float>(bias)),
          40) == "");
  const Tensor special = tensor<float>({NAN, 1, 9, 1, NAN, -9}, {6});
  const auto got = elements<float>(swiglu(special, std::nullopt, 1, 2.0));
  CHECK(std::isnan(got[0])); // a clamp hides no NaN
  CHECK(std::isnan(got[1]));
  CHECK(got[2] == doctest::Approx(gated(9, -9, 1, 2)));
}

TEST_CASE("04.5 several returns are several slots") {
  Random random;
  for_each_dtype([&](auto zero) {
    using T = decltype(zero);
    const Tensor input = random_tensor<T>({3, 4, 10}, random);
    const auto [out, amax] = silu_and_mul_amax(input);
    REQUIRE(out.sizes().vec() == Sizes{3, 4, 5});
    REQUIRE(amax.sizes().vec() == Sizes{3, 4, 1});
    CHECK(dtype_of(amax) == dtype_of(input));
    CHECK(difference<T>(out, exact(elements<T>(input), 5)) == "");
    const auto y = elements<T>(out);
    const auto largest = elements<T>(amax);
    for (size_t row = 0; row < 12; ++row) {
      double most = 0;
      for (size_t i = 0; i < 5; ++i) {
        most = std::max(most, std::abs(y[row * 5 + i]));
      }
      CHECK(largest[row] == most);
    }
  });
  const Tensor nan = tensor<float>({1, NAN, 1, 1, 1, 1}, {6});
  CHECK(std::isnan(elements<float>(std::get<1>(silu_and_mul_amax(nan)))[0]));
}

TEST_CASE("04.6 a Meta kernel knows the result and reads no size") {
  const auto check =
      [](const Tensor& got, const Sizes& sizes, const Tensor& input) {
        watching = false;
        CHECK(got.sizes().vec() == sizes);
        CHECK((got.device().type() == DeviceType::Meta));
        CHECK(dtype_of(got) == dtype_of(input));
        CHECK(got.is_contiguous());
        CHECK_MESSAGE(
            sizes_read == 0,
            "the kernel read sizes, ",
            sizes_read,
            " times: torch.compile would compile again for each shape");
        sizes_read = 0;
      };
  for (const ScalarType dtype : {ScalarType::Float, ScalarType::BFloat16}) {
    Tensor rows = on_meta({8, 5}, dtype);
    for (const Tensor& input :
         {on_meta({8}, dtype),
          on_meta({3, 2}, dtype),
          on_meta({5, 8}, dtype),
          on_meta({3, 5, 8}, dtype),
          torch::stable::transpose(rows, 0, 1)}) {
      const Sizes sizes = input.sizes().vec();
      Sizes half = sizes;
      half.back() /= 2;
      Sizes one = sizes;
      one.back() = 1;
      CAPTURE(sizes.size());
      watching = true;
      check(silu_and_mul(input), half, input);
      watching = true;
      check(swiglu(input, std::nullopt, 1, std::nullopt), half, input);
      watching = true;
      const auto [out, amax] = silu_and_mul_amax(input);
      check(out, half, input);
      check(amax, one, input);
      const Tensor grad = on_meta(half, dtype);
      watching = true;
      check(silu_and_mul_backward(grad, input), sizes, input);
      watching = true;
      silu_and_mul_out(grad, input);
      check(grad, half, input);
    }
  }
}

TEST_CASE("04.7 an error names the argument, what it must be, and what came") {
  Random random;
  const auto random_float = [&](const Sizes& sizes) {
    return random_tensor<float>(sizes, random);
  };
  const auto refused = [](const auto& f) { return refusal(f); };

  const Tensor odd = random_float({2, 5});
  const Tensor scalar = random_float({});
  for (const auto& text :
       {refused([&] { silu_and_mul(odd); }),
        refused([&] { silu_and_mul_out(odd, odd); }),
        refused([&] { silu_and_mul_amax(odd); }),
        refused([&] { swiglu(odd, std::nullopt, 1, std::nullopt); })}) {
    CHECK(text == Contains("input"));
    CHECK(text == Contains("even"));
    CHECK(text == Contains("[2, 5]"));
  }
  CHECK(refused([&] { silu_and_mul(scalar); }) == Contains("[]"));

  const Tensor input = random_float({2, 6});
  for (const Sizes& sizes : {Sizes{2, 4}, Sizes{3, 3}, Sizes{3}, Sizes{}}) {
    const Tensor out = random_float(sizes);
    const auto before = elements<float>(out);
    const auto text = refused([&] { silu_and_mul_out(out, input); });
    CHECK(text == Contains("out"));
    CHECK(text == Contains("[2, 6]"));
    CHECK(elements<float>(out) == before);
    CHECK(refused([&] {
            silu_and_mul_backward(out, input);
          }) == Contains("grad"));
  }
  const auto text = refused([&] { silu_and_mul_out(odd, input); });
  CHECK(text == Contains("[2, 5]"));

  const Tensor doubles = random_tensor<double>({2, 3}, random);
  const auto dtype = refused([&] { silu_and_mul_out(doubles, input); });
  CHECK(dtype == Contains("out"));
  CHECK(dtype == Contains("Float"));
  CHECK(dtype == Contains("Double"));

  Tensor square = random_float({3, 2});
  const Tensor view = torch::stable::transpose(square, 0, 1);
  CHECK(refused([&] {
          silu_and_mul_out(view, input);
        }) == Contains("out must be contiguous"));

  const Tensor integers = tensor<int32_t>({1, 2, 3, 4}, {2, 2});
  CHECK(refused([&] { silu_and_mul(integers); }) == Contains("'Int'"));
  CHECK(refused([&] {
          swiglu(input, random_float({3}), 1, std::nullopt);
        }) == Contains("bias must be [6], got [3]"));
  CHECK(refused([&] {
          swiglu(input, doubles, 1, std::nullopt);
        }) == Contains("bias must have input's dtype Float, got Double"));
  CHECK(refused([&] {
          silu_and_mul_amax(random_float({2, 0}));
        }) == Contains("must not end in size 0"));
}

TEST_CASE("04 an error in the words of the page") {
  const Tensor input = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  const Tensor out = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(refusal([&] {
          silu_and_mul_out(out, input);
        }) == Contains("out must be half of input's [2, 4], got [2, 3]"));
  const Tensor wide = tensor<double>({1, 2, 3, 4}, {2, 2});
  CHECK(refusal([&] {
          silu_and_mul_out(wide, input);
        }) == Contains("out must have input's dtype Float, got Double"));
}

TEST_CASE("04 the backward op is the derivative") {
  Random random;
  const size_t d = 7;
  Tensor grad = random_tensor<double>({3, 1}, random); // expanded below
  const Tensor input = strided(random_tensor<double>({3, 2 * d}, random), 2);
  const Tensor ones = tensor<double>(std::vector<double>(3 * d, 1), {3, d});
  Tensor wide = aten("aten::mul", "Tensor", grad, ones);
  const auto x = elements<double>(input);
  const auto dy = elements<double>(wide);
  const auto got = elements<double>(silu_and_mul_backward(wide, input));
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i / (2 * d), column = i % (2 * d) % d;
    const auto y = [&](double moved) {
      auto values = x;
      values[i] += moved;
      return exact(values, d)[row * d + column];
    };
    const double slope = (y(1e-5) - y(-1e-5)) / 2e-5;
    CHECK(
        got[i] == doctest::Approx(slope * dy[row * d + column]).epsilon(1e-6));
  }
}

// --- ops of this file --------------------------------------------------------

namespace {

float arrived = 0;
float half_of_a_double(float value) {
  arrived = value;
  return value;
}
double a_double(double value) {
  return value;
}
int32_t half_of_an_int(int32_t value) {
  return value;
}
int64_t an_int(int64_t value) {
  return value;
}
int64_t two_and_dtype(const Tensor&, const Tensor&, ScalarType) {
  return 0;
}
int64_t dtype_and_two(ScalarType, const Tensor&, const Tensor&) {
  return 0;
}
int64_t throws(const Tensor&, const Tensor&) {
  STD_TORCH_CHECK(false, "thrown by the body");
}

// While it lives, LeakSanitizer takes no note of what is allocated.
struct LeaksIgnored {
#if defined(__SANITIZE_ADDRESS__)
  LeaksIgnored() {
    __lsan_disable();
  }
  ~LeaksIgnored() {
    __lsan_enable();
  }
#endif
};

// What one more call of an op leaves allocated.
template <class Call>
size_t blocks_lost(const Call& call) {
  const LeaksIgnored ignored;
  CHECK(refusal(call) != "(nothing was thrown)"); // libtorch keeps some, once
  const Ledger ledger;
  refusal(call);
  return Ledger::alive();
}

} // namespace

TEST_CASE("04 TORCH_BOX counts arguments and returns, and knows no types") {
  StableLibrary def(StableLibrary::Kind::DEF, "wb04_types", nullptr, "", 0);
  def.def("right(float x) -> float");
  def.def("wrong(float x) -> float");
  def.def("right_int(int x) -> int");
  def.def("wrong_int(int x) -> int");
  def.def("more(float x, float y) -> float");
  def.def("fewer_returns(float x) -> ()");
  const char* key = "CompositeExplicitAutograd"; // no tensor chooses a key
  StableLibrary impl(StableLibrary::Kind::IMPL, "wb04_types", key, "", 0);
  impl.impl("right", TORCH_BOX(&a_double));
  impl.impl("wrong", TORCH_BOX(&half_of_a_double));
  impl.impl("right_int", TORCH_BOX(&an_int));
  impl.impl("wrong_int", TORCH_BOX(&half_of_an_int));
  impl.impl("more", TORCH_BOX(&a_double));
  impl.impl("fewer_returns", TORCH_BOX(&a_double));

  const auto floats = [](const char* name, double x) {
    return std::get<0>(call<double>(std::string("wb04_types::") + name, "", x));
  };
  CHECK(floats("right", 0.1) == 0.1);
  // The low half of the double, read as a float; its four bytes, read as a
  // double again, are next to nothing.
  CHECK(std::abs(floats("wrong", 0.1)) < 1e-300);
  CHECK(arrived < -1.58e-23f);
  CHECK(arrived > -1.59e-23f);
  CHECK(floats("wrong", 1.0) == 0);

  const auto ints = [](const char* name, int64_t x) {
    return std::get<0>(
        call<int64_t>(std::string("wb04_types::") + name, "", x));
  };
  CHECK(ints("right_int", -1) == -1);
  CHECK(ints("wrong_int", 5) == 5); // so a test with small numbers passes
  CHECK(ints("wrong_int", -1) == 0xffffffff);
  CHECK(ints("wrong_int", (int64_t{1} << 32) + 5) == 5);

  CHECK(refusal([] {
          call<double>("wb04_types::more", "", 1.0, 2.0);
        }) == Contains("has 2 args, but the kernel to box has 1"));
  CHECK(refusal([] {
          call("wb04_types::fewer_returns", "", 1.0);
        }) == Contains("has 0 outputs, but the kernel to box has 1"));
}

TEST_CASE("04 a conversion that throws leaks what was not yet taken") {
  StableLibrary def(StableLibrary::Kind::DEF, "wb04_leaks", nullptr, "", 0);
  def.def("last(Tensor a, Tensor b, ScalarType dtype) -> int");
  def.def("first(ScalarType dtype, Tensor a, Tensor b) -> int");
  def.def("body(Tensor a, Tensor b) -> int");
  StableLibrary impl(StableLibrary::Kind::IMPL, "wb04_leaks", "CPU", "", 0);
  impl.impl("last", TORCH_BOX(&two_and_dtype));
  impl.impl("first", TORCH_BOX(&dtype_and_two));
  impl.impl("body", TORCH_BOX(&throws));
  const Tensor a = tensor<float>({1}, {1});

  CHECK(blocks_lost([&] { call<int64_t>("wb04_leaks::body", "", a, a); }) == 0);

  // A dtype that is newer than the target version: libtorch has passed it on
  // since 2.11, and to<ScalarType>, compiled for 2.10, does not know it.
  using Number = int32_t();
  auto* const float8_e8m0fnu = reinterpret_cast<Number*>(
      dlsym(RTLD_DEFAULT, "torch_dtype_float8_e8m0fnu"));
  if (float8_e8m0fnu == nullptr) {
    MESSAGE("libtorch before 2.11 has no dtype that is newer than 2.10");
    return;
  }
  const int32_t dtype = float8_e8m0fnu();
  const size_t last =
      blocks_lost([&] { call<int64_t>("wb04_leaks::last", "", a, a, dtype); });
  const size_t first =
      blocks_lost([&] { call<int64_t>("wb04_leaks::first", "", dtype, a, a); });
  // A tensor that is not taken is one block. C++ leaves open in which order
  // the arguments of a call are evaluated: GCC begins with the last.
  CHECK(last + first == 2);
#if !defined(__clang__)
  CHECK(last == 2);
#endif
}

TEST_CASE("04 a fragment adds to a namespace that another library opened") {
  StableLibrary def(StableLibrary::Kind::FRAGMENT, "wb04", nullptr, "", 0);
  def.def("added(int x) -> int");
  StableLibrary impl(
      StableLibrary::Kind::IMPL, "wb04", "CompositeExplicitAutograd", "", 0);
  impl.impl("added", TORCH_BOX(&an_int));
  CHECK(std::get<0>(call<int64_t>("wb04::added", "", int64_t{7})) == 7);
  CHECK(schema_of("wb04", "added") == "wb04::added(int x) -> int");
  CHECK(schema_of("wb04", "silu_and_mul_backward") != "");
}

TEST_CASE("04 a kernel that is missing for a key is named by the error") {
  StableLibrary def(StableLibrary::Kind::DEF, "wb04_keys", nullptr, "", 0);
  def.def("cpu_only(Tensor x, Tensor y) -> int");
  def.def("no_kernel(Tensor x) -> int");
  {
    StableLibrary impl(StableLibrary::Kind::IMPL, "wb04_keys", "CPU", "", 0);
    impl.impl("cpu_only", TORCH_BOX(&throws));
    // Registered under a name that nobody defines: accepted in silence.
    impl.impl("cpu_onyl", TORCH_BOX(&throws));
    const Tensor meta = on_meta({2});
    const Tensor cpu = tensor<float>({1}, {1});
    const auto text =
        refusal([&] { call<int64_t>("wb04_keys::cpu_only", "", meta, cpu); });
    CHECK(text == Contains("wb04_keys::cpu_only"));
    CHECK(text == Contains("no fake impl or Meta kernel"));
    CHECK(refusal([&] {
            call<int64_t>("wb04_keys::cpu_only", "", cpu, cpu);
          }) == Contains("thrown by the body"));
    CHECK(refusal([&] {
            call<int64_t>("wb04_keys::no_kernel", "", cpu);
          }) == Contains("'CPU' backend"));
  }
  // The kernels go with their library: dlclose, and the op has none.
  const Tensor cpu = tensor<float>({1}, {1});
  CHECK(refusal([&] {
          call<int64_t>("wb04_keys::cpu_only", "", cpu, cpu);
        }) == Contains("'CPU' backend"));
}

TEST_CASE("04 some mistakes in a registration end the process at load") {
  using Kind = StableLibrary::Kind;
  using Init = torch::stable::detail::StableTorchLibraryInit;
  using Block = void(StableLibrary&);
  Block* const define = [](StableLibrary& m) { m.def("f(Tensor x) -> ()"); };
  Block* const implement = [](StableLibrary& m) {
    m.impl("f", TORCH_BOX(&a_double));
  };
  Block* const misspelt = [](StableLibrary& m) { m.def("f(tensor x) -> ()"); };
  Block* const defined_twice = [](StableLibrary& m) {
    m.def("f(Tensor x) -> ()").def("f(Tensor x) -> ()");
  };
  Block* const implemented_twice = [](StableLibrary& m) {
    m.impl("f", TORCH_BOX(&a_double)).impl("f", TORCH_BOX(&a_double));
  };
  // What STABLE_TORCH_LIBRARY and _IMPL make, at dlopen, of ns, key and block:
  // a static object.
  const auto load =
      [](Kind kind, const char* ns, const char* key, Block* block) {
        return ending_in_child(
            [&] { static const Init registered(kind, block, ns, key, "", 0); });
      };

  // The library object is never made. Nothing looks at the code that says so,
  // and the handle is used as static storage begins: null.
  CHECK(load(Kind::DEF, "wb04", nullptr, define).signal == SIGSEGV);
  CHECK(load(Kind::IMPL, "wb04_load", "Cpu", implement).signal == SIGSEGV);

  // Headers before 2.13 drop the code that a bad schema returns: the process
  // goes on, without the op. Those since throw where nothing can catch.
  constexpr bool kThrows = TORCH_ABI_VERSION >= 0x020d000000000000;
  for (Block* const block : {misspelt, defined_twice}) {
    const Ending bad = load(Kind::DEF, "wb04_load", nullptr, block);
    INFO(bad.text);
    CHECK(bad.signal == (kThrows ? SIGABRT : 0));
    CHECK(
        (bad.text.find("aoti_torch_library_def") != std::string::npos) ==
        kThrows);
  }

  const Ending warned = load(Kind::IMPL, "wb04_load", "CPU", implemented_twice);
  CHECK(warned.signal == 0);
  CHECK(doctest::String(warned.text.c_str()) == Contains("Overriding"));
}
