// What the tests' doctest checks have in common: texts of exceptions, vectors
// that are printed, and a failure that is a text and nothing else.
#pragma once

#include "text.h"

#include <doctest/doctest.h>

#include <exception>
#include <string>
#include <vector>

// How doctest prints a vector: "[2, 3]" instead of "{?}".
template <typename T>
struct doctest::StringMaker<std::vector<T>> {
  static String convert(const std::vector<T>& values) {
    String text = "[";
    for (size_t i = 0; i < values.size(); ++i) {
      text += i == 0 ? "" : ", ";
      if (i == 16) {
        text += "...";
        break;
      }
      text += toString(values[i]);
    }
    return text + "]";
  }
};

namespace workbook {

// For `said(text) == doctest::Contains("...")`.
inline doctest::String said(const std::string& text) {
  return text.c_str();
}

inline constexpr char kNothingThrown[] = "(nothing was thrown)";

// Returns the text of an error for a check, as said() does; says so where there
// was none.
inline doctest::String said_error(const std::string& text) {
  return said(text.empty() ? kNothingThrown : text);
}

// What `call` throws, as text without its place; kNothingThrown if it returns.
// Bad input must be refused so, by a text that names the argument:
// CHECK(refusal([&] { f(bad); }) == doctest::Contains("dtype"));
template <typename Call>
doctest::String refusal(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return without_place(error.what()).c_str();
  }
  return kNothingThrown;
}

} // namespace workbook

// Where the learner is sent if a check in this scope fails: to the first line
// of the step's own in this file that has the text, else to the step's change
// that follows the first line that has it. For a step of several places; of
// several that hold, the last, unless another file has a TODO of the step.
#define LOOK_AT(file, text) INFO("look at " file ": ", std::string(text))

// Fails with this text, unless it is empty. The expression is ours and is not
// shown: REQUIRE_CLEAN(watch(ops, act)).
#define REQUIRE_CLEAN(...)                                          \
  do {                                                              \
    if (const std::string trouble(__VA_ARGS__); !trouble.empty()) { \
      FAIL(trouble);                                                \
    }                                                               \
  } while (false)
