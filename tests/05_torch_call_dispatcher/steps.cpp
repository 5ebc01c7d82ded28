// Tests of chapter 05: each step has its cases, which watch and draw every slot
// that changes hands.
#include "call_checks.h"
#include "feed_forward.h"
#include "ops.h"
#include "testing/asan.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/child.h"
#include "testing/dispatcher.h"
#include "testing/library.h"
#include "testing/meeting.h"
#include "testing/random.h"
#include "testing/replaced.h"
#include "testing/symbols.h"
#include "testing/watch.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#if WORKBOOK_ASAN
#include <sanitizer/asan_interface.h>
#endif

using namespace workbook;
using namespace workbook::chapter_05;
using doctest::Approx;
using doctest::Contains;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

TEST_CASE(
    "05.1 an optional and a list have the names that schemas have" *
    doctest::description(
        "An optional or a list has not the name that a schema gives it.")) {
  std::istringstream lines(function<const char*()>("wb05_names")());
  for (const std::string name :
       {"bool",
        "int",
        "float",
        "str",
        "Tensor",
        "Device",
        "ScalarType",
        "Layout",
        "MemoryFormat"}) {
    std::string text;
    std::getline(lines, text);
    CHECK(
        text ==
        name + " " + name + "? " + name + "[] " + name + "[]? " + name + "?[]");
  }
}

TEST_CASE(
    "05.1 they are supported if what is in them is" *
    doctest::description("A type is supported that no schema has, or one is "
                         "not that a schema may have.")) {
  const std::string in =
      function<const char*()>("wb05_supports_int_or_float")();
  if (!in.empty()) {
    FAIL_CHECK(
        in, " is supported: in a schema int is int64_t, and float is double");
  }
  if (function<bool()>("wb05_supports_any_device_type")()) {
    FAIL_CHECK(
        "an optional or a list of DeviceType is supported: a schema has "
        "Device");
  }
  if (!function<bool()>("wb05_supports_all_tensors")()) {
    FAIL_CHECK("an optional or a list of Tensor is not supported");
  }
  if (!function<bool()>("wb05_supports_all_others")()) {
    FAIL_CHECK("an optional or a list of another type is not supported");
  }
}

TEST_CASE(
    "05.1 types are joined as in a schema" *
    doctest::description("in_parentheses does not write the types as a schema "
                         "does: (Tensor, int[]?).")) {
  const std::string text = function<const char*()>("wb05_text")();
  const std::string arguments = text.substr(0, text.find(" -> "));
  CHECK(
      arguments ==
      "(Tensor, int, float, bool, int?, int[], Tensor?, str, ScalarType)");
  const std::string none = function<const char*()>("wb05_no_types")();
  CHECK(none == "()");
  std::string forty = "(int[]?";
  for (int i = 1; i < 40; ++i) {
    forty += ", int[]?";
  }
  const std::string many = function<const char*()>("wb05_forty_types")();
  CHECK(many == forty + ")");
  const std::string again = function<const char*()>("wb05_text")();
  if (again != text) {
    FAIL_CHECK("asked a second time for the same types it writes ", again);
  }
}

TEST_CASE(
    "05.2 a call packs by its declared types" *
    doctest::description(
        "operator() does not give each argument as its declared "
        "type, or loses one.")) {
  const Tensor input = tensor<float>({1, 2}, {2});
  const Named names{{input, "input"}};
  auto* const everything =
      function<void(Handle, ScalarType)>("wb05_everything");
  SUBCASE("nine arguments of nine types") {
    const double one = 1;
    const std::vector<std::string> expected = {
        "input",
        slots::hex(0),
        slots::draw("float", torch::stable::detail::from(one)), // not int 1
        slots::hex(1),
        "None",
        "[" + slots::hex(2) + ", " + slots::hex(3) + "]",
        "input",
        "\"a text\"",
        slots::draw(
            "ScalarType", torch::stable::detail::from(ScalarType::BFloat16))};
    // Up to 2.13 libtorch copies each string that is passed, and loses it.
    const size_t lost = aoti_torch_abi_version() >> 48 <= 0x020d ? 1 : 0;
    const auto act = [&](Watch&) {
      {
        const Ledger::Pause pause;
        arrived.clear();
      }
      everything(input.get(), ScalarType::BFloat16);
    };
    REQUIRE_CLEAN(watch(kOps, act, nullptr, lost));
    REQUIRE(arrived.size() == kEverything.size());
    for (size_t i = 0; i < arrived.size(); ++i) {
      INFO("slot " << i << ", of type " << kEverything[i]);
      CHECK(arrived[i] == expected[i]);
    }
  }
  SUBCASE("what is empty, zero or negative is not None") {
    const std::vector<std::string> expected = {
        "input",
        slots::hex(static_cast<StableIValue>(-1)),
        slots::draw("float", torch::stable::detail::from(-0.0)),
        slots::hex(0),
        slots::hex(0), // in an optional
        "[]",
        "None",
        "\"\"",
        slots::draw(
            "ScalarType", torch::stable::detail::from(ScalarType::Byte))};
    arrived.clear();
    function<void(Handle)>("wb05_least")(input.get());
    REQUIRE(arrived.size() == kEverything.size());
    for (size_t i = 0; i < arrived.size(); ++i) {
      INFO("slot " << i << ", of type " << kEverything[i]);
      CHECK(arrived[i] == expected[i]);
    }
  }
  SUBCASE("what is in an optional or a list cannot be packed") {
    for (const std::string in : {"maybe", "list", "maybe_list"}) {
      auto* const call = function<void(Handle, ScalarType)>("wb05_in_" + in);
      std::string text, picture;
      INFO("the argument is a dtype that has no code, in: ", in);
      REQUIRE_CLEAN(watch(
          kOps,
          [&](Watch&) {
            text = thrown(
                [&] { call(input.get(), static_cast<ScalarType>(0x7f)); });
          },
          &picture));
      CHECK(said_error(text) == Contains("ScalarType 127 has no code"));
      CHECK(picture == "");
    }
  }
  SUBCASE("the last of nine arguments cannot be packed") {
    // The eight before it are released, and libtorch is not called.
    std::string text, picture;
    REQUIRE_CLEAN(watch(
        kOps,
        [&](Watch&) {
          text = thrown(
              [&] { everything(input.get(), static_cast<ScalarType>(0x7f)); });
        },
        &picture));
    CHECK(said_error(text) == Contains("ScalarType 127 has no code"));
    CHECK(picture == "");
  }
}

