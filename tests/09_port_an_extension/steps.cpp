// Tests of chapter 09: the ported library against the original.
#include "original.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"
#include "testing/library.h"
#include "testing/schema.h"
#include "testing/symbols.h"
#include "testing/text.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace workbook;
using namespace workbook::chapter_09;
using doctest::Contains;
using torch::headeronly::ScalarType;

namespace {

const void* inside() {
  return library_symbol("call_op_declared");
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  char* const text =
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  const std::string found = status == 0 ? text : symbol;
  std::free(text);
  return found;
}

// The functions that libtorch 2.10 does not have, of all that headers have had.
std::set<std::string> newer_functions() {
  std::ifstream table(WORKBOOK_NAMES);
  std::set<std::string> found;
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string name, kind, header, headers, target;
    std::getline(fields, name, '\t');
    std::getline(fields, kind, '\t');
    std::getline(fields, header, '\t');
    std::getline(fields, headers, '\t');
    std::getline(fields, target, '\t');
    if (kind == "C function" && target != "2.9" && target != "2.10") {
      found.insert(name);
    }
  }
  return found;
}

// "", or a symbol that no other version of PyTorch need have.
std::string of_one_version() {
  const std::set<std::string> newer = newer_functions();
  if (newer.empty()) {
    return "no table of names was found";
  }
  std::string missing; // the last: every compiler leaves it in the library
  for (const std::string& symbol : required_symbols(inside())) {
    const std::string name = demangled(symbol);
    if (name.rfind("c10::", 0) == 0 || name.rfind("at::", 0) == 0 ||
        name.rfind("torch::", 0) == 0) {
      return "the library needs " + name +
          ", which is no C function of the shim";
    }
    if (newer.count(symbol) != 0) {
      missing = std::max(missing, name);
    }
  }
  return missing.empty() ? ""
                         : "the library needs " + missing +
          ", which libtorch 2.10 does not have: is 2.10 the target?";
}

// "", or a call by name that is declared with another number of arguments than
// the op has. Those that are missing are zeros, and may be right by luck.
std::string declared_otherwise() {
  using Visit = void (*)(void (*)(const char*));
  using Count = int(const char*, const char*);
  auto* const count = original() == nullptr
      ? nullptr
      : reinterpret_cast<Count*>(dlsym(original(), "wb09_arguments"));
  static std::vector<std::string> calls;
  calls.clear();
  const auto visit = reinterpret_cast<Visit>(const_cast<void*>(inside()));
  visit([](const char* call) { calls.emplace_back(call); });
  // Each is a text such as "aten::sum.dim(Tensor, int[]) -> Tensor".
  for (const std::string& call : calls) {
    const size_t open = call.find('('), close = call.find(')');
    const std::string name = call.substr(0, open);
    const size_t dot = name.find('.');
    const auto commas =
        std::count(call.begin() + open, call.begin() + close, ',');
    const auto declared = close == open + 1 ? 0 : commas + 1;
    const int wanted = count == nullptr
        ? -1
        : count(
              name.substr(0, dot).c_str(),
              dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
    if (wanted >= 0 && wanted != declared) {
      return name + " is declared with " + std::to_string(declared) +
          " argument(s), and its schema has " + std::to_string(wanted);
    }
  }
  return "";
}

Tensor ramp(const std::vector<int64_t>& sizes, float step = 0.25F) {
  int64_t n = 1;
  for (const int64_t size : sizes) {
    n *= size;
  }
  std::vector<float> data(static_cast<size_t>(n));
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = 1 + step * static_cast<float>(i * 7 % 11);
  }
  return tensor<float>(data, sizes);
}

Tensor numbers(const std::vector<int64_t>& data) {
  return tensor<int64_t>(data, {static_cast<int64_t>(data.size())});
}

// One that shares the memory of `x` until either is written to.
Tensor lazy_clone(const Tensor& x) {
  return aten("aten::_lazy_clone", "", x);
}

} // namespace

namespace {

// The gradient of an op, weighted, with regard to its argument: now and before.
// None where there is none; both none where the original is not there.
struct Gradients {
  std::optional<std::vector<float>> now, then;

