// The table and the JSON of a benchmark.
#pragma once

#include "bench.h"

#include <string>
#include <vector>

namespace workbook {

// A member's times over the floor's, and its own.
struct Result {
  std::string name;
  Role role;
  double ratio, low, high; // median, first and third quartile
  size_t repetitions;
  double seconds;            // of one call, median
  Instructions instructions; // of one call, where they were counted
};

struct GroupResult {
  Group group;
  std::vector<Result> members;

  // Of the group's bytes, whatever a member itself moves; 0 without bytes.
  double gb_per_s(double seconds) const {
    return seconds == 0 ? 0 : static_cast<double>(group.bytes) / seconds / 1e9;
  }
  const Result& floor() const;
};

void print_heading(const std::string& chapter);
void print(const GroupResult& result);

// Writes a temporary file and renames it; throws std::runtime_error.
void write_json(
    const std::string& file,
    const std::string& chapter,
    bool quick,
    const std::vector<GroupResult>& results);

} // namespace workbook
