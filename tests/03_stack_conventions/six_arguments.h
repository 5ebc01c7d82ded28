// The learner's kernel of six arguments, called in libtorch's place, and what
// it may leave behind when one of them cannot be converted or memory runs out.
#pragma once

#include "ops.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/ledger.h"
#include "testing/library.h"
#include "testing/schema.h"
#include "testing/watch.h"

#include <doctest/doctest.h>

#include <torch/headeronly/macros/Export.h>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace workbook::chapter_03 {

using doctest::Contains;

inline constexpr StableIValue kNoDtype = 0x7fff; // no dtype has this code

// A kernel under test that takes six arguments. The test calls it in libtorch's
// place.
class C10_HIDDEN SixArguments {
 public:
  // `gives`: the kernel returns its arguments. `some`: the optionals have a
  // value.
  SixArguments(bool gives, bool some) : gives_(gives), some_(some) {}

  // Calls the kernel once; `spoil` may change the slots first. Throws what the
  // kernel throws, and throws if the kernel returns another value.
  void call(
      Watch& watched,
      const std::function<void(std::vector<StableIValue>&)>& spoil = {}) const {
    const Ledger::Pause pause;
    std::vector<StableIValue> stack;
    {
      const Ledger::Follow follow;
      stack = make(kSix, input_, some_);
    }
    if (spoil) {
      spoil(stack);
    }
    const std::vector<std::string> before = draw_slots(kSix, stack.data());
    watched.call_kernel(
        "six",
        function<Kernel*()>("wb03_six")(),
        Schema{kSix, gives_ ? kSix : std::vector<std::string>()},
        stack.data(),
        [&](const StableIValue* returns) {
          if (!gives_) {
            return;
          }
          const std::vector<std::string> after = draw_slots(kSix, returns);
          for (size_t i = 0; i < before.size(); ++i) {
            if (after[i] != before[i]) {
              throw std::runtime_error(
                  "slot " + std::to_string(i) + " returned " + after[i] +
                  " for " + before[i]);
            }
          }
        });
  }

  // Returns the text that the kernel throws. Requires that it leaves nothing
  // behind.
  std::string require_clean(
      const std::function<void(std::vector<StableIValue>&)>& spoil = {}) const {
    std::string text;
    REQUIRE_CLEAN(watch(kOps, [&](Watch& watched) {
      text = thrown([&] { call(watched, spoil); });
    }));
    return text;
  }

 private:
  Tensor input_ = tensor(kDividend, {4});
  Named names_{{input_, "input"}};
  bool gives_;
  bool some_;
};

// While it lives, the body of the kernel under test throws.
struct ThrowingBody {
  ThrowingBody() {
    function<void(bool)>("wb03_fail")(true);
  }
  ~ThrowingBody() {
    function<void(bool)>("wb03_fail")(false);
  }
};

// Requires that nothing is left behind, whatever fails.
C10_HIDDEN inline void check_six_arguments(bool gives) {
  for (const bool some : {true, false}) {
    SUBCASE(some ? "optionals with a value" : "optionals without a value") {
      const SixArguments kernel(gives, some);
      SUBCASE("nothing fails") {
        REQUIRE_CLEAN(
            watch(kOps, [&](Watch& watched) { kernel.call(watched); }));
      }
      SUBCASE("the body throws, when all arguments have been taken") {
        const ThrowingBody throwing;
        CHECK(said(kernel.require_clean()) == Contains("thrown by the body"));
      }
      SUBCASE("slot 1 cannot be converted") {
        const std::string text = kernel.require_clean([](auto& stack) {
          if (stack[1] != 0) {
            *slots::pointer<StableIValue*>(stack[1]) = kNoDtype;
          }
        });
        if (some) {
          CHECK(said(text) == Contains("ScalarType"));
        } else {
          CHECK(text == ""); // None has no value that could be refused
        }
      }
      SUBCASE("slot 5 cannot be converted") {
        CHECK(said(kernel.require_clean([](auto& stack) {
                stack[5] = kNoDtype;
              })) == Contains("ScalarType"));
      }
      SUBCASE("memory runs out, at each allocation in turn") {
        int failures = 0; // in the conversions of the arguments and the returns
        REQUIRE_CLEAN(watch(kOps, [&](Watch& watched) {
          const Ledger::Pause pause;
          for (failures = 0;; ++failures) {
            thrown([&] {
              kernel.call(
                  watched, [&](auto&) { Ledger::fail_after(failures); });
            });
            const bool failed = !Ledger::fail_after(-1);
            if (!failed) {
              break;
            }
            watched.require_clean();
          }
        }));
        CHECK(failures >= (gives ? 10 : 3));
      }
      SUBCASE("nothing fails, while another exception unwinds the stack") {
        std::string text;
        REQUIRE_CLEAN(watch(kOps, [&](Watch& watched) {
          text = thrown_while_unwinding([&] { kernel.call(watched); });
        }));
        CHECK(text == "");
      }
    }
  }
}

} // namespace workbook::chapter_03
