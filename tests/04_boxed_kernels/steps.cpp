// Tests of chapter 04: each step has its cases, which call the ops through
// libtorch's dispatcher.
#include "inputs.h"
#include "interposed.h"
#include "ops.h"
#include "reference.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"
#include "testing/ledger.h"
#include "testing/library.h"
#include "testing/random.h"
#include "testing/schema.h"
#include "testing/sparse.h"
#include "testing/text.h"
#include "testing/watch.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace workbook;
using namespace workbook::chapter_04;
using c10::BFloat16;
using c10::Half;
using c10::ScalarType;
using doctest::Contains;
using torch::headeronly::DeviceType;
using torch::stable::Tensor;
using torch::stable::detail::StableLibrary;

TEST_CASE(
    "04.1 the schema says which argument is written" *
    doctest::description(
        "The schema does not tell what the op writes and returns.")) {
  std::string schema = schema_of("wb04", "silu_and_mul.out");
  if (schema.empty()) {
    FAIL("Could not find schema for wb04::silu_and_mul.out");
  }
  // What libtorch prints for "Tensor!", whatever the alias is called.
  schema = replaced(schema, R"(Tensor\([^()!]*!( -> [^()]*)?\))", "Tensor!");
  const doctest::String text = schema.c_str();
  if (schema.find("Tensor out") != std::string::npos) {
    FAIL("out is not marked: ", text);
  }
  CHECK(text == Contains("(Tensor! out, Tensor input)"));
  CHECK(text == Contains(") -> ()"));
  const doctest::String given = schema_of("wb04", "swiglu").c_str();
  CHECK(
      given ==
      Contains("(Tensor input, Tensor? bias=None, *, float alpha=1., "
               "float? limit=None) -> (Tensor out, Tensor amax)"));
}

