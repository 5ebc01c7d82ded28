// What was measured on what, for people and for the documentation's scripts.
// Nothing here names the machine, its user or a path.
#include "report.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace workbook {
namespace {

struct Hardware {
  std::string cpu;
  size_t cores; // without simultaneous multithreading
  size_t threads;
  double memory_gib;
  std::string isa; // the widest vectors
};

// What stands after the separator and blanks on a line "key : value".
bool value_of(const std::string& line, const char* key, std::string& value) {
  const size_t separator = line.find_first_of(":=");
  if (line.rfind(key, 0) != 0 || separator == std::string::npos) {
    return false;
  }
  const size_t begin = line.find_first_not_of(" \t\"", separator + 1);
  const size_t end = line.find_last_not_of(" \t\"");
  value = begin == std::string::npos ? "" : line.substr(begin, end + 1 - begin);
  return true;
}

std::string isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return "avx512";
  }
  return __builtin_cpu_supports("avx2") ? "avx2" : "sse2";
#elif defined(__aarch64__)
  return "neon";
#else
  return "scalar";
#endif
}

Hardware hardware() {
  Hardware result{};
  result.threads = std::max(1u, std::thread::hardware_concurrency());
  result.memory_gib = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
      static_cast<double>(sysconf(_SC_PAGESIZE)) / 0x1p30;
  result.isa = isa();
  std::set<std::pair<std::string, std::string>> cores; // socket and core
  std::string socket, core;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    value_of(line, "model name", result.cpu);
    value_of(line, "physical id", socket);
    if (value_of(line, "core id", core)) {
      cores.emplace(socket, core);
    }
  }
  result.cores = cores.empty() ? result.threads : cores.size();
  if (result.cpu.empty()) { // Arm's has no such line
    utsname name{};
    uname(&name);
    result.cpu = name.machine;
  }
  return result;
}

std::string os() {
  std::ifstream file("/etc/os-release");
  std::string name = "Linux";
  for (std::string line; std::getline(file, line);) {
    value_of(line, "PRETTY_NAME", name);
  }
  return name;
}

std::string compiler() {
#if defined(__clang__)
  return "clang++ " + std::to_string(__clang_major__) + "." +
      std::to_string(__clang_minor__) + "." +
      std::to_string(__clang_patchlevel__);
#else
  return "g++ " + std::to_string(__GNUC__) + "." +
      std::to_string(__GNUC_MINOR__) + "." +
      std::to_string(__GNUC_PATCHLEVEL__);
#endif
}

// A version is a byte each for major, minor and patch, then the ABI's tag.
std::string version(uint64_t packed, bool patch) {
  std::string text =
      std::to_string(packed >> 56) + "." + std::to_string(packed >> 48 & 0xff);
  return patch ? text + "." + std::to_string(packed >> 40 & 0xff) : text;
}

std::string today() {
  const std::time_t time = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&time));
  return text;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + '"';
}

const char* name_of(Role role) {
  switch (role) {
    case Role::kFloor:
      return "floor";
    case Role::kSubject:
      return "subject";
    default:
      return "peer";
  }
}

void write(std::ostream& out, const GroupResult& result) {
  const Group& group = result.group;
  out << "    {\"name\": " << quoted(group.name)
      << ", \"dtype\": " << quoted(group.dtype)
      << ", \"shape\": " << quoted(group.shape)
      << ", \"cache\": " << quoted(group.cache)
      << ", \"bytes\": " << group.bytes << ", \"threads\": " << group.threads
      << ",\n     \"floor_gb_per_s\": "
      << result.gb_per_s(result.floor().seconds) << ", \"members\": [";
  const char* separator = "\n";
  for (const Result& member : result.members) {
    out << separator << "      {\"name\": " << quoted(member.name)
        << ", \"role\": " << quoted(name_of(member.role))
        << ", \"ratio\": " << member.ratio << ", \"low\": " << member.low
        << ", \"high\": " << member.high
        << ", \"repetitions\": " << member.repetitions
        << ", \"seconds\": " << member.seconds;
    const char* comma = ", \"instructions\": {";
    for (const auto& [place, count] : member.instructions) {
      out << comma << quoted(place) << ": " << count;
      comma = ", ";
    }
    out << (member.instructions.empty() ? "}" : "}}");
    separator = ",\n";
  }
  out << "]}";
}

} // namespace

