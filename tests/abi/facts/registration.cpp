// These tests say what TORCH_BOX checks and what it leaves unchecked, and how a
// registration fails.
#include "testing/asan.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/child.h"
#include "testing/dispatcher.h"
#include "testing/ledger.h"
#include "testing/schema.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/version.h>

#include <dlfcn.h>

#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#if WORKBOOK_ASAN
#include <sanitizer/lsan_interface.h>
#endif

using namespace workbook;
using doctest::Contains;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using torch::stable::detail::StableLibrary;

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
int64_t throw_error(const Tensor&, const Tensor&) {
  STD_TORCH_CHECK(false, "thrown by the body");
}

// While it lives, LeakSanitizer ignores new allocations.
struct LeaksIgnored {
#if WORKBOOK_ASAN
  LeaksIgnored() {
    __lsan_disable();
  }
  ~LeaksIgnored() {
    __lsan_enable();
  }
#endif
};

// Returns the number of blocks that each call of an op, which fails, loses.
template <class Call>
double count_lost(const Call& call) {
  [[maybe_unused]] const LeaksIgnored ignored;
  return count_leaks([&] { CHECK(refusal(call) != kNothingThrown); });
}

} // namespace

TEST_CASE("TORCH_BOX counts arguments and returns, and knows no types") {
  StableLibrary def(StableLibrary::Kind::DEF, "wb_types", nullptr, "", 0);
  def.def("right(float x) -> float");
  def.def("wrong(float x) -> float");
  def.def("right_int(int x) -> int");
  def.def("wrong_int(int x) -> int");
  def.def("more(float x, float y) -> float");
  def.def("fewer_returns(float x) -> ()");
  const char* key = "CompositeExplicitAutograd"; // no tensor chooses a key
  StableLibrary impl(StableLibrary::Kind::IMPL, "wb_types", key, "", 0);
  impl.impl("right", TORCH_BOX(&a_double));
  impl.impl("wrong", TORCH_BOX(&half_of_a_double));
  impl.impl("right_int", TORCH_BOX(&an_int));
  impl.impl("wrong_int", TORCH_BOX(&half_of_an_int));
  impl.impl("more", TORCH_BOX(&a_double));
  impl.impl("fewer_returns", TORCH_BOX(&a_double));

  const auto floats = [](const char* name, double x) {
    return std::get<0>(call<double>(std::string("wb_types::") + name, "", x));
  };
  CHECK(floats("right", 0.1) == 0.1);
  // The low half of the double, read as a float; its four bytes, read as a
  // double again, are next to nothing.
  CHECK(std::abs(floats("wrong", 0.1)) < 1e-300);
  CHECK(arrived < -1.58e-23f);
  CHECK(arrived > -1.59e-23f);
  CHECK(floats("wrong", 1.0) == 0);

  const auto ints = [](const char* name, int64_t x) {
    return std::get<0>(call<int64_t>(std::string("wb_types::") + name, "", x));
  };
  CHECK(ints("right_int", -1) == -1);
  CHECK(ints("wrong_int", 5) == 5); // so a test with small numbers passes
  CHECK(ints("wrong_int", -1) == 0xffffffff);
  CHECK(ints("wrong_int", (int64_t{1} << 32) + 5) == 5);

  CHECK(refusal([] {
          call<double>("wb_types::more", "", 1.0, 2.0);
        }) == Contains("has 2 args, but the kernel to box has 1"));
  CHECK(refusal([] {
          call("wb_types::fewer_returns", "", 1.0);
        }) == Contains("has 0 outputs, but the kernel to box has 1"));
}

TEST_CASE("a conversion that throws leaks what was not yet taken") {
  StableLibrary def(StableLibrary::Kind::DEF, "wb_leaks", nullptr, "", 0);
  def.def("last(Tensor a, Tensor b, ScalarType dtype) -> int");
  def.def("first(ScalarType dtype, Tensor a, Tensor b) -> int");
  def.def("body(Tensor a, Tensor b) -> int");
  StableLibrary impl(StableLibrary::Kind::IMPL, "wb_leaks", "CPU", "", 0);
  impl.impl("last", TORCH_BOX(&two_and_dtype));
  impl.impl("first", TORCH_BOX(&dtype_and_two));
  impl.impl("body", TORCH_BOX(&throw_error));
  const Tensor a = tensor<float>({1}, {1});

  CHECK(count_lost([&] { call<int64_t>("wb_leaks::body", "", a, a); }) == 0);

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
  const double last =
      count_lost([&] { call<int64_t>("wb_leaks::last", "", a, a, dtype); });
  const double first =
      count_lost([&] { call<int64_t>("wb_leaks::first", "", dtype, a, a); });
  // A tensor that is not taken is one block. C++ leaves open in which order
  // the arguments of a call are evaluated: GCC begins with the last on x86-64,
  // and with the first on aarch64.
  CHECK(last + first == 2);
#if !defined(__clang__) && defined(__x86_64__)
  CHECK(last == 2);
#elif !defined(__clang__) && defined(__aarch64__)
  CHECK(first == 2);
#endif
}

