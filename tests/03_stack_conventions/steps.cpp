// Tests of chapter 03: each step has its cases, which watch and draw every slot
// that changes hands.
#include "ops.h"
#include "replaced_functions.h"
#include "six_arguments.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/child.h"
#include "testing/dispatcher.h"
#include "testing/guarded_stack.h"
#include "testing/library.h"
#include "testing/meeting.h"
#include "testing/replaced.h"
#include "testing/schema.h"
#include "testing/watch.h"

#include "../../solutions/03_stack_conventions/stack.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

using namespace workbook;
using namespace workbook::chapter_03;
using doctest::Contains;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

TEST_CASE(
    "03.1 a stack has room for the arguments and for the returns" *
    doctest::description("The stack is too short for the two returns, or one "
                         "is not taken once.")) {
  const Tensor input = tensor<float>({1, 6, -10, 0}, {4});
  const Named names{{input, "input"}};
  auto* const frexp = function<void(Handle, Handle*)>("wb03_frexp");
  std::string drawing;
  REQUIRE_CLEAN(watch(
      kOps,
      [&](Watch&) {
        Handle out[2];
        frexp(input.get(), out);
        adopt(out[0]), adopt(out[1]);
      },
      &drawing));
  INFO(drawing);
  Handle out[2];
  frexp(input.get(), out);
  const Tensor returns[] = {adopt(out[0]), adopt(out[1])};
  if (returns[0].scalar_type() == ScalarType::Int) {
    FAIL("mantissa is a tensor of int32: are the two returns swapped?");
  }
  const auto mantissa = values<float>(returns[0]);
  const auto exponent = values<int32_t>(returns[1]);
  CHECK(mantissa == std::vector<float>{0.5, 0.75, -0.625, 0});
  CHECK(exponent == std::vector<int32_t>{1, 3, 4, 0});
  const Tensor eight = tensor<float>({8}, {1, 1}); // each call is a new one
  frexp(eight.get(), out);
  CHECK(values<float>(adopt(out[0])) == std::vector<float>{0.5});
  CHECK(values<int32_t>(adopt(out[1])) == std::vector<int32_t>{4});
  SUBCASE("an error of the op passes") {
    const Tensor integers = tensor<int32_t>({1, 2}, {2});
    std::string text;
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      text = thrown([&] { frexp(integers.get(), out); });
    }));
    CHECK(text != "");
  }
  SUBCASE("no elements") {
    const Tensor none = tensor<float>({}, {0, 3});
    frexp(none.get(), out);
    adopt(out[0]);
    CHECK(values<int32_t>(adopt(out[1])).empty());
  }
  SUBCASE("two threads at once share nothing") {
    check_two_threads(reinterpret_cast<void*>(frexp), [&] {
      Handle both[2];
      frexp(input.get(), both);
      adopt(both[0]), adopt(both[1]);
    });
  }
}

TEST_CASE(
    "03.1 in the worked example the arguments lie left to right" *
    doctest::description("divide, the worked example, is given as it has to "
                         "be; here it computes something else.")) {
  const Tensor dividend = tensor(kDividend, {4});
  const Tensor divisor = tensor(kDivisor, {4});
  const Named names{{dividend, "dividend"}, {divisor, "divisor"}};
  auto* const divide = function<Handle(Handle, Handle)>("wb03_divide");
  std::string drawing;
  REQUIRE_CLEAN(watch(
      kOps,
      [&](Watch&) { adopt(divide(dividend.get(), divisor.get())); },
      &drawing));
  INFO(drawing);
  CHECK(said(drawing) == Contains("slot 0  argument Tensor dividend"));
  CHECK(said(drawing) == Contains("slot 1  argument Tensor divisor"));
  CHECK(
      values<float>(adopt(divide(dividend.get(), divisor.get()))) ==
      std::vector<float>{3, -2, -2, 0.375});
  SUBCASE("two threads at once share nothing") {
    check_two_threads(reinterpret_cast<void*>(divide), [&] {
      adopt(divide(dividend.get(), divisor.get()));
    });
  }
}