  Gradients(const std::string& op, const Tensor& x, const Tensor& weights) {
    if (original() == nullptr) {
      now = then = std::vector<float>();
      return;
    }
    now = compute("rowops::" + op, x, weights);
    then = compute("before::" + op, x, weights);
    REQUIRE(then);
  }

 private:
  static std::optional<std::vector<float>> compute(
      const std::string& op, const Tensor& x, const Tensor& weights) {
    using Gradient =
        bool(const char*, AtenTensorHandle, AtenTensorHandle, float*);
    auto* const gradient =
        reinterpret_cast<Gradient*>(dlsym(original(), "wb09_gradient"));
    std::vector<float> found(static_cast<size_t>(x.numel()));
    const CapturedStderr warnings; // that no gradient was registered
    if (!gradient(op.c_str(), x.get(), weights.get(), found.data())) {
      return std::nullopt;
    }
    return found;
  }
};

} // namespace

TEST_CASE(
    "09.1 only C functions that libtorch 2.10 has" *
    doctest::description("The library asks for what one version of libtorch "
                         "has, or segment_sum of one offset goes wrong.")) {
  REQUIRE_CLEAN(of_one_version());
  for (const std::string& name : needed_libraries(inside())) {
    if (name == "libc10.so" || name == "libtorch.so") {
      LOOK_AT("CMakeLists.txt", "target_link_libraries(");
      FAIL("the library is linked with ", name, ", of which it needs nothing");
    }
  }
  LOOK_AT("rowops.cpp", "segments == 0");
  const std::vector<std::string> needed = required_symbols(inside());
  if (std::count(needed.begin(), needed.end(), "aoti_torch_warn") == 0) {
    FAIL(
        "the library does not call aoti_torch_warn: no handler of PyTorch's "
        "warnings, and no filter of Python's, sees that of segment_sum");
  }
  for (int time = 0; time < 2; ++time) {
    const CapturedStderr captured;
    call("rowops", "segment_sum", ramp({3, 4}), numbers({0}));
    const std::string text = captured.text();
    if (text.find(" segment_sum: one offset makes no segment") ==
        std::string::npos) {
      FAIL(
          std::string(
              time == 0 ? "segment_sum of one offset does not write the "
                          "original's warning: "
                        : "segment_sum of one offset warns only once, and the "
                          "original at each call: "),
          text);
    }
  }
}