TEST_CASE(
    "05.2 a call packs the rarer types too" *
    doctest::description("A device, a layout, a memory format or a string does "
                         "not arrive as it was passed.")) {
  const Tensor input = tensor<float>({1, 2}, {2});
  const Named names{{input, "input"}};
  const auto code = [](int32_t value) {
    return slots::hex(static_cast<StableIValue>(value));
  };
  const auto device = [](int32_t type, uint32_t index) {
    return slots::hex(static_cast<StableIValue>(type) << 32 | index);
  };
  arrived.clear();
  function<void(Handle)>("wb05_rarer")(input.get());
  const std::vector<std::string> expected = {
      "input",
      device(aoti_torch_device_type_cpu(), 0xffffffff), // no index: -1
      device(aoti_torch_device_type_cuda(), 1),
      code(aoti_torch_layout_sparse_csr()),
      code(aoti_torch_memory_format_channels_last()),
      code(aoti_torch_memory_format_channels_last_3d()),
      "\"a\\0b\"",
      code(aoti_torch_memory_format_preserve_format()),
      "[input, input]"};
  REQUIRE(arrived.size() == expected.size());
  for (size_t i = 0; i < arrived.size(); ++i) {
    INFO("slot ", i, ", of type ", kRarer[i]);
    CHECK(arrived[i] == expected[i]);
  }
}

TEST_CASE(
    "05.2 returns become a value, a tuple, a list or nothing" *
    doctest::description("What an op returns does not reach the caller, all of "
                         "it, and once.")) {
  const Tensor input = tensor<float>({1, 6, -10, 0}, {4});
  const Named names{{input, "input"}};
  auto* const frexp = function<void(Handle, Handle*)>("wb05_frexp");
  auto* const numbers = function<const char*(Handle)>("wb05_numbers");
  auto* const nothing = function<void()>("wb05_nothing");

  SUBCASE("two tensors, a list, and nothing") {
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      Handle out[2];
      frexp(input.get(), out);
      adopt(out[0]), adopt(out[1]);
      nothing();
    }));
    Handle out[2];
    frexp(input.get(), out);
    const auto mantissas = values<float>(adopt(out[0]));
    const auto exponents = values<int32_t>(adopt(out[1]));
    CHECK(mantissas == Floats{0.5, 0.75, -0.625, 0});
    CHECK(exponents == std::vector<int32_t>{1, 3, 4, 0});
    size_t rows = 0;
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      rows = function<size_t(Handle)>("wb05_unbind")(input.get());
    }));
    CHECK(rows == 4);
  }
  SUBCASE("twenty numbers for no argument") {
    std::vector<int64_t> expected, got(20);
    for (int64_t i = 1; i <= 20; ++i) {
      expected.push_back(i);
    }
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      function<void(int64_t*)>("wb05_count")(got.data());
    }));
    CHECK(got == expected);
  }
  SUBCASE("3 and 4 in the call are an int and a float in the schema") {
    std::string text;
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      const char* const got = numbers(input.get());
      const Ledger::Pause pause;
      text = got;
    }));
    CHECK(text == "3 4.000000 false");
  }
}

