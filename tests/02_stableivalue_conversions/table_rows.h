// Checks of the rows of the conversion table on the running libtorch. Each is
// made in a child process, through the real dispatcher: to libtorch by a call,
// and from libtorch by a kernel's argument or an op's return.
#pragma once

#include "conversions.h"
#include "watched_calls.h"

#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>
#include <string>

namespace workbook::chapter_02 {

using doctest::Contains;
using rows::Verdict;

// Returns the row of the table with these two columns.
inline const rows::Row& row(
    const std::string& schema, const std::string& extension) {
  for (const rows::Row& candidate : rows::table()) {
    if (candidate.schema == schema && candidate.extension == extension) {
      return candidate;
    }
  }
  throw std::out_of_range("no row " + schema);
}

// Requires that the row converts. `blocks` is the number of blocks that
// libtorch itself loses each time.
inline void check_converts(const rows::Row& row, double blocks = 0) {
  const Verdict verdict = rows::run([&] {
    const double left = count_leaks(row.there_and_back);
    if (left != blocks) {
      throw std::logic_error(std::to_string(left) + " blocks were lost");
    }
  });
  CAPTURE(row.schema);
  CAPTURE(verdict.text);
  CHECK(verdict.kind == Verdict::kConverts);
}

// libtorch's reasons, up to the name of the type.
inline const std::string kTo =
    "conversion from StableIValue to IValue for schema type: ";
inline const std::string kFrom =
    "conversion from IValue to StableIValue for schema type: ";

inline void check_refuses(
    const std::function<void()>& experiment, const std::string& reason) {
  const Verdict verdict = rows::run(experiment);
  CHECK(verdict.kind == Verdict::kRefused);
  CHECK(verdict.text.c_str() == Contains(reason.c_str()));
}

// Requires that libtorch takes no such slot and returns none; `type` is
// libtorch's name of the type. Values that only Python can make are tested in
// Python.
inline void check_refuses(const std::string& schema, const std::string& type) {
  const rows::Row refused = row(schema, "");
  check_refuses(refused.there_and_back, kTo + type);
  if (refused.back != nullptr) {
    check_refuses(refused.back, kFrom + type);
  }
}

// Returns the number of blocks that a call of `body` leaves behind, counted in
// a child process.
inline double count_lost(const std::function<void()>& body) {
  const Verdict verdict = rows::run(
      [&] { throw std::runtime_error(std::to_string(count_leaks(body))); });
  return std::stod(verdict.text);
}

} // namespace workbook::chapter_02