TEST_CASE(
    "03.2 each slot gets a handle of its own" *
    doctest::description("A slot does not have a handle of its own, or the "
                         "caller's own is given away.")) {
  const Tensor input = tensor(kDividend, {4});
  const Named names{{input, "input"}};
  auto* const square = function<Handle(Handle)>("wb03_square");
  std::string drawing;
  const auto act = [&](Watch&) {
    const Tensor lent = borrow(slots::bits(input.get()));
    adopt(square(lent.get()));
  };
  REQUIRE_CLEAN(watch(kOps, act, &drawing));
  INFO(drawing);
  if (drawing.find("slot 1  argument Tensor input") == std::string::npos) {
    FAIL("slot 1 holds another tensor than input, or a copy of its data");
  }
  const auto squares = values<float>(adopt(square(input.get())));
  CHECK(squares == std::vector<float>{36, 64, 100, 9});
  CHECK(values<float>(input) == kDividend); // the caller's handle is good still
  const Tensor half = tensor<float>({0.5}, {1}); // each call is a new one
  CHECK(values<float>(adopt(square(half.get()))) == std::vector<float>{0.25});
  SUBCASE("no new handle can be made") {
    std::string text;
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      text = thrown([&] {
        Ledger::fail_after(0);
        square(input.get());
      });
    }));
    CHECK(text != "");
  }
  SUBCASE("the second new handle cannot be made") {
    const Replaced failing(
        reinterpret_cast<void*>(square),
        "aoti_torch_new_tensor_handle",
        fail_the_second);
    std::string text;
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      const Tensor lent = borrow(slots::bits(input.get()));
      first_made = nullptr;
      text = thrown([&] { square(lent.get()); });
      if (Ledger::deletions(first_made) == 0) {
        adopt(first_made); // it may be lost where memory has run out
      }
    }));
    CHECK(text != "");
  }
  SUBCASE("two threads at once share nothing") {
    check_two_threads(
        reinterpret_cast<void*>(square), [&] { adopt(square(input.get())); });
  }
  SUBCASE("libtorch took both handles, and the op failed") {
    std::string text;
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      const Replaced failing(
          reinterpret_cast<void*>(square),
          "torch_call_dispatcher",
          fail_in_mul);
      text = thrown([&] { square(input.get()); });
    }));
    CHECK(text != "");
  }
}

TEST_CASE(
    "03.3 every return is consumed, the unwanted too" *
    doctest::description("The arguments are not in the schema's order, or a "
                         "return is left behind.")) {
  const Tensor out = tensor<float>({0, 0, 0, 0}, {4});
  const Tensor self = tensor(kDividend, {4});
  const Tensor other = tensor(kDivisor, {4});
  const Named names{{out, "out"}, {self, "self"}, {other, "other"}};
  auto* const multiply =
      function<void(Handle, Handle, Handle)>("wb03_multiply_into");
  std::string drawing;
  REQUIRE_CLEAN(watch(
      kOps,
      [&](Watch&) { multiply(out.get(), self.get(), other.get()); },
      &drawing));
  INFO(drawing);
  const std::string schema[] = {"self", "other", "out"};
  for (size_t i = 0; i < 3; ++i) {
    const std::string slot = "slot " + std::to_string(i);
    if (drawing.find(slot + "  argument Tensor " + schema[i]) ==
        std::string::npos) {
      FAIL(
          slot,
          " does not hold ",
          schema[i],
          ", which stands there in the schema");
    }
  }
  const auto product = values<float>(out);
  CHECK(product == std::vector<float>{12, -32, -50, 24});
  multiply(out.get(), out.get(), self.get()); // each call is a new one
  CHECK(values<float>(out) == std::vector<float>{72, -256, 500, 72});
  SUBCASE("two of the three, or all, may be one tensor") {
    const Handle a = out.get(), b = self.get(), c = other.get();
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) { multiply(a, a, c); }));
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) { multiply(a, b, a); }));
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) { multiply(a, b, b); }));
    CHECK(values<float>(out) == std::vector<float>{36, 64, 100, 9});
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) { multiply(a, a, a); }));
  }
  SUBCASE("out without elements: the op resizes it") {
    const Tensor empty = tensor(std::vector<float>(), {0});
    multiply(empty.get(), self.get(), other.get());
    CHECK(values<float>(empty) == product);
  }
  SUBCASE("an error of the op passes") {
    const Tensor integers = tensor<int32_t>({0, 0, 0, 0}, {4});
    std::string text;
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      text = thrown([&] { multiply(integers.get(), self.get(), other.get()); });
    }));
    CHECK(text != "");
  }
  SUBCASE("two threads at once share nothing") {
    check_two_threads(reinterpret_cast<void*>(multiply), [&] {
      const Tensor mine = tensor<float>({0, 0, 0, 0}, {4});
      multiply(mine.get(), self.get(), other.get());
    });
  }
  SUBCASE("the new handle lies where that of out was") {
    const Replaced dispatcher(
        reinterpret_cast<void*>(multiply),
        "torch_call_dispatcher",
        return_at_the_same_address);
    REQUIRE_CLEAN(watch(
        {}, [&](Watch&) { multiply(out.get(), self.get(), other.get()); }));
  }
}