TEST_CASE(
    "04.2 a hand-boxed kernel takes what the stack holds" *
    doctest::description("The kernel does not take each slot once, as what the "
                         "schema says of it.")) {
  Random random;
  const auto check_slots = [&](const Sizes& sizes) {
    const Tensor out = random_tensor<float>(halved(sizes), random);
    const Tensor input = random_tensor<float>(sizes, random);
    const Named names{{out, "out"}, {input, "input"}};
    const BoxedKernel kernel = kernel_of("silu_and_mul.out");
    REQUIRE((kernel != nullptr));
    REQUIRE_CLEAN(watch({}, [&](Watch& watched) {
      StableIValue stack[] = {
          slots::make("Tensor", out.get(), true),
          slots::make("Tensor", input.get(), true)};
      const Schema schema{{"Tensor", "Tensor"}, {}};
      watched.call_kernel(
          "wb04::silu_and_mul.out", kernel, schema, stack, [](auto*) {});
    }));
  };
  SUBCASE("slot 0 holds out, which is [2, 4], and slot 1 input, [2, 8]") {
    check_slots({2, 8});
  }
  SUBCASE("a handle is released also where there are no elements") {
    check_slots({0, 8});
    check_slots({3, 0});
  }
  SUBCASE("every shape, and nothing beside out is written") {
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      for (const Sizes& sizes : kShapes) {
        const Sizes half = halved(sizes);
        Sizes wider = half;
        wider.front() += 2;
        Tensor whole = random_tensor<T>(wider, random);
        const auto before = elements<T>(whole);
        const Tensor out = torch::stable::narrow(whole, 0, 1, half.front());
        const Tensor input = random_tensor<T>(sizes, random);
        REQUIRE_NOTHROW(silu_and_mul_out(out, input));
        const auto d = static_cast<size_t>(half.back());
        CHECK(find_difference<T>(out, exact(elements<T>(input), d)) == "");
        const auto after = elements<T>(whole);
        const size_t step = after.size() / static_cast<size_t>(wider.front());
        for (size_t i = 0; i < step; ++i) {
          REQUIRE(after[i] == before[i]);
          REQUIRE(after[after.size() - 1 - i] == before[before.size() - 1 - i]);
        }
      }
    });
  }
  SUBCASE("an input of any strides") {
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      const Tensor rows = random_tensor<T>({5, 12}, random);
      for (const Tensor& input : lying_otherwise(rows)) {
        const Tensor out = random_tensor<T>({5, 6}, random);
        REQUIRE_NOTHROW(silu_and_mul_out(out, input));
        CHECK(find_difference<T>(out, exact(elements<T>(input), 6)) == "");
        CHECK(elements<T>(silu_and_mul(input)) == elements<T>(out));
      }
    });
  }
  SUBCASE("the same tensors again, with other elements") {
    const Tensor rows = random_tensor<float>({5, 12}, random);
    const Tensor out = random_tensor<float>({5, 6}, random);
    for (const Tensor& input : with(rows, lying_otherwise(rows))) {
      for (int i = 0; i < 3; ++i) {
        REQUIRE_NOTHROW(silu_and_mul_out(out, input));
        CHECK(
            find_difference<float>(out, exact(elements<float>(input), 6)) ==
            "");
        halve<float>(input);
      }
    }
  }
  SUBCASE("another thread makes a call of its own meanwhile") {
    check_interrupted([](const Sizes& sizes) {
      Random random;
      const Tensor input = random_tensor<float>(sizes, random);
      const Tensor out = random_tensor<float>(halved(sizes), random);
      silu_and_mul_out(out, strided(input, 2));
      return std::vector<Tensor>{out};
    });
  }
  SUBCASE("an exception passes, and both handles are released") {
    const Tensor input = random_tensor<float>({2, 6}, random);
    Tensor flat = random_tensor<float>({6}, random); // of another rank
    Tensor turned = random_tensor<float>({3, 2}, random);
    Tensor wide = random_tensor<float>({2, 4}, random);
    const Tensor none = random_tensor<float>({0}, random); // to be resized?
    const struct {
      Tensor memory, out;
    } rows[] = {
        {flat, flat},
        {none, none},
        {turned, torch::stable::transpose(turned, 0, 1)},
        {wide, torch::stable::narrow(wide, 1, 0, 3)}}; // rows lie apart
    for (const auto& row : rows) {
      const auto before = elements<float>(row.memory);
      if (refusal([&] { silu_and_mul_out(row.out, input); }) ==
          kNothingThrown) {
        FAIL("out does not fit, and nothing was thrown");
      }
      INFO("what is refused is not touched");
      const auto memory = elements<float>(row.memory);
      CHECK(memory == before);
    }
  }
  SUBCASE("more elements than 32 bits can count") {
    // Of long rows, and of short ones: gates at the last two results.
    for (const auto& [rows, d] :
         {std::pair{int64_t{3}, (int64_t{1} << 29) + 75},
          {(int64_t{1} << 31) + 5, int64_t{1}}}) {
      const Huge huge(rows, d);
      const int64_t row = d == 1 ? rows - 2 : rows - 1;
      const int64_t column = d == 1 ? 0 : d - 2;
      huge.set(row, column, 1, 2);
      huge.set(rows - 1, d - 1, 3, 4);
      huge.set(0, 0, 5, 6);
      const auto text = [&] {
        const Set only(ends, 2);
        return refusal([&] { silu_and_mul_out(huge.out, huge.input); });
      }();
      CHECK(text == kNothingThrown);
      const BFloat16* const out = huge.memory_out.data();
      CHECK(out[rows * d - 1] == BFloat16(float(gated(3, 4, 1, INFINITY))));
      CHECK(out[rows * d - 2] == BFloat16(float(gated(1, 2, 1, INFINITY))));
      CHECK(out[0] == BFloat16(float(gated(5, 6, 1, INFINITY))));
    }
  }
  SUBCASE("what ATen gives for special values") {
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      const Tensor input = tensor<T>(
          {T(-INFINITY),
           T(NAN),
           T(INFINITY),
           T(-1000.0f),
           T(0.5f),
           T(-0.0f),
           T(3e-6f), // subnormal in Half
           T(1.0f),
           T(1.0f),
           T(1.0f),
           T(1.0f),
           T(1.0f),
           T(INFINITY),
           T(1.0f),
           T(1.0f),
           T(3e-6f)},
          {16});
      const auto want = exact(elements<T>(input), 8);
      CHECK(find_difference<T>(silu_and_mul(input), want) == "");
    });
    // Near the end of a float, and a tie, which goes to the even 49.
    const Tensor small = tensor<float>({-88.7f, 1}, {2});
    const auto want = exact(elements<float>(small), 1);
    CHECK(find_difference<float>(silu_and_mul(small), want) == "");
    const Tensor tie =
        tensor<BFloat16>({BFloat16(48.0f), BFloat16(1.0234375f)}, {2});
    CHECK(elements<BFloat16>(silu_and_mul(tie))[0] == 49);
  }
  SUBCASE("short rows of a tensor that is larger than the cache") {
    constexpr int64_t kRows = (int64_t{1} << 18) + 3;
    const Tensor input = random_tensor<float>({kRows, 2}, random);
    const Tensor out = random_tensor<float>({kRows, 1}, random);
    REQUIRE_NOTHROW(silu_and_mul_out(out, input));
    CHECK(find_difference<float>(out, exact(elements<float>(input), 1)) == "");
  }
  SUBCASE("one row that is larger than the cache, shared by threads") {
    const Set shared(threads, 2);
    const auto check = [&](auto zero) {
      using T = decltype(zero);
      const int64_t columns = (int64_t{1} << 20) / int64_t{sizeof(T)} + 75;
      const Tensor input = random_tensor<T>({1, 2 * columns}, random);
      const Tensor out = random_tensor<T>({1, columns}, random);
      REQUIRE_NOTHROW(silu_and_mul_out(out, input));
      const auto want = exact(elements<T>(input), static_cast<size_t>(columns));
      CHECK(find_difference<T>(out, want) == "");
    };
    check(float{});
    check(double{});
  }
}