TEST_CASE(
    "05.2 what is called is listed, with its types" *
    doctest::description("operator() does not mention `listed`, so the library "
                         "does not list the call.")) {
  REQUIRE_CLEAN(check_listed("aten::frexp.Tensor(Tensor) -> (Tensor, Tensor)"));
  REQUIRE_CLEAN(
      check_listed("wb05_probe::numbers(Tensor, int, float, bool) -> Tensor"));
  REQUIRE_CLEAN(check_listed("wb05_probe::nothing() -> ()"));
  // Each overload of a name.
  REQUIRE_CLEAN(check_listed("wb05_probe::refuse(Tensor, int) -> Tensor"));
  REQUIRE_CLEAN(check_listed("wb05_probe::refuse.none(Tensor, int) -> ()"));
  REQUIRE_CLEAN(
      check_listed("wb05_probe::refuse.two(Tensor, int) -> (Tensor, Tensor)"));
  REQUIRE_CLEAN(
      check_listed("wb05_probe::refuse.list(Tensor, int) -> Tensor[]"));
  // And what is never reached: no test calls it.
  REQUIRE_CLEAN(check_listed("aten::narrow(Tensor, int, int, int) -> Tensor"));
  // Each library has a list of its own.
  REQUIRE_CLEAN(not_hidden(library_symbol("wb05_text")));
}

TEST_CASE(
    "05.2 a call that fails says why, and loses nothing of ours" *
    doctest::description("A failed call does not throw libtorch's reason, or "
                         "releases what it gave away.")) {
  const Tensor input = tensor<float>({1, 6, -10, 0}, {4});
  const Named names{{input, "input"}};
  std::string text;

  // The kernel throws: all was taken, and nothing may be released again.
  int64_t why = 42;
  for (const std::string returns : {"", "_none", "_two", "_list"}) {
    INFO("of the op wb05_probe::refuse", returns);
    auto* const refuse =
        function<void(Handle, int64_t)>("wb05_refuse" + returns);
    std::string picture, on_stderr;
    const auto refused = [&] {
      const CapturedStderr captured;
      text = thrown([&] { refuse(input.get(), why); });
      const Ledger::Pause pause;
      on_stderr = captured.text();
    };
    REQUIRE_CLEAN(watch(
        kOps, [&](Watch&) { refused(); }, &picture));
    REQUIRE_CLEAN(
        check_drawn("slot 0  argument Tensor input: released once", picture));
    if (text.empty()) {
      FAIL("the call fails, and nothing is thrown");
    }
    CHECK(said_error(text) == Contains("wb05_probe::refuse"));
    const std::string reason = "refused because of " + std::to_string(why++);
    if (has_error_text()) {
      CHECK(said_error(text) == Contains(reason.c_str()));
    } else {
      CHECK(said_error(text) == Contains("stderr"));
      CHECK(said(on_stderr) == Contains(reason.c_str()));
    }
  }

  // No such op: its arguments are lost, in a process of their own.
  text = in_child([&] { function<void(Handle)>("wb05_absent")(input.get()); });
  CHECK(said_error(text) == Contains("wb05_probe::absent"));
  CHECK(said_error(text) == Contains("by_design"));
  if (has_error_text()) { // which names the op as well: ours comes first
    CHECK(said_error(text) == Contains("Could not find schema"));
    CHECK(text.find("by_design") < text.find("Could not find schema"));
  }
}

TEST_CASE(
    "05.2 before 2.13 there is no function that has the reason" *
    doctest::description("error_text.h does not declare libtorch's function "
                         "weak, or does not ask whether it is there: before "
                         "2.13 the library does not load, or crashes.")) {
  const Tensor input = tensor<float>({1}, {1});
  auto* const refuse = function<void(Handle, int64_t)>("wb05_refuse");
  const char* (*const nowhere)() = nullptr;
  const std::string text = in_child([&] {
    const Replaced missing(
        library_symbol("wb05_refuse"),
        "torch_exception_get_what_without_backtrace",
        nowhere);
    const CapturedStderr quiet;
    return thrown([&] { refuse(input.get(), 1); });
  });
  CHECK(said_error(text) == Contains("stderr"));
}

namespace {

// dispatch() replaces torch_call_dispatcher in the library under test, and
// notes the version that it is given.
uint64_t built_with = 0;
AOTITorchError dispatch(
    const char* op, const char* overload, StableIValue* stack, uint64_t build) {
  built_with = build;
  return torch_call_dispatcher(op, overload, stack, build);
}

} // namespace

TEST_CASE(
    "05.2 libtorch is told who packed the slots" *
    doctest::description("A call does not give torch_call_dispatcher the "
                         "version of the headers as its last argument.")) {
  built_with = 0;
  const Replaced recorded(
      library_symbol("wb05_frexp"), "torch_call_dispatcher", dispatch);
  const Tensor input = tensor<float>({1, 6}, {2});
  Handle out[2];
  function<void(Handle, Handle*)>("wb05_frexp")(input.get(), out);
  adopt(out[0]), adopt(out[1]);
  CHECK(
      slots::hex(built_with) ==
      slots::hex(function<uint64_t()>("wb05_headers")()));
}