namespace {

using Floats = std::vector<float>;
using Sizes = std::vector<int64_t>;
constexpr StableIValue kSwap = 1;
constexpr StableIValue kBehind = 0xfedcba9876543200; // the byte of a bool

// `input` is [..., 2d], with the elements 1, 2, ...; both parts are [..., d].
const struct {
  const char* name;
  Sizes sizes;
  bool scaled;
  StableIValue swap;
  Sizes halves;
  Floats gate, up;
} kScenarios[] = {
    {"gate and up", {2, 4}, false, 0, {2, 2}, {1, 2, 5, 6}, {3, 4, 7, 8}},
    {"swapped", {2, 4}, false, kSwap, {2, 2}, {3, 4, 7, 8}, {1, 2, 5, 6}},
    {"scaled", {2, 4}, true, 0, {2, 2}, {1, 2, 5, 6}, {30, 400, 70, 800}},
    {"scaled and swapped",
     {2, 4},
     true,
     kSwap,
     {2, 2},
     {3, 4, 7, 8},
     {10, 200, 50, 600}},
    {"what is behind the byte of a false means nothing",
     {2, 4},
     true,
     kBehind,
     {2, 2},
     {1, 2, 5, 6},
     {30, 400, 70, 800}},
    {"one dimension", {8}, false, 0, {4}, {1, 2, 3, 4}, {5, 6, 7, 8}},
    {"three dimensions",
     {2, 2, 2},
     false,
     kSwap,
     {2, 2, 1},
     {2, 4, 6, 8},
     {1, 3, 5, 7}},
    {"no elements, and scaled", {0, 4}, true, 0, {0, 2}, {}, {}}};

} // namespace