TEST_CASE(
    "04.3 each type of the schema is taken as its C++ type" *
    doctest::description("swiglu takes an argument, or returns a result, "
                         "otherwise than its schema says.")) {
  Random random;
  const Tensor input = random_tensor<float>({5, 12}, random);
  const Tensor bias = random_tensor<float>({12}, random);
  const auto x = elements<float>(input);
  const auto want = [&](const std::vector<double>& b,
                        double alpha = 1,
                        double limit = INFINITY) {
    return exact(x, 6, b, alpha, limit);
  };
  const auto out_of = [](const std::tuple<Tensor, Tensor>& both) {
    const auto& [out, amax] = both;
    const auto out_sizes = out.sizes().vec();
    REQUIRE(out_sizes == Sizes{5, 6});
    REQUIRE_CLEAN(out.is_contiguous() ? "" : "out is not contiguous");
    return out;
  };
  const auto b = elements<float>(bias);
  SUBCASE("swiglu(input): bias and limit are None") {
    CHECK(find_difference<float>(out_of(swiglu(input)), want({}), 40) == "");
  }
  SUBCASE("Tensor: of any strides and shape") {
    for (const Tensor& other : lying_otherwise(input)) {
      const auto y = exact(elements<float>(other), 6);
      CHECK(find_difference<float>(out_of(swiglu(other)), y, 40) == "");
    }
    for (const Sizes& sizes : kShapes) {
      const Tensor any = random_tensor<float>(sizes, random);
      const auto [out, amax] = swiglu(any);
      Sizes one = halved(sizes);
      const auto out_sizes = out.sizes().vec();
      CHECK(out_sizes == one);
      one.back() = 1;
      const auto amax_sizes = amax.sizes().vec();
      CHECK(amax_sizes == one);
      const auto d = static_cast<size_t>(sizes.back() / 2);
      CHECK(
          find_difference<float>(out, exact(elements<float>(any), d), 40) ==
          "");
    }
  }
  SUBCASE("a kernel is for one key: other tensors do not reach it") {
    const auto sparse = [&](const Tensor& dense) {
      return std::get<0>(
          call<Tensor>("aten::to_sparse", "sparse_dim", dense, int64_t{2}));
    };
    const Tensor all = sparse(input);
    const Tensor half = sparse(random_tensor<float>({5, 6}, random));
    CHECK(refusal([&] { swiglu(all); }) == Contains("SparseCPU"));
    CHECK(refusal([&] { silu_and_mul(all); }) == Contains("SparseCPU"));
    CHECK(
        refusal([&] { silu_and_mul_out(half, all); }) == Contains("SparseCPU"));
    CHECK(refusal([&] {
            silu_and_mul_backward(half, all);
          }) == Contains("SparseCPU"));
  }
  SUBCASE("Tensor?: a bias, also one with strides") {
    CHECK(
        find_difference<float>(out_of(swiglu(input, bias)), want(b), 40) == "");
    const Tensor wide = strided(bias, 2);
    CHECK(
        find_difference<float>(out_of(swiglu(input, wide)), want(b), 40) == "");
  }
  SUBCASE("Tensor?: a bias that does not fit is refused before it is read") {
    std::vector<Tensor> wrong = {
        random_tensor<double>({12}, random), random_tensor<Half>({12}, random)};
    for (const Sizes& sizes :
         std::vector<Sizes>{{0}, {1}, {6}, {11}, {13}, {1, 12}, {5, 12}, {}}) {
      wrong.push_back(random_tensor<float>(sizes, random));
    }
    for (const Tensor& other : wrong) {
      INFO("a bias of ", other.sizes().vec(), ", ", dtype_of(other));
      CHECK(refusal([&] { swiglu(input, other); }) == Contains("bias"));
    }
  }
  SUBCASE("Tensor: a last size that is odd or missing is refused") {
    for (const Sizes& sizes : {Sizes{2, 5}, Sizes{1}, Sizes{}}) {
      const Tensor other = random_tensor<float>(sizes, random);
      INFO("an input of ", sizes);
      CHECK(refusal([&] { swiglu(other); }) == Contains("even"));
    }
  }
  SUBCASE("float: alpha") {
    for (const double alpha : {1.702, -0.1, 0.0}) {
      INFO("alpha ", alpha);
      const Tensor out = out_of(swiglu(input, bias, alpha));
      CHECK(find_difference<float>(out, want(b, alpha), 40) == "");
    }
    const Tensor wide = random_tensor<double>({5, 12}, random);
    const auto got = out_of(swiglu(wide, std::nullopt, 0.1)); // as a double
    CHECK(
        find_difference<double>(
            got, exact(elements<double>(wide), 6, {}, 0.1), 40) == "");
  }
  SUBCASE("float?: a limit") {
    for (const double limit : {7.0, 0.1, 0.0}) {
      INFO("limit ", limit);
      const Tensor out = out_of(swiglu(input, std::nullopt, 1.702, limit));
      CHECK(find_difference<float>(out, want({}, 1.702, limit), 40) == "");
    }
    const Tensor wide = random_tensor<double>({5, 12}, random);
    const auto clamped =
        std::get<0>(swiglu(wide, std::nullopt, 1, 0.1)); // as a double
    CHECK(
        find_difference<double>(
            clamped, exact(elements<double>(wide), 6, {}, 1, 0.1), 40) == "");
    const Tensor huge = tensor<double>({1e300, 2}, {2}); // no limit at all
    CHECK(elements<double>(std::get<0>(swiglu(huge)))[0] == 2e300);
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      const Tensor endless =
          tensor<T>({T(INFINITY), T(0.5f), T(0.5f), T(INFINITY)}, {2, 2});
      const auto both = exact(elements<T>(endless), 1);
      CHECK(find_difference<T>(std::get<0>(swiglu(endless)), both) == "");
    });
    const Tensor special = tensor<float>({NAN, 1, 9, 1, NAN, -9}, {6});
    const auto got =
        elements<float>(std::get<0>(swiglu(special, std::nullopt, 1, 2.0)));
    CHECK(std::isnan(got[0])); // a clamp hides no NaN
    CHECK(std::isnan(got[1]));
    CHECK(got[2] == doctest::Approx(gated(9, -9, 1, 2)));
  }
  SUBCASE("two returns, in their order") {
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      const auto [out, amax] = swiglu(random_tensor<T>({3, 4, 10}, random));
      const auto out_sizes = out.sizes().vec();
      REQUIRE(out_sizes == Sizes{3, 4, 5});
      const auto amax_sizes = amax.sizes().vec();
      REQUIRE(amax_sizes == Sizes{3, 4, 1});
      CHECK(dtype_of(amax) == dtype_of(out));
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
    CHECK(std::isnan(elements<float>(std::get<1>(swiglu(nan)))[0]));
    const Tensor none = random_tensor<float>({3, 0}, random);
    CHECK(elements<float>(std::get<1>(swiglu(none))) == std::vector<double>(3));
  }
  SUBCASE("the same tensors again, with other elements") {
    for (const Tensor& other : with(input, lying_otherwise(input))) {
      const Tensor wide = strided(bias, 2);
      for (const Tensor& added : {bias, wide, wide}) {
        const auto y = exact(elements<float>(other), 6, elements<float>(added));
        CHECK(
            find_difference<float>(out_of(swiglu(other, added)), y, 40) == "");
        halve<float>(other);
        halve<float>(added);
      }
    }
  }
  SUBCASE("another thread makes a call of its own meanwhile") {
    check_interrupted([](const Sizes& sizes) {
      Random random;
      const Tensor rows = random_tensor<float>(sizes, random);
      const Tensor added = random_tensor<float>({sizes.back()}, random);
      const double limit = random.normal<double>(1);
      const auto [out, amax] =
          swiglu(strided(rows, 2), strided(added, 2), limit, std::abs(limit));
      return std::vector<Tensor>{out, amax};
    });
    check_interrupted([](const Sizes& sizes) {
      Random random;
      const Tensor rows = random_tensor<float>(sizes, random);
      return std::vector<Tensor>{silu_and_mul(strided(rows, 2))};
    });
  }
  SUBCASE("the results of one call are not those of the next") {
    const auto [out, amax] = swiglu(input);
    const auto [other_out, other_amax] = swiglu(input);
    CHECK(out.data_ptr() != other_out.data_ptr());
    CHECK(amax.data_ptr() != other_amax.data_ptr());
  }
}