const Result& GroupResult::floor() const {
  return *std::find_if(
      members.begin(), members.end(), [](const Result& member) {
        return member.role == Role::kFloor;
      });
}

void print_heading(const std::string& chapter) {
  const Hardware machine = hardware();
  std::printf(
      "%s, %s, libtorch %s\n%s, %zu cores, %s\n"
      "Time over the floor's: the median of the repetitions and the "
      "quartiles.\n",
      chapter.c_str(),
      today().c_str(),
      version(aoti_torch_abi_version(), true).c_str(),
      machine.cpu.c_str(),
      machine.cores,
      machine.isa.c_str());
#ifndef __OPTIMIZE__
  std::printf(
      "NOT OPTIMISED: the floor and the peers are slower than they are "
      "in a release\nbuild.\n");
#endif
}

void print(const GroupResult& result) {
  const Group& group = result.group;
  std::printf(
      "\n%s: %s %s, %s cache, %d thread%s",
      group.name.c_str(),
      group.dtype.c_str(),
      group.shape.c_str(),
      group.cache.c_str(),
      group.threads,
      group.threads == 1 ? "" : "s");
  if (group.bytes != 0) {
    std::printf(
        ", %.3g MB\nfloor: the same bytes moved, %.1f GB/s",
        static_cast<double>(group.bytes) / 1e6,
        result.gb_per_s(result.floor().seconds));
  }
  std::printf(
      "\n  %-32s%8s%18s%9s%9s\n", "", "ratio", "quartiles", "GB/s", "repeats");
  for (const Result& member : result.members) {
    const double rate = result.gb_per_s(member.seconds);
    std::printf(
        "  %-24s%-8s%8.2f%9.2f%9.2f",
        member.name.c_str(),
        name_of(member.role),
        member.ratio,
        member.low,
        member.high);
    if (rate == 0) {
      std::printf("%9s", "-");
    } else {
      std::printf("%9.1f", rate);
    }
    std::printf("%9zu\n", member.repetitions);
    const char* before = "    instructions: ";
    for (const auto& [place, count] : member.instructions) {
      std::printf("%s%s %.0f", before, place.c_str(), count);
      before = ", ";
    }
    if (!member.instructions.empty()) {
      std::printf("\n");
    }
  }
  std::fflush(stdout); // the next group takes seconds
}

void write_json(
    const std::string& file,
    const std::string& chapter,
    bool quick,
    const std::vector<GroupResult>& results) {
  const Hardware machine = hardware();
  std::ostringstream out;
  out << "{\n  \"schema\": 1,\n  \"chapter\": " << quoted(chapter)
      << ",\n  \"date\": " << quoted(today())
      << ",\n  \"quick\": " << (quick ? "true" : "false")
      << ",\n  \"hardware\": {\"cpu\": " << quoted(machine.cpu)
      << ", \"cores\": " << machine.cores
      << ", \"threads\": " << machine.threads
      << ", \"memory_gib\": " << std::round(machine.memory_gib * 10) / 10
      << ", \"isa\": " << quoted(machine.isa)
      << "},\n  \"software\": {\"compiler\": " << quoted(compiler())
      << ", \"libtorch\": " << quoted(version(aoti_torch_abi_version(), true))
      << ", \"headers\": " << quoted(version(TORCH_ABI_VERSION, false))
      << ", \"target\": " << quoted(version(TORCH_TARGET_VERSION, false))
      << ", \"os\": " << quoted(os()) << "},\n  \"groups\": [";
  const char* separator = "\n";
  for (const GroupResult& result : results) {
    out << separator;
    write(out, result);
    separator = ",\n";
  }
  out << "\n  ]\n}\n";

  const std::string temporary = file + ".tmp";
  std::ofstream stream(temporary);
  stream << out.str();
  stream.close();
  if (!stream || std::rename(temporary.c_str(), file.c_str()) != 0) {
    std::remove(temporary.c_str());
    throw std::runtime_error("cannot write " + file);
  }
}

} // namespace workbook