TEST_CASE(
    "03.4 a kernel steals its arguments and writes its returns from 0" *
    doctest::description("An argument is not taken once, or a return is not "
                         "the slot's own or in its place.")) {
  const Floats data{1, 2, 3, 4, 5, 6, 7, 8};
  const Tensor scale = tensor<float>({10, 100}, {2});
  for (const auto& scenario : kScenarios) {
    SUBCASE(scenario.name) {
      const Floats in(scenario.gate.empty() ? Floats() : data);
      const Tensor input = tensor(in, scenario.sizes);
      const Named names{{scale, "scale"}, {input, "input"}};
      Floats gate, up;
      Sizes gate_sizes, up_sizes;
      std::string drawing;
      const auto act = [&](Watch& watched) {
        const GuardedStack stack(3);
        stack[0] = slots::make("Tensor", input.get());
        stack[1] = slots::make("Tensor?", scale.get(), scenario.scaled);
        stack[2] = scenario.swap;
        watched.call_kernel(
            "gate_and_up",
            function<Kernel*()>("wb03_gate_and_up")(),
            kGateAndUp,
            stack.data(),
            [&](const StableIValue* returns) {
              const Tensor first = borrow(returns[0]);
              const Tensor second = borrow(returns[1]);
              gate = values<float>(first), up = values<float>(second);
              gate_sizes = first.sizes().vec(), up_sizes = second.sizes().vec();
            });
      };
      REQUIRE_CLEAN(watch(kOps, act, &drawing));
      INFO(drawing);
      CHECK(gate == scenario.gate);
      CHECK(up == scenario.up);
      CHECK(gate_sizes == scenario.halves);
      CHECK(up_sizes == scenario.halves);
      CHECK(values<float>(input) == in); // and what was lent is as it was
      CHECK(values<float>(scale) == Floats{10, 100});
    }
  }
  SUBCASE("a scale that does not fit is an exception") {
    const Tensor input = tensor(data, {2, 4});
    const Tensor wrong = tensor<float>({1, 2, 3}, {3});
    StableIValue stack[3] = {
        slots::make("Tensor", input.get()),
        slots::make("Tensor?", wrong.get()),
        0};
    const std::string text =
        thrown([&] { call_op("wb03::gate_and_up", "", stack); });
    CHECK(said_error(text) == Contains("must match"));
  }
  SUBCASE("as an op that libtorch calls") {
    const Tensor input = tensor(data, {2, 4});
    StableIValue stack[3] = {
        slots::make("Tensor", input.get()),
        slots::make("Tensor?", scale.get()),
        0};
    call_op("wb03::gate_and_up", "", stack);
    CHECK(values<float>(adopt(stack[0])) == std::vector<float>{1, 2, 5, 6});
    CHECK(
        values<float>(adopt(stack[1])) == std::vector<float>{30, 400, 70, 800});
    CHECK(
        schema_of("wb03", "gate_and_up") ==
        "wb03::gate_and_up(Tensor input, Tensor? scale, bool swap) -> "
        "(Tensor, Tensor)");
  }
}

TEST_CASE(
    "03.5 whatever is not converted, nothing is left behind" *
    doctest::description("What the kernel was given is taken in the wrong "
                         "order, or not all of it is released once.")) {
  check_six_arguments(false);
  SUBCASE("the values, left to right") {
    StableIValue stack[] = {1, 2, 3};
    int64_t taken[3] = {};
    function<void(StableIValue*, int64_t*)>("wb03_take_three")(stack, taken);
    CHECK(
        std::vector<int64_t>(taken, taken + 3) ==
        std::vector<int64_t>{1, 2, 3});
  }
  // Nothing can be released, since nobody knows what is there, and nothing is
  // touched.
  const Tensor input = tensor(kDividend, {4});
  for (const uint64_t count : {5, 7}) {
    const std::string wrong = std::to_string(count) + " slots";
    SUBCASE((wrong + " for six arguments").c_str()) {
      const std::string expected = "6 types for " + wrong;
      std::string text;
      REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
        std::vector<StableIValue> stack = make(kSix, input, true);
        stack.push_back(0);
        text = thrown(
            [&] { function<Kernel*()>("wb03_six")()(stack.data(), count, 0); });
        for (size_t i = 0; i < kSix.size() && !text.empty(); ++i) {
          slots::release(kSix[i], stack[i]); // it is there still
        }
      }));
      const auto error = said_error(text);
      CHECK(error == Contains(expected.c_str()));
    }
  }
}

TEST_CASE(
    "03.5 whichever of six arguments cannot be converted" *
    doctest::description("What is left when one argument is refused is not "
                         "released once, by its own type.")) {
  const Tensor input = tensor(kDividend, {4});
  const Named names{{input, "input"}};
  for (int k = 0; k < 6; ++k) {
    SUBCASE(("slot " + std::to_string(k) + " cannot be converted").c_str()) {
      std::vector<std::string> types(6, "Tensor");
      types[k] = "ScalarType";
      std::string text;
      REQUIRE_CLEAN(watch(kOps, [&](Watch& watched) {
        std::vector<StableIValue> stack = make(types, input, true);
        stack[k] = kNoDtype;
        text = thrown([&] {
          const Ledger::Pause pause;
          watched.call_kernel(
              "six",
              function<Kernel*(int)>("wb03_six_at")(k),
              Schema{types, {}},
              stack.data(),
              [](const StableIValue*) {});
        });
      }));
      CHECK(said_error(text) == Contains("ScalarType"));
    }
  }
}