namespace {

// Calls `kernel` and requires that it reads no size, and that its results have
// these sizes and input's dtype.
template <class Kernel>
void check_meta(
    const Kernel& kernel,
    const std::vector<Sizes>& sizes,
    const Tensor& input) {
  sizes_read = 0;
  std::vector<Tensor> results;
  REQUIRE_NOTHROW(results = kernel());
  if (sizes_read != 0) {
    FAIL_CHECK(
        "the kernel read a size, ",
        sizes_read,
        " time(s): torch.compile would compile again for each shape");
  }
  REQUIRE(results.size() == sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    INFO("result ", i + 1, " of ", sizes.size());
    const auto result_sizes = results[i].sizes().vec();
    CHECK(result_sizes == sizes[i]);
    CHECK((results[i].device().type() == DeviceType::Meta));
    CHECK(dtype_of(results[i]) == dtype_of(input));
    CHECK(results[i].is_contiguous());
  }
}

// Calls f(input, half) with inputs [..., 2d] on Meta, and [..., d].
template <class F>
void for_each_on_meta(const F& f) {
  for (const ScalarType dtype : {ScalarType::Float, ScalarType::BFloat16}) {
    Tensor rows = on_meta({8, 5}, dtype);
    for (const Tensor& input :
         {on_meta({8}, dtype),
          on_meta({3, 2}, dtype),
          on_meta({3, 0}, dtype),
          on_meta({5, 8}, dtype),
          on_meta({3, 5, 8}, dtype),
          torch::stable::transpose(rows, 0, 1)}) {
      f(input, halved(input.sizes().vec()));
    }
  }
}

} // namespace