TEST_CASE(
    "05.2 calls at the same time share nothing" *
    doctest::description("Two threads call, and one takes what the other has "
                         "put into its slots.")) {
  const Tensor input = tensor<float>({1, 6}, {2});
  const Meeting meeting = Meeting::of(library_symbol("wb05_frexp"), [&] {
    Handle out[2];
    function<void(Handle, Handle*)>("wb05_frexp")(input.get(), out);
    adopt(out[0]), adopt(out[1]);
  });
  REQUIRE(meeting.stacks.size() == 2);
  if (meeting.stacks[0] == meeting.stacks[1]) {
    FAIL("two threads that call at the same time have one array of slots");
  }
}

TEST_CASE(
    "05.3 all arguments of the schema, for no default is filled in" *
    doctest::description("sum does not call aten::sum.dim_IntList, or not "
                         "with its four arguments.")) {
  const Tensor input = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Named names{{input, "input"}};
  auto* const sum =
      function<Handle(Handle, const int64_t*, size_t)>("wb05_sum");
  const int64_t last[] = {-1};
  std::string picture;
  REQUIRE_CLEAN(check_declaration("aten::sum.dim_IntList"));
  REQUIRE_CLEAN(watch(
      kOps, [&](Watch&) { adopt(sum(input.get(), last, 1)); }, &picture));
  REQUIRE_CLEAN(check_drawn("slot 3  argument ScalarType? None", picture));
  const struct {
    Sizes dims;
    Floats values;
    Sizes sizes;
  } rows[] = {
      {{1}, {6, 15}, {2, 1}},
      {{-2}, {5, 7, 9}, {1, 3}},
      {{0, 1}, {21}, {1, 1}},
      {{}, {21}, {1, 1}}}; // none is all of them
  for (const auto& row : rows) {
    INFO("input is [[1, 2, 3], [4, 5, 6]], dims is ", row.dims);
    const Tensor result =
        adopt(sum(input.get(), row.dims.data(), row.dims.size()));
    const auto sums = values<float>(result);
    const auto sizes = result.sizes().vec();
    CHECK(sums == row.values);
    CHECK(sizes == row.sizes);
  }
  for (const int64_t dim : {int64_t{2}, int64_t{1} << 32}) {
    INFO("input is [2, 3], dims is [", dim, "]");
    REQUIRE_CLEAN(check_thrown([&] { adopt(sum(input.get(), &dim, 1)); }));
  }
  {
    INFO("input is [0, 3], dims is [-2]");
    const int64_t empty[] = {-2};
    const auto sums =
        values<float>(adopt(sum(tensor<float>({}, {0, 3}).get(), empty, 1)));
    CHECK(sums == Floats{0, 0, 0});
  }
  for (const int64_t dim : {int64_t{0}, int64_t{-1}}) {
    INFO("input has no dimensions, dims is [", dim, "]");
    const Tensor one = tensor<float>({7}, {});
    const Tensor result = adopt(sum(one.get(), &dim, 1));
    CHECK(values<float>(result) == Floats{7});
    CHECK(result.dim() == 0);
  }
  const int64_t twice[] = {1, 1};
  const auto failed = refusal([&] { adopt(sum(input.get(), twice, 2)); });
  CHECK(failed != kNothingThrown);
  if (has_error_text()) {
    CHECK(failed == Contains("dim 1 appears multiple times"));
  }
  {
    INFO("input is [100, 100], of the dtype int8: the sum is int64");
    const Tensor bytes = tensor<int8_t>({100, 100}, {2});
    const Tensor result = adopt(sum(bytes.get(), last, 1));
    if (result.scalar_type() != ScalarType::Long) {
      FAIL("the sum has another dtype: dtype=None is not what is passed");
    }
    const auto sums = values<int64_t>(result);
    CHECK(sums == std::vector<int64_t>{200});
  }
  REQUIRE_CLEAN(check_dispatched(
      [&](const Tensor& x) { return adopt(sum(x.get(), last, 1)); }));
  REQUIRE_CLEAN(check_listed(
      "aten::sum.dim_IntList(Tensor, int[]?, bool, ScalarType?) -> Tensor"));
}