TEST_CASE(
    "03.5 what is in a window at its end is released, and nothing else" *
    doctest::description("~OwnedSlots does not release each slot from first to "
                         "last - 1 once, also where nothing is thrown.")) {
  const Tensor input = tensor(kDividend, {4});
  const Named names{{input, "input"}};
  const struct {
    size_t first, last, taken;
  } rows[] = {{0, 6, 0}, {0, 6, 2}, {0, 6, 6}, {2, 4, 0}, {2, 4, 1}, {3, 3, 0}};
  for (const auto& row : rows) {
    const std::string name = "a window {slots, " + std::to_string(row.first) +
        ", " + std::to_string(row.last) + "} that ends after " +
        std::to_string(row.taken) + " next(), and nothing is thrown";
    REQUIRE_CLEAN(watch(kOps, [&](Watch& watched) {
      std::vector<StableIValue> stack = make(kSix, input, true);
      watched.call_kernel(
          name,
          function<Kernel*(size_t, size_t, size_t)>("wb03_window")(
              row.first, row.last, row.taken),
          Schema{kSix, {}},
          stack.data(),
          [](const StableIValue*) {});
      for (size_t i = 0; i < kSix.size(); ++i) {
        if (i < row.first + row.taken || i >= row.last) { // not in it
          slots::release(kSix[i], stack[i]);
        }
      }
    }));
  }
}

TEST_CASE(
    "03.6 whatever is not given, nothing is left behind" *
    doctest::description("What was written is lost when something throws, or "
                         "released though nothing did.")) {
  check_six_arguments(true);
  using Lists = std::vector<std::vector<int64_t>>;
  const Lists lists{{1, 2}, {}, {3}};
  SUBCASE("lists of lists") {
    StableIValue nested[] = {torch::stable::detail::from(lists)};
    function<Kernel*()>("wb03_lists")()(nested, 1, 1);
    CHECK(torch::stable::detail::to<Lists>(nested[0]) == lists);
  }
  for (const uint64_t count : {0, 2}) { // nothing is written
    const std::string wrong = std::to_string(count) + " slots";
    SUBCASE((wrong + " for one return").c_str()) {
      StableIValue taken[] = {torch::stable::detail::from(lists), 0};
      const StableIValue before[] = {taken[0], taken[1]};
      CHECK(refusal([&] {
              function<Kernel*()>("wb03_lists")()(taken, 1, count);
            }) == Contains(("1 types for " + wrong).c_str()));
      for (size_t i = 0; i < 2; ++i) {
        if (taken[i] != before[i] && taken[i] != 0) { // or emptied, when taken
          FAIL("slot ", i, " was written before the number was refused");
        }
      }
    }
  }
}

TEST_CASE(
    "03.6 each slot is written, with a reference of its own" *
    doctest::description("A slot still has the bits of an argument, or two "
                         "slots have one reference.")) {
  const Tensor input = tensor(kDividend, {4});
  const Named names{{input, "input"}};
  const std::string text = "\"longer than the small buffer\"";
  const struct {
    std::string type, value;
  } rows[] = {
      {"Tensor", "input"},
      {"Tensor", "input"},
      {"str", text},
      {"str", text},
      {"Tensor?", "input"},
      {"Tensor?", "input"},
      {"Tensor[]", "[input, input]"},
      {"Tensor[]", "[input, input]"},
      {"Tensor?", "None"},
      {"int", slots::hex(0)},
      {"float", slots::hex(0)},
      {"Tensor", "input"}};
  Schema schema;
  std::vector<std::string> expected, given;
  for (const auto& row : rows) {
    schema.arguments.push_back("Tensor");
    schema.returns.push_back(row.type);
    expected.push_back(row.value);
  }
  REQUIRE_CLEAN(watch(kOps, [&](Watch& watched) {
    std::vector<StableIValue> stack = make(schema.arguments, input, true);
    const Ledger::Pause pause;
    watched.call_kernel(
        "a kernel that ends with from_values(slots, 12, x, x, text, text, "
        "maybe, maybe, list, list, std::nullopt, 0, 0.0, x)",
        function<Kernel*()>("wb03_each_twice")(),
        schema,
        stack.data(),
        [&](const StableIValue* slots) {
          given = draw_slots(schema.returns, slots);
        });
  }));
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("slot ", i, ", of type ", schema.returns[i]);
    CHECK(given[i] == expected[i]);
  }
}

