// Groups of Google Benchmark's benchmarks. A group is one operation on one
// shape and dtype; its members are ways to do it: a floor (the same memory
// traffic with hardly any arithmetic), the subject (the library under test) and
// peers. ratios.py divides the time of each repetition by the floor's nearest.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace workbook {

enum class Role { kFloor, kSubject, kPeer };

// Instructions of one call, by the place that they are in: {"libtorch", 812}.
using Instructions = std::map<std::string, double>;

// One way to do what the group does. Members of a group may share buffers.
struct Member {
  std::string name;
  Role role;
  std::function<void()> run;
  std::function<void()> poison;       // spoils what run() has to write
  std::function<std::string()> check; // "", or what is wrong with the result
  bool slow = false;                  // 12 repetitions do, or 2 with --quick
  // Instead of timing run(): counts a call of it. Empty if it could not.
  std::function<Instructions()> count = {};
};

struct Group {
  std::string name;
  std::string dtype;
  std::string shape;
  std::string cache; // "cold" or "warm": where the operands are at first
  int64_t bytes; // that a call has to read and write; 0: not a matter of bytes
  int threads;   // of libtorch
  std::vector<Member> members; // exactly one is the floor
};

// The groups of a chapter; with `quick` one small group of each kind. Called
// once, after the library under test has been loaded.
using Groups = std::function<std::vector<Group>(bool quick)>;

// The main of a benchmark. Its own options are --library=FILE, the library
// under test, and --quick; the others are Google Benchmark's. Gives the exit
// status: 0 measured, 1 a wrong result or an error while measuring, 2 bad
// arguments, 3 the library does not load.
int run_benchmarks(const Groups& groups, int argc, char** argv);

} // namespace workbook