TEST_CASE(
    "05.4 an overload with two returns" *
    doctest::description("max does not give aten::max.dim its three "
                         "arguments, or does not take both of its returns.")) {
  const Tensor input = tensor<float>({1, 5, 3, 4, 2, 6}, {2, 3});
  const Named names{{input, "self"}};
  auto* const max = function<void(Handle, int64_t, Handle*)>("wb05_max");
  REQUIRE_CLEAN(check_declaration("aten::max.dim"));
  REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
    Handle both[2];
    max(input.get(), 1, both);
    adopt(both[0]), adopt(both[1]);
  }));
  const struct {
    int64_t dim;
    Floats values;
    std::vector<int64_t> indices;
  } rows[] = {
      {1, {5, 6}, {1, 2}},
      {-1, {5, 6}, {1, 2}}, // the last
      {0, {4, 5, 6}, {1, 0, 1}},
      {-2, {4, 5, 6}, {1, 0, 1}}};
  for (const auto& row : rows) {
    INFO("input is [[1, 5, 3], [4, 2, 6]], dim is ", row.dim);
    Handle both[2];
    max(input.get(), row.dim, both);
    const Tensor result = adopt(both[0]);
    const auto largest = values<float>(result);
    const auto indices = values<int64_t>(adopt(both[1]));
    const auto sizes = result.sizes().vec();
    CHECK(largest == row.values);
    CHECK(indices == row.indices);
    CHECK(sizes == Sizes{static_cast<int64_t>(row.values.size())});
  }
  const auto largest = [&](const Tensor& x, int64_t dim) {
    Handle both[2];
    max(x.get(), dim, both);
    adopt(both[1]);
    return adopt(both[0]);
  };
  for (const int64_t dim : {int64_t{2}, int64_t{-3}, int64_t{1} << 32}) {
    INFO("input is [2, 3], dim is ", dim);
    REQUIRE_CLEAN(check_thrown([&] { largest(input, dim); }));
  }
  for (const int64_t dim : {int64_t{0}, int64_t{-1}}) {
    INFO("input has no dimensions, dim is ", dim);
    const Tensor one = largest(tensor<float>({7}, {}), dim);
    CHECK(values<float>(one) == Floats{7});
    CHECK(one.dim() == 0);
  }
  {
    INFO("input is [0, 3], dim is 0: there is no largest");
    const Tensor empty = tensor<float>({}, {0, 3});
    REQUIRE_CLEAN(check_thrown([&] { largest(empty, 0); }));
  }
  REQUIRE_CLEAN(
      check_dispatched([&](const Tensor& x) { return largest(x, 1); }));
  REQUIRE_CLEAN(
      check_listed("aten::max.dim(Tensor, int, bool) -> (Tensor, Tensor)"));
}

namespace {

// A call of maximum_into, with its arguments and what the watch saw.
struct MaximumInto {
  Tensor input = tensor<float>({1, 5, 3, 4, 2, 6}, {2, 3});
  Tensor other = tensor<float>({2, 2, 2, 5, 5, 5}, {2, 3});
  Tensor out = tensor<float>({0, 0, 0, 0, 0, 0}, {2, 3});
  Named names{{input, "self"}, {other, "other"}, {out, "out"}};
  std::string picture;
  std::string trouble = watch(
      kOps,
      [this](Watch&) {
        function<void(Handle, Handle, Handle)>("wb05_maximum_into")(
            out.get(), input.get(), other.get());
      },
      &picture);
};

} // namespace

TEST_CASE(
    "05.4 out is the last argument" *
    doctest::description("maximum_into does not give the arguments in the "
                         "schema's order, in which out is the last.")) {
  REQUIRE_CLEAN(check_declaration("aten::maximum.out"));
  const MaximumInto call;
  REQUIRE_CLEAN(call.picture.empty() ? call.trouble : "");
  REQUIRE_CLEAN(check_drawn("slot 2  argument Tensor out", call.picture));
  const auto out = values<float>(call.out);
  CHECK(out == Floats{2, 5, 3, 5, 5, 6});
  // The other arguments are as they were.
  const auto self = values<float>(call.input);
  const auto other = values<float>(call.other);
  CHECK(self == Floats{1, 5, 3, 4, 2, 6});
  CHECK(other == Floats{2, 2, 2, 5, 5, 5});
  {
    INFO("self is [1, nan, 3], other is [nan, 2, 2]");
    const Tensor into = tensor<float>({0, 0, 0}, {3});
    function<void(Handle, Handle, Handle)>("wb05_maximum_into")(
        into.get(),
        tensor<float>({1, NAN, 3}, {3}).get(),
        tensor<float>({NAN, 2, 2}, {3}).get());
    const auto larger = texts(into);
    CHECK(larger == std::vector<std::string>{"nan", "nan", "3"});
  }
  {
    INFO("out is not contiguous: it is a transposed [3, 2]");
    Tensor rows = tensor<float>({0, 0, 0, 0, 0, 0}, {3, 2});
    const Tensor into = torch::stable::transpose(rows, 0, 1);
    function<void(Handle, Handle, Handle)>("wb05_maximum_into")(
        into.get(), call.input.get(), call.other.get());
    const auto written = values<float>(rows);
    CHECK(written == Floats{2, 5, 5, 5, 3, 6});
  }
  {
    INFO("out is empty: libtorch gives it the result's shape");
    const Tensor into = tensor<float>({}, {0});
    function<void(Handle, Handle, Handle)>("wb05_maximum_into")(
        into.get(), call.input.get(), call.other.get());
    const auto written = values<float>(into);
    CHECK(written == Floats{2, 5, 3, 5, 5, 6});
  }
  const Tensor four = tensor<float>({1, 2, 3, 4}, {4});
  REQUIRE_CLEAN(check_thrown([&] {
    function<void(Handle, Handle, Handle)>("wb05_maximum_into")(
        call.out.get(), call.input.get(), four.get());
  }));
}

