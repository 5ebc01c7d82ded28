// The statistic is the median over repetitions of the ratio of a member's time
// to the floor's, each repetition paired with the floor's nearest in time: what
// the machine's other work slows down slows down both.
#include "bench.h"
#include "report.h"
#include "testing/library.h"

#include <benchmark/benchmark.h>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace workbook {
namespace {

constexpr char kHelp[] =
    "Times the library under test against a floor and against peers.\n\n"
    "  --library=FILE  the implementation under test (required)\n"
    "  --json=FILE     write the results as JSON\n"
    "  --quick         one small group of each kind, few repetitions\n"
    "  --filter=REGEX  only the groups whose name has a match\n"
    "  --help          this text\n\n"
    "Exit status: 0 measured, 1 a wrong result or an error while measuring,\n"
    "2 bad arguments, 3 the library does not load.\n";

struct Options {
  std::string library, json, filter;
  bool quick = false, help = false;
};
Options options;
void* handle = nullptr;

struct Sample {
  double at;      // the middle of the repetition, in seconds
  double seconds; // of one call
};

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double part = position - static_cast<double>(below);
  return values[below] + part * (values[above] - values[below]);
}

// A repetition of the floor itself is paired with its nearest other one, which
// shows how much of a spread is noise.
Result summary(
    const Member& member,
    const std::vector<Sample>& samples,
    const std::vector<Sample>& floor) {
  std::vector<double> ratios, seconds;
  for (const Sample& sample : samples) {
    const Sample* nearest = nullptr;
    for (const Sample& other : floor) {
      if (other.at != sample.at &&
          (nearest == nullptr ||
           std::abs(other.at - sample.at) <
               std::abs(nearest->at - sample.at))) {
        nearest = &other;
      }
    }
    ratios.push_back(sample.seconds / nearest->seconds);
    seconds.push_back(sample.seconds);
  }
  return {
      member.name,
      member.role,
      quantile(ratios, 0.5),
      quantile(ratios, 0.25),
      quantile(ratios, 0.75),
      samples.size(),
      quantile(seconds, 0.5),
      {}};
}

double total(const Instructions& instructions) {
  double sum = 0;
  for (const auto& [place, count] : instructions) {
    sum += count;
  }
  return sum;
}

// Keeps the repetitions; Google Benchmark's own tables are not printed.
struct Collector : benchmark::BenchmarkReporter {
  std::vector<std::vector<Sample>> samples;

  bool ReportContext(const Context&) override {
    return true;
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration && run.counters.count("at") != 0) {
        samples[static_cast<size_t>(run.counters.at("member"))].push_back(
            {run.counters.at("at"),
             run.real_accumulated_time / static_cast<double>(run.iterations)});
      }
    }
  }
};

// Throws std::runtime_error, which names group and member, if `f` throws or
// says that something is wrong.
template <class F>
void require_right(
    const Group& group, const Member& member, const char* when, const F& f) {
  std::string wrong;
  try {
    wrong = f();
  } catch (const std::exception& error) {
    wrong = std::string("it threw ") + error.what();
  }
  if (!wrong.empty()) {
    throw std::runtime_error(
        group.name + ", " + member.name + ": wrong " + when +
        " timing: " + wrong + "\nNo time is reported for a wrong result.");
  }
}

// One repetition: a call that is not timed, so that no member starts from what
// another left in the caches, then the timed ones over a poisoned output.
std::string repetition(
    benchmark::State& state, const Member& member, size_t index) {
  member.run();
  member.poison();
  const double begin = now();
  for (auto _ : state) {
    member.run();
    benchmark::ClobberMemory();
  }
  state.counters["at"] = (begin + now()) / 2;
  state.counters["member"] = static_cast<double>(index);
  return member.check();
}

// Counted, not timed: no repetition differs from another. Empty if it cannot.
std::vector<Result> counted(
    const Group& group, const std::vector<Member>& members) {
  const std::vector<Instructions> counts = group.count();
  if (counts.empty()) {
    return {};
  }
  const auto floor = static_cast<size_t>(
      std::find_if(
          members.begin(),
          members.end(),
          [](const Member& member) { return member.role == Role::kFloor; }) -
      members.begin());
  std::vector<Result> results;
  for (size_t i = 0; i < members.size(); ++i) {
    const double ratio = total(counts[i]) / total(counts[floor]);
    results.push_back(
        {members[i].name,
         members[i].role,
         ratio,
         ratio,
         ratio,
         1,
         0,
         counts[i]});
  }
  return results;
}