TEST_CASE(
    "09.2 the schema says what the kernel writes to" *
    doctest::description("What the schema says is written, and what the kernel "
                         "takes to write, do not agree.")) {
  std::string schema = schema_of("rowops", "scale_rows_");
  schema = replaced(schema, R"(Tensor\([^()!]*!( -> [^()]*)?\))", "Tensor!");
  if (schema.find("(Tensor! x, Tensor factors)") == std::string::npos) {
    const bool x = schema.find("Tensor! x") != std::string::npos;
    const bool factors = schema.find("Tensor! factors") != std::string::npos;
    const std::string marked = x && factors ? "x and factors are"
        : factors                           ? "factors is"
                                            : "nothing is";
    LOOK_AT("rowops.cpp", "scale_rows_(Tensor");
    FAIL(
        "the schema says that ",
        marked,
        " written to, and the kernel writes to x");
  }
  const Tensor x = ramp({3, 4}), factors = ramp({3});
  const Tensor shared = lazy_clone(factors), written = torch::stable::clone(x);
  const void* const memory = factors.const_data_ptr();
  StableIValue stack[] = {
      torch::stable::detail::from(written),
      torch::stable::detail::from(shared)};
  call_op("rowops::scale_rows_", "", stack);
  if (original() != nullptr) {
    const Tensor then = torch::stable::clone(x);
    StableIValue again[] = {
        torch::stable::detail::from(then),
        torch::stable::detail::from(factors)};
    call_op("before::scale_rows_", "", again);
    CHECK(values<float>(written) == values<float>(then));
  }
  const Tensor kept = ramp({3, 4}), lazy = lazy_clone(kept);
  StableIValue of_lazy[] = {
      torch::stable::detail::from(lazy), torch::stable::detail::from(factors)};
  call_op("rowops::scale_rows_", "", of_lazy);
  if (values<float>(kept) != values<float>(ramp({3, 4}))) {
    LOOK_AT("rowops.cpp", "x.");
    FAIL(
        "a tensor that shared its memory with x was written to: x gave a "
        "pointer that must not write");
  }
  const Tensor rows = tensor<float>({1, 2, 3, 4}, {2, 2});
  StableIValue by_two[] = {
      torch::stable::detail::from(rows),
      torch::stable::detail::from(tensor<float>({2, 0.5}, {2}))};
  call_op("rowops::scale_rows_", "", by_two);
  CHECK(values<float>(rows) == std::vector<float>{2, 4, 1.5, 2});
  if (shared.const_data_ptr() != memory) {
    LOOK_AT("rowops.cpp", "factors.");
    FAIL(
        "factors is only read, and a pointer that may write was taken: a "
        "tensor that shared its memory got a copy");
  }
  for (const ScalarType dtype : {ScalarType::Double, ScalarType::Int}) {
    StableIValue of_dtype[] = {
        torch::stable::detail::from(ramp({3, 4})),
        torch::stable::detail::from(torch::stable::to(factors, dtype))};
    if (refusal([&] { call_op("rowops::scale_rows_", "", of_dtype); }) ==
        kNothingThrown) {
      LOOK_AT("rowops.cpp", "factors.");
      FAIL(
          "factors of another dtype are read as if they were float; a pointer "
          "with a type refuses them");
    }
  }
  for (const auto& sizes : {std::vector<int64_t>{12}, {3, 2, 2}}) {
    CHECK(refusal([&] {
            StableIValue wrong[] = {
                torch::stable::detail::from(ramp(sizes)),
                torch::stable::detail::from(factors)};
            call_op("rowops::scale_rows_", "", wrong);
          }) == Contains("x must be contiguous and [n, d]"));
  }
}

TEST_CASE(
    "09.3 an error keeps its reason" *
    doctest::description("segment_sum refuses wrong offsets without the "
                         "original's reason, or does not refuse them.")) {
  const Tensor values = ramp({9, 3});
  const auto check = [&](const std::vector<int64_t>& offsets) {
    std::string what = "offsets";
    for (const int64_t offset : offsets) {
      what += " " + std::to_string(offset);
    }
    REQUIRE_CLEAN(differs(what, "segment_sum", values, numbers(offsets)));
    // Newer libtorch puts the text into that of the call that failed.
    const Outcome now = call("rowops", "segment_sum", values, numbers(offsets));
    if (now.refusal.find("API call failed") != std::string::npos) {
      FAIL(
          "segment_sum of ",
          what,
          " is refused inside of a call of libtorch's: not every libtorch "
          "hands the reason on");
    }
  };
  check({0, 2, 5, 9});
  check({3, 3});
  check({0, 5, 2});
  check({-1, 2});
  check({0, 10});
  check({0, 9, 10});
  check({0, 99, 5});
  std::vector<int64_t> many(300, 4); // several threads
  many[297] = 2;
  check(many);
  many[297] = 4;
  check(many);
  REQUIRE_CLEAN(differs(
      "double",
      "segment_sum",
      torch::stable::to(values, ScalarType::Double),
      numbers({0, 4, 9})));
  Tensor pairs = tensor<int64_t>({0, -1, 4, -1, 9, -1}, {3, 2});
  REQUIRE_CLEAN(differs(
      "offsets of stride 2",
      "segment_sum",
      values,
      torch::stable::select(pairs, 1, 0)));
  REQUIRE_CLEAN(
      differs("one dimension", "segment_sum", ramp({9}), numbers({0, 9})));
  REQUIRE_CLEAN(differs(
      "no rows", "segment_sum", tensor<float>({}, {0, 3}), numbers({0, 0})));
  const Tensor sums = compute(
      "segment_sum",
      tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2}),
      numbers({0, 2, 3}));
  CHECK(workbook::values<float>(sums) == std::vector<float>{4, 6, 5, 6});
  CHECK(
      said(call("rowops", "segment_sum", values, numbers({0, 5, 2})).refusal) ==
      Contains("from 0 to 9 at most, got 5 before 2"));
}

