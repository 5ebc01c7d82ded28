// Measuring as ratios. A group is one operation on one shape and dtype, and its
// members are ways to do it: a floor (the same memory traffic with hardly any
// arithmetic), the subject (the library under test) and peers. They run
// interleaved, and each time is divided by that of the floor next to it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace workbook {

enum class Role { kFloor, kSubject, kPeer };

// One way to do what the group does. Members of a group may share buffers.
struct Member {
  std::string name;
  Role role;
  std::function<void()> run;
  std::function<void()> poison;       // spoils what run() has to write
  std::function<std::string()> check; // "", or what is wrong with the result
  bool slow = false;                  // a quarter of the repetitions will do
};

// Instructions of one call, by the place that they are in: {"libtorch", 812}.
using Instructions = std::map<std::string, double>;

struct Group {
  std::string name; // what --filter is matched with
  std::string dtype;
  std::string shape;
  std::string
      cache; // "cold" or "warm": where the operands are when run() begins
  int64_t
      bytes; // that one call has to read and write; 0: not a matter of bytes
  int threads;
  // Called when the group's turn comes, so that only one group's buffers exist
  // at a time. Exactly one member is the floor.
  std::function<std::vector<Member>()> members;
  // Instead of timing: counts what a call of each member takes. An empty result
  // says that it could not; the group is then left out.
  std::function<std::vector<Instructions>()> count;
};

// The groups of a chapter; with `quick` one small group of each kind. Called
// once, after the library under test has been loaded.
using Groups = std::function<std::vector<Group>(bool quick)>;

// The main of a benchmark: loads the library, checks and times every group,
// prints a table and writes JSON. `--help` gives the options, and the exit
// statuses, one of which it returns.
int run_benchmarks(
    const std::string& chapter, const Groups& groups, int argc, char** argv);

} // namespace workbook
