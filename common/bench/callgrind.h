// Instructions instead of time: the same in every run. A program is run once
// more, under callgrind, and reads the profiles that this wrote.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace workbook {

// The members of a group whose run() calls `function` once, under callgrind.
class Callgrind {
 public:
  Callgrind(std::string function, std::string group)
      : function_(std::move(function)), group_(std::move(group)) {}

  // The profile of one call of the member at `index`; "" without valgrind. All
  // are made at the first use, in one process, in which member after member
  // runs twice, since the first call is not like the others.
  template <typename F>
  std::string profile(size_t index, const F& run) {
    if (std::getenv(kWatched) != nullptr) { // this is that process
      run();
      run();
      return "";
    }
    if (!made_) {
      make();
    }
    const size_t second = 2 * index + 1;
    return second < profiles_.size() ? profiles_[second] : "";
  }

 private:
  static constexpr char kWatched[] = "WORKBOOK_WATCHED_BY_CALLGRIND";

  void make() {
    namespace fs = std::filesystem;
    made_ = true;
    std::string folder = fs::temp_directory_path() / "callgrind.XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) {
      return;
    }
    const std::string profile = folder + "/profile";
    std::string command = std::string(kWatched) +
        "=1 valgrind --tool=callgrind --toggle-collect=" + function_ +
        " --dump-after=" + function_ + " --callgrind-out-file=" + profile;
    std::ifstream arguments("/proc/self/cmdline");
    for (std::string argument; std::getline(arguments, argument, '\0');) {
      command += " '" + argument + "'";
    }
    // Google Benchmark heeds the last of its options.
    command += " '--benchmark_filter=^" + group_ +
        "/' --benchmark_enable_random_interleaving=false --benchmark_out=";
    if (std::system((command + " >/dev/null 2>&1").c_str()) == 0) {
      const auto next = [&] {
        return profile + "." + std::to_string(profiles_.size() + 1);
      };
      while (fs::exists(next())) {
        std::ifstream file(next());
        profiles_.emplace_back(
            std::istreambuf_iterator<char>(file),
            std::istreambuf_iterator<char>());
      }
    }
    fs::remove_all(folder);
  }

  std::string function_, group_;
  bool made_ = false;
  std::vector<std::string> profiles_;
};

} // namespace workbook