TEST_CASE(
    "05.4 out comes back" *
    doctest::description("maximum_out is not declared to return what comes "
                         "back: a second handle to out, which is yours.")) {
  const MaximumInto call;
  REQUIRE_CLEAN(call.trouble);
  REQUIRE_CLEAN(
      check_drawn("slot 0  return Tensor out: released once", call.picture));
  REQUIRE_CLEAN(
      check_listed("aten::maximum.out(Tensor, Tensor, Tensor) -> Tensor"));
}

TEST_CASE(
    "05.5 around a Scalar: an overload without" *
    doctest::description("clamp_max does not call the overload of aten::clamp "
                         "that takes tensors, or does so wrongly.")) {
  const Tensor self = tensor<float>({1, 5, -3, 4}, {4});
  const Tensor most = tensor<float>({2, 2, 2, 9}, {4});
  const Named names{{self, "self"}, {most, "most"}};
  auto* const clamp_max = function<Handle(Handle, Handle)>("wb05_clamp_max");
  REQUIRE_CLEAN(check_declaration("aten::clamp.Tensor"));
  REQUIRE_CLEAN(
      watch(kOps, [&](Watch&) { adopt(clamp_max(self.get(), most.get())); }));
  {
    INFO("self is [1, 5, -3, 4], most is [2, 2, 2, 9]");
    const auto result = values<float>(adopt(clamp_max(self.get(), most.get())));
    CHECK(result == Floats{1, 2, -3, 4});
  }
  const auto self_now = values<float>(self); // the caller's are good still
  const auto most_now = values<float>(most);
  CHECK(self_now == Floats{1, 5, -3, 4});
  CHECK(most_now == Floats{2, 2, 2, 9});
  {
    INFO("self is [1, nan, 5], most is [nan, 2, 2]");
    const Tensor odd = tensor<float>({1, NAN, 5}, {3});
    const Tensor limits = tensor<float>({NAN, 2, 2}, {3});
    const auto limited = texts(adopt(clamp_max(odd.get(), limits.get())));
    CHECK(limited == std::vector<std::string>{"nan", "nan", "2"});
  }
  // There is no lower limit, not even the least number of a dtype.
  {
    INFO("self is [-inf, -1e30, -1e5], most is [0]");
    const Tensor low = tensor<float>({-INFINITY, -1e30f, -1e5f}, {3});
    const Tensor limit = tensor<float>({0}, {1});
    const auto limited = texts(adopt(clamp_max(low.get(), limit.get())));
    CHECK(limited == std::vector<std::string>{"-inf", "-1e+30", "-100000"});
  }
  {
    INFO("self is [-1e300], most is [0], of the dtype float64");
    const Tensor low = tensor<double>({-1e300}, {1});
    const Tensor limit = tensor<double>({0}, {1});
    const auto limited =
        values<double>(adopt(clamp_max(low.get(), limit.get())));
    CHECK(limited == std::vector<double>{-1e300});
  }
  {
    INFO("self is [-2 ** 63, 5], most is [2], of the dtype int64");
    const Tensor low = tensor<int64_t>({INT64_MIN, 5}, {2});
    const Tensor limit = tensor<int64_t>({2}, {1});
    const Tensor result = adopt(clamp_max(low.get(), limit.get()));
    if (result.scalar_type() != ScalarType::Long) {
      FAIL("the result has another dtype: min=None is not what is passed");
    }
    const auto limited = values<int64_t>(result);
    CHECK(limited == std::vector<int64_t>{INT64_MIN, 2});
  }
  const Tensor two = tensor<float>({1, 2}, {2}); // fits not with four
  REQUIRE_CLEAN(check_thrown([&] { adopt(clamp_max(self.get(), two.get())); }));
  REQUIRE_CLEAN(check_dispatched(
      [&](const Tensor& x) { return adopt(clamp_max(x.get(), x.get())); }));
}