TEST_CASE(
    "03.7 a call that fails" *
    doctest::description("A call that fails is not noticed, or its arguments "
                         "are not released exactly once.")) {
  const Tensor input = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  const Named names{{input, "input"}};
  auto* const call_six = function<void(Handle, ScalarType)>("wb03_call_six");
  std::string text;

  SUBCASE("the kernel throws: libtorch has released everything") {
    const auto act = [&](Watch&) {
      text = thrown([&] { call_six(input.get(), ScalarType::Float); });
    };
    REQUIRE_CLEAN(watch(kOps, act, nullptr, kLostByString));
    const auto error = said_error(text);
    CHECK(error == Contains("wb03_probe::six"));
    // A libtorch before 2.13 writes the reason to stderr.
    if (running_version() >= 0x020d) {
      CHECK(error == Contains("thrown by the body"));
    }
  }
  SUBCASE("an argument cannot be converted: libtorch is not called") {
    const auto act = [&](Watch&) {
      text = thrown([&] { call_six(input.get(), ScalarType::QInt8); });
    };
    std::string drawing;
    REQUIRE_CLEAN(watch(kOps, act, &drawing));
    CHECK(said_error(text) == Contains("ScalarType"));
    CHECK(drawing == "");
  }
  // Nobody can tell this from the other failures, so `call` leaves the
  // arguments alone; they are lost, in a process of their own.
  SUBCASE("there is no such op") {
    text = in_child([&] {
      thrown([&] { call_six(input.get(), ScalarType::Float); });
      function<void(Handle)>("wb03_call_absent")(input.get());
    });
    CHECK(said_error(text) == Contains("wb03_probe::absent"));
    if (text.find("thrown by the body") != std::string::npos) {
      FAIL("the reason is that of an earlier call: ", text);
    }
  }
  // On a stack of its own at each depth.
  for (const bool fails : {false, true}) {
    SUBCASE(fails ? "at the bottom of calls" : "an op that calls itself") {
      REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
        StableIValue stack[] = {slots::make("Tensor", input.get()), 5, fails};
        text = thrown([&] {
          call_op("wb03_probe::nest", "", stack);
          adopt(stack[0]);
        });
      }));
      CHECK(text.empty() == !fails);
    }
  }
}