TEST_CASE(
    "04.4 a Meta kernel knows the result and reads no size" *
    doctest::description("A Meta kernel answers otherwise than the CPU kernel, "
                         "or reads a size.")) {
  using Results = std::vector<Tensor>;
  SUBCASE("silu_and_mul") {
    LOOK_AT("silu_and_mul.h", "");
    for_each_on_meta([](const Tensor& input, const Sizes& half) {
      check_meta([&] { return Results{silu_and_mul(input)}; }, {half}, input);
    });
  }
  SUBCASE("swiglu, of two results") {
    LOOK_AT("boxed_kernels.cpp", "");
    for_each_on_meta([](const Tensor& input, const Sizes& half) {
      Sizes one = half;
      one.back() = 1;
      const auto check = [&](const MaybeTensor& bias,
                             const MaybeDouble& limit) {
        const auto both = [&] {
          const auto [out, amax] = swiglu(input, bias, 1.5, limit);
          return Results{out, amax};
        };
        check_meta(both, {half, one}, input);
      };
      check(std::nullopt, std::nullopt);
      INFO("bias and limit are given");
      check(on_meta({2 * half.back()}, input.scalar_type()), 7.0);
    });
  }
  SUBCASE("an input that has no last dimension is an error") {
    const Tensor scalar = on_meta({});
    CHECK(refusal([&] { silu_and_mul(scalar); }) == Contains("chunk"));
    CHECK(refusal([&] { swiglu(scalar); }) == Contains("chunk"));
  }
  SUBCASE("the ops whose Meta kernels are given") {
    for_each_on_meta([](const Tensor& input, const Sizes& half) {
      const Tensor grad = on_meta(half, input.scalar_type());
      const Sizes sizes = input.sizes().vec();
      check_meta(
          [&] { return Results{silu_and_mul_backward(grad, input)}; },
          {sizes},
          input);
      call<Tensor>(
          "aten::unsqueeze_",
          "",
          silu_and_mul_backward(grad, input),
          int64_t{0});
      INFO("the gradient, changed in place, is not the input");
      const auto input_sizes = input.sizes().vec();
      CHECK(input_sizes == sizes);
      const auto out = [&] {
        silu_and_mul_out(grad, input);
        return Results{grad};
      };
      check_meta(out, {half}, input);
    });
  }
}