TEST_CASE(
    "09.4 what sum reads is there while it reads" *
    doctest::description("center hands sum a dimension that is not there any "
                         "more, or another one.")) {
  for (const auto& sizes :
       {std::vector<int64_t>{3, 4}, {5}, {2, 3, 4}, {1, 1}, {0, 4}}) {
    const Tensor x = ramp(sizes);
    REQUIRE_CLEAN(differs(shape(x), "center", x));
  }
  REQUIRE_CLEAN(differs("no dimension", "center", ramp({})));
  const Tensor centered =
      compute("center", tensor<float>({1, 3, 2, 6}, {2, 2}));
  CHECK(values<float>(centered) == std::vector<float>{-1, 1, -2, 2});
}

TEST_CASE(
    "09.5 what the wrapper checked" *
    doctest::description("gather_rows reads what is not there, or refuses what "
                         "it took.")) {
  Tensor more = ramp({7, 3}); // what is beyond x is readable
  const Tensor x = torch::stable::narrow(more, 0, 1, 5);
  const auto check = [&](const std::string& what, const Tensor& index) {
    REQUIRE_CLEAN(differs(what, "gather_rows", x, index));
  };
  check("index = [0, 4, 2, 2]", numbers({0, 4, 2, 2}));
  check("no index", numbers({}));
  check("index = [0, 5]", numbers({0, 5}));
  check("index = [-1]", numbers({-1}));
  check("an index of shape [2, 2]", tensor<int64_t>({0, 1, 2, 3}, {2, 2}));
  Tensor pairs = tensor<int64_t>({0, 1, 2, 3}, {2, 2});
  check("an index that is not contiguous", torch::stable::select(pairs, 1, 0));
  std::vector<int64_t> zero{0}; // and what is behind it is not to be read
  check(
      "an index that is one number, expanded",
      torch::stable::from_blob(
          zero.data(), {5}, {0}, x.device(), ScalarType::Long));
  check("an index of shape [4, 1]", tensor<int64_t>({0, 1, 2, 3}, {4, 1}));
  check("an index of shape []", tensor<int64_t>({0}, {}));
  REQUIRE_CLEAN(differs("x [5]", "gather_rows", ramp({5}), numbers({0})));
  REQUIRE_CLEAN(differs("x [0, 3]", "gather_rows", ramp({0, 3}), numbers({0})));
  REQUIRE_CLEAN(differs("x [5, 0]", "gather_rows", ramp({5, 0}), numbers({7})));
  Tensor wide = ramp({5, 6});
  REQUIRE_CLEAN(differs(
      "every other column",
      "gather_rows",
      torch::stable::narrow(wide, 1, 0, 3),
      numbers({0})));
  if (original() != nullptr) {
    using Run = void(void (*)(void*), void*);
    auto* const in_inference_mode =
        reinterpret_cast<Run*>(dlsym(original(), "wb09_in_inference_mode"));
    Outcome wrong;
    auto gather = [&] {
      wrong = call("rowops", "gather_rows", x, numbers({0, 5}));
    };
    in_inference_mode(
        [](void* body) { (*static_cast<decltype(gather)*>(body))(); }, &gather);
    if (wrong.result) {
      FAIL(
          "gather_rows checks nothing in inference mode, which goes past a "
          "kernel for Autograd: the CPU kernel itself has to check");
    }
  }
  // Here the words are libtorch's, and not the same in every version.
  if (call("rowops", "gather_rows", x, tensor<int32_t>({0, 1}, {2})).result) {
    FAIL("gather_rows takes an index of int for one of int64_t");
  }
  const Tensor doubles = torch::stable::to(x, ScalarType::Double);
  if (call("rowops", "gather_rows", doubles, numbers({0})).result) {
    FAIL("gather_rows takes doubles for floats");
  }
  const Tensor gathered = compute(
      "gather_rows", tensor<float>({1, 2, 3, 4}, {2, 2}), numbers({1, 1, 0}));
  CHECK(values<float>(gathered) == std::vector<float>{3, 4, 3, 4, 1, 2});
  CHECK(
      said(call("rowops", "gather_rows", x, numbers({-1})).refusal) ==
      Contains("index must be from 0 to 4"));
}

