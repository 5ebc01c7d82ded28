// Prints, as JSON, what the libtorch that is running makes of every row of the
// conversion table: converts or refuses, with its reason, and what it leaks.
// Each experiment runs in a child process, so that a crash is a verdict too.
//
// The same source built as a shared library gives Python the ops wb02_rows::*.
#include "conversion_table.h"

#include <cmath>
#include <cstdio>
#include <string>

using namespace workbook::rows;

namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c < 0x20 && c >= 0 ? ' ' : c;
  }
  return result + "\"";
}

// One line, without where in libtorch it was thrown.
std::string reason(const std::string& text) {
  for (const char* start : {"Not yet supported", "unknown type specifier"}) {
    const size_t at = text.find(start);
    if (at != std::string::npos) {
      return text.substr(at, text.find_first_of("\n.", at) - at);
    }
  }
  const std::string line = text.substr(0, text.find('\n'));
  const size_t stamp = line.find("Exception in aoti_torch: "); // after a time
  return stamp == std::string::npos ? line : line.substr(stamp);
}

std::string json(const char* key, const Verdict& verdict) {
  static const char* const names[] = {"converts", "refused", "crashes"};
  std::string line = quoted(key) + ": " + quoted(names[verdict.kind]);
  if (!verdict.text.empty()) {
    line += ", " + quoted(std::string(key) + "_reason") + ": " +
        quoted(reason(verdict.text));
  }
  return line;
}

std::string version(uint64_t abi) {
  return std::to_string(abi >> 56) + "." + std::to_string(abi >> 48 & 0xff) +
      "." + std::to_string(abi >> 40 & 0xff);
}

} // namespace

int main() {
  std::printf(
      "{\"libtorch\": %s, \"headers\": %s, \"target\": %s,\n \"rows\": [\n",
      quoted(version(aoti_torch_abi_version())).c_str(),
      quoted(version(TORCH_ABI_VERSION)).c_str(),
      quoted(version(TORCH_FEATURE_VERSION)).c_str());
  const char* separator = "";
  for (const Row& row : table()) {
    const Verdict there = run(row.there_and_back, 1000);
    std::printf(
        "%s  {\"schema\": %s, \"extension\": %s, \"slot\": %s,\n   %s,\n   ",
        separator,
        quoted(row.schema).c_str(),
        quoted(row.extension).c_str(),
        quoted(row.slot).c_str(),
        json("to_libtorch", there).c_str());
    if (there.kind == Verdict::kConverts) {
      std::printf(
          "\"from_libtorch\": \"converts\", \"leaked_bytes\": %.0f}",
          std::round(there.leaked));
    } else if (row.back != nullptr) {
      std::printf("%s}", json("from_libtorch", run(row.back)).c_str());
    } else {
      std::printf("\"from_libtorch\": \"only from Python\"}");
    }
    separator = ",\n";
  }
  std::printf("],\n \"more\": [\n");
  separator = "";
  const auto more = [&](const std::string& what, const Verdict& verdict) {
    std::printf(
        "%s  {\"what\": %s, %s}",
        separator,
        quoted(what).c_str(),
        json("verdict", verdict).c_str());
    separator = ",\n";
  };
  for (const Op& op : kOps) {
    const std::string type = op.type;
    more("None of " + type + "?", run([&] { none(op); }));
    more("empty " + type + "[]", run([&] { empty_list(op); }));
  }
  more("Generator, a null handle", run([] { send("Generator", 0); }));
  more("ScalarType, an unknown code", run([] { send("ScalarType", 999); }));
  more("Layout, an unknown code", run([] { send("Layout", 999); }));
  more("MemoryFormat, an unknown code", run([] { send("MemoryFormat", 999); }));
  more("Device, an unknown type", run([] { send("Device", 99ull << 32); }));
  more("Device, index 300", run([] { send("Device", 1ull << 32 | 300); }));
  std::printf("]}\n");
}