TEST_CASE(
    "04.5 the backward op is the derivative, rounded once" *
    doctest::description("The gradient is another than the derivative, or "
                         "rounded more than once.")) {
  Random random;
  // Not thrown out of a subcase, of which doctest does not tell what it was.
  const auto backward = [](const Tensor& grad, const Tensor& input) {
    std::optional<Tensor> result;
    REQUIRE_NOTHROW(result = silu_and_mul_backward(grad, input));
    return *result;
  };
  SUBCASE("finite differences, in double") {
    constexpr int64_t kD = 7;
    const size_t d = kD;
    const Tensor column = random_tensor<double>({3, 1}, random);
    const Tensor grad = std::get<0>(call<Tensor>( // as that of a sum is
        "aten::expand",
        "",
        column,
        Sizes{3, d},
        false));
    const Tensor input = strided(random_tensor<double>({3, 2 * kD}, random), 2);
    const auto x = elements<double>(input);
    const auto dy = elements<double>(grad);
    const auto got = elements<double>(backward(grad, input));
    REQUIRE(got.size() == x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t row = i / (2 * d), column = i % (2 * d) % d;
      const auto y = [&](double moved) {
        auto values = x;
        values[i] += moved;
        return exact(values, d)[row * d + column];
      };
      const double slope = (y(1e-5) - y(-1e-5)) / 2e-5;
      const double want = slope * dy[row * d + column];
      const std::string which = i % (2 * d) < d ? "grad_gate" : "grad_up";
      INFO(which, " of row ", row, ", column ", column);
      const double gradient = got[i];
      CHECK(gradient == doctest::Approx(want).epsilon(1e-6));
    }
  }
  SUBCASE("every shape and dtype") {
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      for (const Sizes& sizes : kShapes) {
        const Tensor grad = random_tensor<T>(halved(sizes), random);
        // Not near -1.28, where the derivative of silu crosses zero.
        const Tensor input = positive(random_tensor<T>(sizes, random));
        const Tensor got = backward(grad, input);
        REQUIRE(got.sizes().vec() == sizes);
        const auto want = exact_gradient(
            elements<T>(grad),
            elements<T>(input),
            static_cast<size_t>(sizes.back() / 2));
        CHECK(find_difference<T>(got, want, kGradientTolerance<T>) == "");
      }
    });
  }
  SUBCASE("any strides, of the gradient and of the input") {
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      const Tensor grads = random_tensor<T>({5, 6}, random);
      const Tensor inputs = positive(random_tensor<T>({5, 12}, random));
      for (const Tensor& grad : lying_otherwise(grads)) {
        for (const Tensor& input : lying_otherwise(inputs)) {
          const auto want =
              exact_gradient(elements<T>(grad), elements<T>(input), 6);
          const Tensor got = backward(grad, input);
          CHECK(got.is_contiguous());
          CHECK(find_difference<T>(got, want, kGradientTolerance<T>) == "");
        }
      }
    });
  }
  SUBCASE("the same tensors again, with other elements") {
    const Tensor grads = random_tensor<float>({5, 6}, random);
    const Tensor inputs = positive(random_tensor<float>({5, 12}, random));
    const auto all_inputs = with(inputs, lying_otherwise(inputs));
    const auto all_grads = with(grads, lying_otherwise(grads));
    for (size_t i = 0; i < all_inputs.size(); ++i) {
      for (int turn = 0; turn < 3; ++turn) {
        const auto want = exact_gradient(
            elements<float>(all_grads[i]), elements<float>(all_inputs[i]), 6);
        const Tensor got = backward(all_grads[i], all_inputs[i]);
        CHECK(
            find_difference<float>(got, want, kGradientTolerance<float>) == "");
        halve<float>(all_inputs[i]);
        halve<float>(all_grads[i]);
      }
    }
  }
  SUBCASE("another thread makes a call of its own meanwhile") {
    check_interrupted([](const Sizes& sizes) {
      Random random;
      const Tensor grad = random_tensor<float>(halved(sizes), random);
      const Tensor input = random_tensor<float>(sizes, random);
      return std::vector<Tensor>{
          silu_and_mul_backward(strided(grad, 2), strided(input, 2))};
    });
  }
  SUBCASE("a gate of any size, also where e^-x overflows") {
    for_each_dtype([&](auto zero) {
      using T = decltype(zero);
      std::vector<T> row;
      for (const float gate :
           {-30000.0f,
            -1000.0f,
            -100.0f,
            -88.7f,
            -85.0f,
            -20.0f,
            -3.0f,
            -0.0f,
            0.0f,
            3.0f,
            100.0f,
            30000.0f}) {
        row.push_back(T(gate));
      }
      const size_t d = row.size();
      row.resize(2 * d, T(1.5f));
      const Tensor input = tensor<T>(row, {int64_t(2 * d)});
      const Tensor grad = tensor<T>(std::vector<T>(d, T(2.0f)), {int64_t(d)});
      const auto want =
          exact_gradient(elements<T>(grad), elements<T>(input), d);
      const auto got = elements<T>(backward(grad, input));
      for (size_t i = 0; i < 2 * d; ++i) {
        INFO("gate ", double(row[i % d]), i < d ? ", grad_gate" : ", grad_up");
        const double bound = std::abs(want[i]) * (sizeof(T) == 2 ? 4e-3 : 4e-6);
        // Below it are subnormals.
        const double least = std::is_same_v<T, Half> ? 1e-6 : 2e-38;
        CHECK(std::abs(got[i] - want[i]) <= bound + least);
      }
    });
  }
  SUBCASE("the result of one call is not that of the next") {
    const Tensor input = random_tensor<float>({2, 6}, random);
    const Tensor grad = random_tensor<float>({2, 3}, random);
    const Tensor first = backward(grad, input);
    CHECK(first.data_ptr() != backward(grad, input).data_ptr());
  }
  SUBCASE("more elements than 32 bits can count") {
    constexpr int64_t kRows = (int64_t{1} << 31) + 5;
    const Huge huge(kRows, 1); // its out is the gradient
    huge.set(kRows - 1, 0, 3, 4);
    huge.set(kRows - 2, 0, 1, 2);
    huge.memory_out.data()[kRows - 1] = 5.0f;
    huge.memory_out.data()[kRows - 2] = 6.0f;
    const Sparse<BFloat16> memory(2 * kRows);
    const NewEmpty in_memory(memory);
    const auto text = [&] {
      const Set only(ends, 2);
      return refusal([&] { silu_and_mul_backward(huge.out, huge.input); });
    }();
    CHECK(text == kNothingThrown);
    const auto want = exact_gradient({6, 5}, {1, 2, 3, 4}, 1);
    for (int i = 0; i < 4; ++i) {
      INFO("element ", i - 4, " from the end of the gradient");
      const float got = memory.data()[2 * kRows - 4 + i];
      CHECK(got == static_cast<float>(BFloat16(static_cast<float>(want[i]))));
    }
  }
  SUBCASE("a gradient of another rank is refused") {
    const Tensor input = random_tensor<float>({2, 6}, random);
    const Tensor grad = random_tensor<float>({6}, random);
    CHECK(
        refusal([&] { silu_and_mul_backward(grad, input); }) != kNothingThrown);
  }
  SUBCASE("larger than the cache") {
    const Set shared(threads, 2);
    // 1 MiB and a little. Both results begin at the same byte of a tile, or
    // not.
    const auto check = [&](auto zero, int64_t d) {
      using T = decltype(zero);
      const Sizes sizes{3, 2 * d};
      const Tensor grad = random_tensor<T>(halved(sizes), random);
      const Tensor input = positive(random_tensor<T>(sizes, random));
      const auto want = exact_gradient(
          elements<T>(grad), elements<T>(input), static_cast<size_t>(d));
      const double bound = kGradientTolerance<T>;
      CHECK(find_difference<T>(backward(grad, input), want, bound) == "");
    };
    check(Half{}, 87408);
    check(float{}, 43703);
  }
}