TEST_CASE(
    "09.6 autograd sees each part" *
    doctest::description("row_share has other values than the original, or no "
                         "gradient.")) {
  const auto check = [](const std::string& what, const Tensor& x) {
    const std::string found = differs(what, "row_share", x);
    const std::string where = found.find("is refused") != std::string::npos
        ? "div_Tensor{"
        : "return";
    INFO("look at rowops.cpp: ", where);
    REQUIRE_CLEAN(found);
  };
  for (const auto& sizes :
       {std::vector<int64_t>{3, 4}, {5}, {2, 3, 4}, {0, 4}}) {
    check(shape(ramp(sizes)), ramp(sizes));
  }
  const Tensor x = ramp({3, 4});
  check("double", torch::stable::to(x, ScalarType::Double));
  check("int", tensor<int32_t>({1 << 30, 1 << 30, 1 << 30, 5}, {2, 2}));
  check("int8", tensor<int8_t>({100, 100, 7, 1}, {2, 2}));
  check(
      "bool",
      torch::stable::to(
          tensor<int8_t>({1, 1, 1, 0}, {2, 2}), ScalarType::Bool));
  Tensor wide = ramp({3, 8});
  check("half of the columns", torch::stable::narrow(wide, 1, 0, 4));
  check("no dimension", ramp({}));
  const Tensor shares =
      compute("row_share", tensor<float>({1, 3, 2, 6}, {2, 2}));
  CHECK(values<float>(shares) == std::vector<float>{0.25, 0.75, 0.25, 0.75});
  const Gradients of{"row_share", x, ramp({3, 4}, 0.5F)};
  if (!of.now) {
    LOOK_AT("rowops.cpp", "call<");
    FAIL("x has no gradient: whoever trains through row_share learns nothing");
  }
  if (of.now != of.then) {
    FAIL("the gradient of x is not the original's");
  }
}

TEST_CASE(
    "09.7 a call by name has every argument" *
    doctest::description("segment_lengths does not call an op for integers "
                         "with all that its schema has.")) {
  REQUIRE_CLEAN(declared_otherwise());
  REQUIRE_CLEAN(differs("0 2 5 9", "segment_lengths", numbers({0, 2, 5, 9})));
  REQUIRE_CLEAN(differs("4", "segment_lengths", numbers({4})));
  REQUIRE_CLEAN(differs("7 3", "segment_lengths", numbers({7, 3})));
  REQUIRE_CLEAN(
      differs("int", "segment_lengths", tensor<int32_t>({0, 2, 5}, {3})));
  REQUIRE_CLEAN(differs("float", "segment_lengths", ramp({5})));
  const Gradients of{"segment_lengths", ramp({5}), ramp({4}, 0.5F)};
  if (of.now != of.then) {
    LOOK_AT("rowops.cpp", "segment_lengths");
    FAIL(
        "float offsets have no gradient, or another than the original's: it "
        "came with the op that the original called");
  }
  const int64_t large = int64_t{1} << 53;
  REQUIRE_CLEAN(differs(
      "numbers beyond 2^53",
      "segment_lengths",
      numbers({1, large + 2, large + 2 + large})));
  REQUIRE_CLEAN(differs("two dimensions", "segment_lengths", ramp({2, 2})));
  REQUIRE_CLEAN(differs("nothing", "segment_lengths", numbers({})));
  const Tensor lengths = compute("segment_lengths", numbers({0, 2, 5, 9}));
  CHECK(values<int64_t>(lengths) == std::vector<int64_t>{2, 3, 4});
}