TEST_CASE(
    "05.5 around a Scalar: a C shim" *
    doctest::description("add does not return self + alpha * other, does not "
                         "look at the code, or does not release each handle "
                         "once.")) {
  const Tensor self = tensor<float>({1, 5, -3, 4}, {4});
  const Tensor other = tensor<float>({2, 2, 2, 9}, {4});
  const Named names{{self, "self"}, {other, "other"}};
  auto* const add = function<Handle(Handle, Handle, double)>("wb05_add");
  const struct {
    double alpha;
    Floats values;
  } rows[] = {
      {0.5, {2, 6, -2, 8.5}},
      {1, {3, 7, -1, 13}},
      {-2, {-3, 1, -7, -14}},
      {0, {1, 5, -3, 4}}};
  for (const auto& row : rows) {
    REQUIRE_CLEAN(watch(
        kOps, [&](Watch&) { adopt(add(self.get(), other.get(), row.alpha)); }));
    INFO("self is [1, 5, -3, 4], other is [2, 2, 2, 9], alpha is ", row.alpha);
    const Tensor sum = adopt(add(self.get(), other.get(), row.alpha));
    const auto result = values<float>(sum);
    CHECK(result == row.values);
    if (sum.data_ptr() == self.data_ptr()) {
      FAIL("the result has the memory of self, not its own");
    }
  }
  const auto self_now = values<float>(self); // the caller's are good still
  const auto other_now = values<float>(other);
  CHECK(self_now == Floats{1, 5, -3, 4});
  CHECK(other_now == Floats{2, 2, 2, 9});
  {
    INFO("self is 1 and other is 0.5, of the dtype float64, alpha is 0.1");
    const auto exact = values<double>(adopt(
        add(tensor<double>({1}, {1}).get(),
            tensor<double>({0.5}, {1}).get(),
            0.1)));
    if (const double off = exact[0] - 1.05; std::abs(off) > 1e-15) {
      FAIL("the result is off by ", off, ": alpha is a double");
    }
  }
  {
    INFO("self is [1, 1, -0], other is [nan, inf, 1], alpha is 0");
    const Tensor three = tensor<float>({1, 1, -0.0f}, {3});
    const Tensor odd = tensor<float>({NAN, INFINITY, 1}, {3});
    const auto result = texts(adopt(add(three.get(), odd.get(), 0)));
    CHECK(result == std::vector<std::string>{"nan", "nan", "0"});
  }
  const Tensor two = tensor<float>({1, 2}, {2}); // fits not with four
  const auto misfit = [&] { adopt(add(self.get(), two.get(), 1)); };
  const std::string ended = in_child(misfit); // a null tensor would crash
  if (ended.rfind("threw: ", 0) != 0) {
    FAIL("the call fails, and nothing is thrown: ", ended);
  }
  REQUIRE_CLEAN(watch(kOps, [&](Watch&) { check_thrown(misfit); }));
  REQUIRE_CLEAN(check_dispatched(
      [&](const Tensor& x) { return adopt(add(x.get(), x.get(), 0.5)); }));
}

TEST_CASE(
    "05.6 a linear layer is called with all arguments" *
    doctest::description("linear is not declared as its schema is, or "
                         "swiglu_mlp does not begin with it.")) {
  REQUIRE_CLEAN(check_declaration("aten::linear"));
  const OwnCalls calls;
  const bool called =
      calls.picture.find("slot 2  argument Tensor? None") != std::string::npos;
  REQUIRE_CLEAN(called ? "" : calls.trouble);
  // Whoever takes matmul and t instead is right too.
  if (calls.picture.find("aten::linear") != std::string::npos) {
    REQUIRE_CLEAN(check_drawn("slot 2  argument Tensor? None", calls.picture));
  }
}

TEST_CASE(
    "05.6 an op of one's own is called by its name" *
    doctest::description("own_silu_and_mul is not declared by the op's full "
                         "name, or swiglu_mlp does not call it.")) {
  for (const Sizes& sizes : {Sizes{1, 2}, Sizes{2}}) { // rows, and only one
    const OwnCalls calls{tensor<float>({1, 2}, sizes)};
    REQUIRE_CLEAN(calls.trouble);
    INFO("x has ", sizes.size(), " dimension(s)");
    REQUIRE_CLEAN(
        calls.picture.find("wb05::silu_and_mul") != std::string::npos
            ? ""
            : "wb05::silu_and_mul is not called by its name");
  }
  REQUIRE_CLEAN(check_listed("wb05::silu_and_mul(Tensor) -> Tensor"));
  const std::string given = schema_of("wb05", "swiglu_mlp");
  CHECK(
      given ==
      "wb05::swiglu_mlp(Tensor x, Tensor w_gate_up, Tensor w_down) -> Tensor");
}