TEST_CASE(
    "04.6 an error names the argument, what it has, and what input has" *
    doctest::description(
        "The error leaves out the argument, what it has, or what input has.")) {
  Random random;
  const auto random_float = [&](const Sizes& sizes) {
    return random_tensor<float>(sizes, random);
  };
  const Tensor input = random_float({2, 6});
  SUBCASE("wrong sizes: those of both") {
    for (const Sizes& sizes :
         {Sizes{2, 4},
          Sizes{2, 2},
          Sizes{3, 3},
          Sizes{3, 2}, // as many elements
          Sizes{6},
          Sizes{5, 2, 3},
          Sizes{3},
          Sizes{0},
          Sizes{0, 3},
          Sizes{}}) {
      const Tensor out = random_float(sizes);
      const auto before = elements<float>(out);
      const std::string came = doctest::toString(sizes).c_str();
      const auto text = refusal([&] { silu_and_mul_out(out, input); });
      CHECK(text == Contains("out"));
      CHECK(text == Contains("[2, 6]"));
      CHECK(text == Contains((sizes.empty() ? "[]" : came).c_str()));
      CHECK(elements<float>(out) == before);
      CHECK(refusal([&] {
              silu_and_mul_backward(out, input);
            }) == Contains("grad"));
    }
    const Tensor deep = random_float({3, 100, 2, 1000});
    const Tensor other = random_float({3, 100, 2, 999});
    const auto text = refusal([&] { silu_and_mul_out(other, deep); });
    CHECK(text == Contains("[3, 100, 2, 1000]"));
    CHECK(text == Contains("[3, 100, 2, 999]"));
    const Tensor turned = random_float({100, 3, 2, 500}); // has as many rows
    CHECK(refusal([&] {
            silu_and_mul_out(turned, deep);
          }) == Contains("[100, 3, 2, 500]"));
    const Tensor wide = random_float({0, int64_t{1} << 33}); // no memory at all
    CHECK(refusal([&] {
            silu_and_mul_out(random_float({0, int64_t{1} << 32}), wide);
          }) == kNothingThrown);
    CHECK(refusal([&] {
            silu_and_mul_out(random_float({0, 0}), wide);
          }) == Contains("8589934592"));
  }
  SUBCASE("a wrong dtype: both") {
    const Tensor doubles = random_tensor<double>({2, 3}, random);
    const auto text = refusal([&] { silu_and_mul_out(doubles, input); });
    CHECK(text == Contains("out"));
    CHECK(text == Contains("Float"));
    CHECK(text == Contains("Double"));
    const auto of_grad =
        refusal([&] { silu_and_mul_backward(doubles, input); });
    CHECK(of_grad == Contains("grad"));
    CHECK(of_grad == Contains("Float"));
    CHECK(of_grad == Contains("Double"));
    const Tensor halves = random_tensor<Half>({2, 6}, random);
    const Tensor brains = random_tensor<BFloat16>({2, 3}, random);
    CHECK(refusal([&] { // both have two bytes
            silu_and_mul_out(brains, halves);
          }) == Contains("Half"));
  }
  SUBCASE("no text is made where the checks hold") {
    // No element, and sizes whose text is long.
    const Sizes sizes{0, 1 << 20, 1 << 20, 1 << 10, 1 << 10};
    const Tensor in = random_float(sizes);
    const Tensor out = random_float(halved(sizes));
    const BoxedKernel kernel = kernel_of("silu_and_mul.out");
    REQUIRE((kernel != nullptr));
    const auto allocated = [&](const auto& take) {
      StableIValue stack[] = {
          slots::make("Tensor", out.get(), true),
          slots::make("Tensor", in.get(), true)};
      const Ledger ledger;
      take(stack);
      return Ledger::allocated();
    };
    const size_t by_two_tensors = allocated([](StableIValue* stack) {
      torch::stable::detail::to<Tensor>(stack[0]);
      torch::stable::detail::to<Tensor>(stack[1]);
    });
    const size_t by_the_kernel =
        allocated([&](StableIValue* stack) { kernel(stack, 2, 0); });
    CHECK(by_the_kernel <= by_two_tensors + 2); // a check may copy the sizes
  }
  SUBCASE("what is given is right too") {
    const Tensor odd = random_float({2, 5});
    for (const auto& text :
         {refusal([&] { silu_and_mul(odd); }),
          refusal([&] { silu_and_mul_out(odd, odd); }),
          refusal([&] {
            silu_and_mul_backward(random_float({2, 2}), odd);
          }),
          refusal([&] { swiglu(odd); })}) {
      CHECK(text == Contains("input must end in an even size, got [2, 5]"));
    }
    const Tensor scalar = random_float({});
    CHECK(refusal([&] { silu_and_mul(scalar); }) == Contains("[]"));
    Tensor square = random_float({3, 2});
    const Tensor view = torch::stable::transpose(square, 0, 1);
    CHECK(refusal([&] {
            silu_and_mul_out(view, input);
          }) == Contains("out must be contiguous, got strides [1, 2]"));
    const Tensor integers = tensor<int32_t>({1, 2, 3, 4}, {2, 2});
    CHECK(refusal([&] { silu_and_mul(integers); }) == Contains("'Int'"));
    CHECK(refusal([&] {
            swiglu(input, random_float({3}));
          }) == Contains("bias must be [6], got [3]"));
    CHECK(refusal([&] {
            swiglu(input, random_tensor<double>({6}, random));
          }) == Contains("bias must have input's dtype Float, got Double"));
  }
}