TEST_CASE("a fragment adds to a namespace that another library opened") {
  StableLibrary first(StableLibrary::Kind::DEF, "wb_opened", nullptr, "", 0);
  first.def("before(int x) -> int");
  StableLibrary def(StableLibrary::Kind::FRAGMENT, "wb_opened", nullptr, "", 0);
  def.def("added(int x) -> int");
  StableLibrary impl(
      StableLibrary::Kind::IMPL,
      "wb_opened",
      "CompositeExplicitAutograd",
      "",
      0);
  impl.impl("added", TORCH_BOX(&an_int));
  CHECK(std::get<0>(call<int64_t>("wb_opened::added", "", int64_t{7})) == 7);
  CHECK(schema_of("wb_opened", "added") == "wb_opened::added(int x) -> int");
  CHECK(schema_of("wb_opened", "before") != "");
}

TEST_CASE("a kernel that is missing for a key is named by the error") {
  StableLibrary def(StableLibrary::Kind::DEF, "wb_keys", nullptr, "", 0);
  def.def("cpu_only(Tensor x, Tensor y) -> int");
  def.def("no_kernel(Tensor x) -> int");
  {
    StableLibrary impl(StableLibrary::Kind::IMPL, "wb_keys", "CPU", "", 0);
    impl.impl("cpu_only", TORCH_BOX(&throw_error));
    // Registered under a name that nobody defines: accepted in silence.
    impl.impl("cpu_onyl", TORCH_BOX(&throw_error));
    const Tensor meta = torch::stable::empty(
        {2},
        ScalarType::Float,
        std::nullopt,
        torch::stable::Device(torch::headeronly::DeviceType::Meta));
    const Tensor cpu = tensor<float>({1}, {1});
    const auto text =
        refusal([&] { call<int64_t>("wb_keys::cpu_only", "", meta, cpu); });
    CHECK(text == Contains("wb_keys::cpu_only"));
    CHECK(text == Contains("no fake impl or Meta kernel"));
    CHECK(refusal([&] {
            call<int64_t>("wb_keys::cpu_only", "", cpu, cpu);
          }) == Contains("thrown by the body"));
    CHECK(refusal([&] {
            call<int64_t>("wb_keys::no_kernel", "", cpu);
          }) == Contains("'CPU' backend"));
  }
  // The kernels go with their library: dlclose, and the op has none.
  const Tensor cpu = tensor<float>({1}, {1});
  CHECK(refusal([&] {
          call<int64_t>("wb_keys::cpu_only", "", cpu, cpu);
        }) == Contains("'CPU' backend"));
}

TEST_CASE("some mistakes in a registration end the process at load") {
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
  // STABLE_TORCH_LIBRARY and _IMPL make a static object of these at dlopen.
  const auto load =
      [](Kind kind, const char* ns, const char* key, Block* block) {
        return ending_in_child(
            [&] { static const Init registered(kind, block, ns, key, "", 0); });
      };

  StableLibrary opened(Kind::DEF, "wb_opened", nullptr, "", 0);
  // The library object is never made. Nothing looks at the code that says so,
  // and the handle is used as static storage begins: null.
  CHECK(load(Kind::DEF, "wb_opened", nullptr, define).signal == SIGSEGV);
  CHECK(load(Kind::IMPL, "wb_load", "Cpu", implement).signal == SIGSEGV);

  // Headers before 2.13 drop the code that a bad schema returns: the process
  // goes on, without the op. Those since throw where nothing can catch.
  constexpr bool kThrows = TORCH_ABI_VERSION >= 0x020d000000000000;
  for (Block* const block : {misspelt, defined_twice}) {
    const Ending bad = load(Kind::DEF, "wb_load", nullptr, block);
    INFO(bad.text);
    CHECK(bad.signal == (kThrows ? SIGABRT : 0));
    CHECK(
        (bad.text.find("aoti_torch_library_def") != std::string::npos) ==
        kThrows);
  }

  const Ending warned = load(Kind::IMPL, "wb_load", "CPU", implemented_twice);
  CHECK(warned.signal == 0);
  CHECK(doctest::String(warned.text.c_str()) == Contains("Overriding"));
}
