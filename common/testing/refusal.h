// Bad input must be refused by an exception whose text names the argument.
#pragma once

#include <doctest/doctest.h>

#include <exception>
#include <regex>
#include <string>

namespace workbook {

// What `call` throws, as text; "(nothing was thrown)" if it returns. Without
// the "function, file:line, " that STD_TORCH_CHECK puts before it, so that a
// test sees only what the author wrote.
// Use: CHECK(refusal([&] { f(bad); }) == doctest::Contains("dtype"));
template <class Call>
doctest::String refusal(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    static const std::regex prefix("^[^,]+, [^,]*:[0-9]+, ");
    return std::regex_replace(std::string(error.what()), prefix, "").c_str();
  }
  return "(nothing was thrown)";
}

} // namespace workbook