// Throws std::runtime_error on a wrong result.
std::vector<Result> measure(const Group& group) {
  const std::vector<Member> members = group.members();
  for (const Member& member : members) {
    require_right(group, member, "before", [&] {
      member.poison();
      member.run();
      return member.check();
    });
  }

  if (group.count) {
    return counted(group, members);
  }

  Collector collector;
  collector.samples.resize(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    // Twice as many of the floor: there is one near every other repetition.
    const int repetitions = (options.quick ? 8 : 48) *
        (member.role == Role::kFloor ? 2 : 1) / (member.slow ? 4 : 1);
    // What it throws ends the run: not SkipWithError(), after which Google
    // Benchmark 1.7.1 may abort because repetitions differ in iterations.
    benchmark::RegisterBenchmark(
        member.name.c_str(),
        [&group, &member, i](benchmark::State& state) {
          require_right(group, member, "after", [&] {
            return repetition(state, member, i);
          });
        })
        ->Repetitions(repetitions)
        ->MinTime(0.002)
        ->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks(&collector, ".");
  benchmark::ClearRegisteredBenchmarks();

  const auto floor =
      std::find_if(members.begin(), members.end(), [](const Member& member) {
        return member.role == Role::kFloor;
      });
  std::vector<Result> results;
  for (size_t i = 0; i < members.size(); ++i) {
    results.push_back(summary(
        members[i],
        collector.samples[i],
        collector.samples[static_cast<size_t>(floor - members.begin())]));
  }
  return results;
}

// "", or what is wrong with the arguments.
std::string parse(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&](std::string_view option, std::string& into) {
      if (!argument.starts_with(option)) {
        return false;
      }
      into = argument.substr(option.size());
      return true;
    };
    if (argument == "--help") {
      options.help = true;
    } else if (argument == "--quick") {
      options.quick = true;
    } else if (
        !value("--library=", options.library) &&
        !value("--json=", options.json) &&
        !value("--filter=", options.filter)) {
      return "there is no option " + std::string(argument);
    }
  }
  if (options.library.empty() && !options.help) {
    return "--library=FILE is required";
  }
  try {
    std::regex{options.filter};
  } catch (const std::regex_error& error) {
    return "--filter=" + options.filter + ": " + error.what();
  }
  return "";
}

} // namespace

void* library_symbol(const std::string& name) {
  void* address = handle == nullptr ? nullptr : dlsym(handle, name.c_str());
  if (address == nullptr) {
    throw std::runtime_error(options.library + " does not export " + name);
  }
  return address;
}

int run_benchmarks(
    const std::string& chapter, const Groups& groups, int argc, char** argv) {
  const std::string complaint = parse(argc, argv);
  if (!complaint.empty()) {
    std::fprintf(stderr, "%s; see --help\n", complaint.c_str());
    return 2;
  }
  if (options.help) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  handle = dlopen(options.library.c_str(), RTLD_NOW);
  if (handle == nullptr) {
    std::fprintf(stderr, "the library does not load: %s\n", dlerror());
    return 3;
  }

  char name[] = "bench";
  char interleave[] = "--benchmark_enable_random_interleaving=true";
  char* flags[] = {name, interleave, nullptr};
  int count = 2;
  benchmark::Initialize(&count, flags);
  try {
    const std::regex filter(options.filter);
    std::vector<GroupResult> results;
    for (const Group& group : groups(options.quick)) {
      if (!std::regex_search(group.name, filter)) {
        continue;
      }
      if (results.empty()) {
        print_heading(chapter);
      }
      GroupResult result{group, measure(group)};
      if (result.members.empty()) {
        std::printf("\n%s: not measured\n", group.name.c_str());
        continue;
      }
      results.push_back(std::move(result));
      print(results.back());
    }
    if (results.empty()) {
      std::fprintf(stderr, "no group matches --filter; see --help\n");
      return 2;
    }
    if (!options.json.empty()) {
      write_json(options.json, chapter, options.quick, results);
    }
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

} // namespace workbook
