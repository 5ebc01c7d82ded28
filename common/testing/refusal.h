// Bad input must be refused by an exception whose text names the argument.
#pragma once

#include <doctest/doctest.h>

#include <exception>

namespace workbook {

// What `call` throws, as text; "(nothing was thrown)" if it returns.
// Use: CHECK(refusal([&] { f(bad); }) == doctest::Contains("dtype"));
template <class Call>
doctest::String refusal(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

} // namespace workbook