TEST_CASE(
    "03.7 a call hands everything over and adopts the returns" *
    doctest::description("A call has too few slots, or what goes in or comes "
                         "out has two owners or none.")) {
  const Tensor input = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  const Tensor out = tensor<float>({0, 0, 0, 0}, {2, 2});
  const Named names{{input, "input"}, {out, "out"}};

  SUBCASE("silu_and_mul, whose kernel makes four calls of its own") {
    auto ops = kOps;
    ops["wb03::silu_and_mul"] = {{"Tensor", "Tensor"}, {}};
    REQUIRE_CLEAN(watch(ops, [&](Watch&) { silu_and_mul(out, input); }));
    if (values<float>(input) != Floats{1, 2, 3, 4, 5, 6, 7, 8}) {
      FAIL("input has changed: by its schema only out is written");
    }
    check_silu_and_mul({2, 4});
    check_silu_and_mul({8});
    check_silu_and_mul({2, 2, 2});
    CHECK(
        schema_of("wb03", "silu_and_mul") ==
        "wb03::silu_and_mul(Tensor(a!) out, Tensor input) -> ()");
  }
  SUBCASE("silu_and_mul refuses an odd size") {
    for (const int64_t size : {1, 3, 5}) { // a part of 1 would be broadcast
      const auto elements = static_cast<size_t>(size);
      const Tensor odd = tensor(std::vector<float>(elements), {1, size});
      std::string text;
      REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
        text = thrown([&] { silu_and_mul(out, odd); });
      }));
      CHECK(said_error(text) == Contains("unflatten"));
    }
  }
  SUBCASE("two returns for one argument; no argument and no return") {
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      call_frexp(input);
      function<void()>("wb03_call_nothing")();
    }));
  }
  SUBCASE("while another exception unwinds the stack") {
    std::string text;
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      text = thrown_while_unwinding([&] { call_frexp(input); });
    }));
    CHECK(text == "");
  }
  SUBCASE("memory runs out before the call, for arguments or for room") {
    auto* const call_six = function<void(Handle, ScalarType)>("wb03_call_six");
    check_without_memory([&] { call_frexp(input); });
    check_without_memory(
        [&] { call_six(input.get(), ScalarType::Float); }, kLostByString);
  }
  SUBCASE("there is no memory for the first of two returns") {
    const Replaced dispatcher(
        library_symbol("wb03_call_frexp"),
        "torch_call_dispatcher",
        call_then_exhaust_memory);
    std::string text;
    REQUIRE_CLEAN(watch(
        kOps, [&](Watch&) { text = thrown([&] { call_frexp(input); }); }));
    CHECK(text != "");
  }
  SUBCASE("twelve returns for no argument, other ones at each call") {
    std::vector<int64_t> first, second;
    REQUIRE_CLEAN(watch(kOps, [&](Watch&) {
      const Ledger::Pause pause;
      first = count(), second = count();
    }));
    std::vector<int64_t> next(12);
    std::iota(next.begin(), next.end(), first[0]);
    CHECK(first == next);
    std::iota(next.begin(), next.end(), first[0] + 12);
    CHECK(second == next);
  }
}

TEST_CASE(
    "03.7 a call waits for no other thread's" *
    doctest::description("A call waits until that of another thread is over. "
                         "Where that one's kernel needs this call, neither "
                         "ends.")) {
  auto* const call = function<void(int64_t*)>("wb03_call_count");
  const Meeting meeting = Meeting::of(reinterpret_cast<void*>(call), count);
  REQUIRE(meeting.stacks.size() == 2);
  if (!meeting.met) {
    FAIL("while an op runs in one thread, no call of another gets through");
  }
}

TEST_CASE(
    "03.7 each call has a stack of its own, also in threads" *
    doctest::description("Two calls share an array of slots, or libtorch is "
                         "told another version than that of the headers.")) {
  auto* const call = function<void(int64_t*)>("wb03_call_count");
  check_two_threads(reinterpret_cast<void*>(call), count);

  const Tensor input = tensor(kDividend, {4});
  std::string texts[4];
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      text = thrown([&] {
        for (int i = 0; i < 25; ++i) {
          call_frexp(input);
        }
      });
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& text : texts) {
    CHECK(text == "");
  }
}

TEST_CASE(
    "03.7 what libtorch cannot return to a call by name does not compile" *
    doctest::description("same_backwards is to compare each type with the one "
                         "that stands at its place from the end.")) {
  const struct {
    const char* returns;
    bool same;
  } rows[] = {
      {"", true},
      {"Tensor", true},
      {"Tensor, Tensor", true},
      {"int, Tensor, int", true},
      {"Tensor, Tensor?, Tensor?, Tensor", true},
      {"Tensor, int", false},
      {"Tensor?, Tensor", false},
      {"Tensor, Tensor?, Tensor, Tensor", false}};
  for (const auto& [returns, same] : rows) {
    if (function<bool(const char*)>("wb03_same_backwards")(returns) != same) {
      const std::string call =
          "a call by name that returns (" + std::string(returns) + ")";
      FAIL(call, std::string(same ? " is refused" : " compiles"));
    }
  }
}

namespace {

template <class... T>
void echo(StableIValue* stack, uint64_t num_args, uint64_t num_returns) {
  std::apply(
      [&](const T&... value) { wb::from_values(stack, num_returns, value...); },
      wb::to_values<T...>(stack, num_args));
}
template <class T>
using Optional = std::optional<T>;
template <class T>
using List = std::vector<T>;

} // namespace