TEST_CASE(
    "05.6 the three calls are a feed-forward layer" *
    doctest::description("swiglu_mlp does not compute linear, silu_and_mul, "
                         "linear.")) {
  SUBCASE("on the CPU") {
    Random random;
    // Rows, one, none, in more dimensions, and a vector, which stays one.
    for (const Sizes& leading :
         {Sizes{1}, Sizes{3}, Sizes{0}, Sizes{2, 1, 2}, Sizes{}}) {
      const int64_t h = random.integer(1, 9), d = random.integer(1, 9);
      Sizes x_sizes = leading;
      x_sizes.push_back(h);
      int64_t rows = 1;
      for (const int64_t size : leading) {
        rows *= size;
      }
      const auto x_values =
          random_values(static_cast<size_t>(rows * h), random);
      const auto u_values =
          random_values(static_cast<size_t>(2 * d * h), random);
      const auto w_values = random_values(static_cast<size_t>(h * d), random);
      const Tensor x = rows == 0
          ? torch::stable::empty(x_sizes, ScalarType::Float)
          : tensor(x_values, x_sizes);
      const Tensor w_gate_up = tensor(u_values, {2 * d, h});
      const Tensor w_down = tensor(w_values, {h, d});
      const Named names{{x, "x"}, {w_gate_up, "w_gate_up"}, {w_down, "w_down"}};
      if (rows > 0) {
        REQUIRE_CLEAN(
            watch(kOps, [&](Watch&) { swiglu_mlp(x, w_gate_up, w_down); }));
      }
      INFO("x is ", x_sizes);
      INFO("w_gate_up is [", 2 * d, ", ", h, "]");
      INFO("w_down is [", h, ", ", d, "]");
      const Tensor result = swiglu_mlp(x, w_gate_up, w_down);
      const auto sizes = result.sizes().vec();
      REQUIRE(sizes == x_sizes);
      const auto got = values<float>(result);
      const auto at = [](const Floats& m, int64_t i) {
        return static_cast<double>(m[static_cast<size_t>(i)]);
      };
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < h; ++c) {
          double expected = 0;
          for (int64_t k = 0; k < d; ++k) {
            double gate = 0, up = 0;
            for (int64_t j = 0; j < h; ++j) {
              gate += at(x_values, r * h + j) * at(u_values, k * h + j);
              up += at(x_values, r * h + j) * at(u_values, (d + k) * h + j);
            }
            expected +=
                gate / (1 + std::exp(-gate)) * up * at(w_values, c * d + k);
          }
          INFO("row ", r, ", column ", c);
          const double element = at(got, r * h + c);
          CHECK(element == Approx(expected).epsilon(1e-3));
        }
      }
    }
  }
  SUBCASE("tensors without data get their shapes from the ops") {
    const torch::stable::Device meta(c10::DeviceType::Meta);
    const auto empty = [&](const Sizes& sizes) {
      return torch::stable::empty(sizes, ScalarType::Float, std::nullopt, meta);
    };
    for (const Sizes& x_sizes :
         {Sizes{2, 3, 8}, Sizes{0, 8}, Sizes{8}, Sizes{2, 1, 3, 8}}) {
      INFO("x is ", x_sizes);
      const auto sizes =
          swiglu_mlp(empty(x_sizes), empty({10, 8}), empty({8, 5}))
              .sizes()
              .vec();
      CHECK(sizes == x_sizes);
    }
    for (const char* name : {"aoti_torch_get_size", "aoti_torch_get_sizes"}) {
      const Replaced unread(library_symbol("wb05_text"), name, refuse_size);
      const std::string text = thrown([&] {
        swiglu_mlp(empty({2, 3, 8}), empty({10, 8}), empty({8, 5}));
      });
      REQUIRE_CLEAN(
          text.empty() ? text
                       : "a size is read: torch.compile would compile again "
                         "for each");
    }
  }
  SUBCASE("a call within that fails") {
    const Tensor x = tensor<float>({1, 2}, {1, 2});
    const Tensor odd = tensor<float>({1, 2, 3, 4, 5, 6}, {3, 2});
    CHECK(
        refusal([&] { swiglu_mlp(x, odd, x); }) == Contains("aten::unflatten"));
    const Tensor no_row = torch::stable::empty({0, 2}, ScalarType::Float);
    INFO("x has no row");
    CHECK(refusal([&] {
            swiglu_mlp(no_row, odd, x);
          }) == Contains("aten::unflatten"));
  }
}

TEST_CASE(
    "05.6 what is made of ops is as good as an op" *
    doctest::description("An op of this file writes to what it is given, or "
                         "PyTorch records no gradient of it.")) {
  const Floats x_values = {1, 2}, u_values = {1, 2, 3, 4}, w_values = {5, 6};
  SUBCASE("it writes to none of its arguments") {
    const Tensor x = tensor(x_values, {1, 2});
    const Tensor w_gate_up = tensor(u_values, {2, 2});
    const Tensor w_down = tensor(w_values, {2, 1});
    swiglu_mlp(x, w_gate_up, w_down);
    silu_and_mul(w_gate_up);
    CHECK(values<float>(x) == x_values);
    CHECK(values<float>(w_gate_up) == u_values);
    CHECK(values<float>(w_down) == w_values);
  }
  SUBCASE("each op that it calls records its gradient") {
    unrecorded.clear();
    const Replaced asked(
        library_symbol("wb05_text"),
        "torch_call_dispatcher",
        dispatch_recorded);
    const Tensor result = swiglu_mlp(
        require_gradient(x_values, {1, 2}),
        require_gradient(u_values, {2, 2}),
        require_gradient(w_values, {2, 1}));
    REQUIRE_CLEAN(backward(result)); // a warning, say
    if (!unrecorded.empty()) {
      FAIL(
          "all inputs require a gradient, but none is recorded by", unrecorded);
    }
  }
}