TEST_CASE("03 the reference's stack.h carries every type of slot") {
  using torch::headeronly::Layout, torch::headeronly::MemoryFormat;
  using torch::stable::Device;
  const struct {
    const char* name;
    Kernel* kernel;
    std::vector<std::string> types;
  } rows[] = {
      {"plain",
       &echo<
           bool,
           int64_t,
           double,
           ScalarType,
           Layout,
           MemoryFormat,
           Device,
           Tensor,
           std::string>,
       {"bool",
        "SymInt",
        "float",
        "ScalarType",
        "Layout",
        "MemoryFormat",
        "Device",
        "Tensor",
        "str"}},
      {"optional",
       &echo<
           Optional<bool>,
           Optional<int64_t>,
           Optional<double>,
           Optional<ScalarType>,
           Optional<Layout>,
           Optional<MemoryFormat>,
           Optional<Device>,
           Optional<Tensor>,
           Optional<std::string>>,
       {"bool?",
        "int?",
        "float?",
        "ScalarType?",
        "Layout?",
        "MemoryFormat?",
        "Device?",
        "Tensor?",
        "str?"}},
      {"lists",
       &echo<
           List<bool>,
           List<int64_t>,
           List<double>,
           List<ScalarType>,
           List<Device>,
           List<Tensor>,
           List<std::string>,
           List<Optional<Tensor>>,
           Optional<List<int64_t>>,
           Optional<List<Tensor>>,
           List<List<int64_t>>,
           List<List<Tensor>>>,
       {"bool[]",
        "int[]",
        "float[]",
        "ScalarType[]",
        "Device[]",
        "Tensor[]",
        "str[]",
        "Tensor?[]",
        "int[]?",
        "Tensor[]?",
        "int[][]",
        "Tensor[][]"}}};
  const Tensor input = tensor(kDividend, {4});
  for (const auto& [name, kernel, types] : rows) {
    for (const bool some : {true, false}) {
      const std::string scenario =
          name + std::string(some ? "" : ", without a value or the other way");
      SUBCASE(scenario.c_str()) {
        std::vector<std::string> before, after;
        REQUIRE_CLEAN(
            watch(kOps, [&, &kernel = kernel, &types = types](Watch& watched) {
              std::vector<StableIValue> stack = make(types, input, some);
              const Ledger::Pause pause;
              before = draw_slots(types, stack.data());
              watched.call_kernel(
                  "echo",
                  kernel,
                  Schema{types, types},
                  stack.data(),
                  [&](const StableIValue* returns) {
                    after = draw_slots(types, returns);
                  });
            }));
        CHECK(after == before);
      }
    }
  }
}

namespace {

void boxed_by_header(Tensor, ScalarType, Tensor) {}

} // namespace

TEST_CASE("03 TORCH_BOX loses what it has not converted, take does not") {
  const Tensor input = tensor(kDividend, {4});
  const auto lost = [&](Kernel* kernel) {
    const Ledger ledger;
    StableIValue stack[] = {
        slots::make("Tensor", input.get()),
        kNoDtype,
        slots::make("Tensor", input.get())};
    const Ledger::Pause pause;
    const StableIValue arguments[] = {stack[0], stack[2]};
    const std::string text = thrown([&] {
      const Ledger::Follow follow;
      kernel(stack, 3, 0);
    });
    CHECK(said_error(text) == Contains("ScalarType"));
    int lost = 0;
    for (const StableIValue argument : arguments) {
      if (Ledger::deletions(slots::pointer<void*>(argument)) == 0) {
        slots::release("Tensor", argument);
        ++lost;
      }
    }
    return lost;
  };
  CHECK(lost(TORCH_BOX(&boxed_by_header)) == 1); // which one: the compiler's
  CHECK(lost([](StableIValue* stack, uint64_t num_args, uint64_t) {
          wb::to_values<Tensor, ScalarType, Tensor>(stack, num_args);
        }) == 0);
}
