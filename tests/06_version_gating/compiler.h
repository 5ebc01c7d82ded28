// The compiler, run on the learner's compat.h with headers of any version:
// which targets the header refuses, and what its macros compare.
#pragma once

#include "abi/torch_stable_abi/trace/slots.h"
#include "libraries.h"
#include "testing/text.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace workbook::chapter_06 {

// Returns the compiler's first line with an error, "compat.h:17:2: error: ...".
inline std::string first_error(const std::string& text) {
  const std::string line = matched(text, "([^\n]*error: [^\n]*)");
  return line.empty() ? text : line;
}

// A new folder in the folder for temporary files, with room for torch's
// headers.
struct Folder {
  std::string path = std::filesystem::temp_directory_path() / "wb06-XXXXXX";

  Folder() {
    REQUIRE(mkdtemp(path.data()) != nullptr);
    std::filesystem::create_directories(path + "/torch/headeronly");
    std::filesystem::create_directories(path + "/torch/csrc/stable");
  }
  ~Folder() {
    std::filesystem::remove_all(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

inline std::string compat_path() {
  return cache_entry("CMAKE_HOME_DIRECTORY") + "/compat.h";
}

inline std::string quote(const std::string& word) {
  return " '" + replaced(word, "'", "'\\''") + "'";
}

// A process of the compiler. A case that needs several starts them all before
// it reads the first: the case has ten seconds, on a busy machine too.
class Compiler {
 public:
  explicit Compiler(const std::string& options) {
    const std::string command = "env -u LD_LIBRARY_PATH LC_ALL=C" +
        quote(cache_entry("CMAKE_CXX_COMPILER")) + " -std=c++17 -w -xc++ " +
        options + " 2>&1";
    pipe_.reset(popen(command.c_str(), "r"));
    REQUIRE(pipe_ != nullptr);
  }

  // Returns what the compiler prints, errors included.
  std::string text() {
    std::string text;
    std::array<char, 4096> buffer;
    while (const size_t size =
               std::fread(buffer.data(), 1, buffer.size(), pipe_.get())) {
      text.append(buffer.data(), size);
    }
    return text;
  }

 private:
  struct Close {
    void operator()(std::FILE* pipe) const {
      pclose(pipe);
    }
  };
  std::unique_ptr<std::FILE, Close> pipe_;
};

// Returns torch's version.h with the numbers of another version.
inline std::string version_header(uint64_t version) {
  std::string text = read_file(torch_include() + "headeronly/version.h");
  const auto write = [&](const char* name, uint64_t number) {
    const std::string before = std::string("#define TORCH_VERSION_") + name;
    text =
        replaced(text, "(" + before + ") \\d+", "$1 " + std::to_string(number));
  };
  write("MAJOR", version >> 56);
  write("MINOR", version >> 48 & 255);
  write("PATCH", version >> 40 & 255);
  return text;
}

// A folder with torch's two version headers and no other. The compiler stops at
// the first other header that compat.h includes, because the folder lacks it.
struct Versions : Folder {
  explicit Versions(uint64_t headers) {
    std::ofstream(path + "/torch/headeronly/version.h")
        << version_header(headers);
    std::filesystem::create_symlink(
        torch_include() + "csrc/stable/version.h",
        path + "/torch/csrc/stable/version.h");
  }
  const std::string& folder() const {
    return path;
  }
};

inline std::string target_option(uint64_t target) {
  return "-DTORCH_TARGET_VERSION=" + slots::hex(target);
}

// Returns "" if the compiler stopped at an #error, else what is wrong, or the
// TODO that compat.h still has. `target` is written as in C++, "" if undefined.
inline std::string check_refused(
    const std::string& said, const std::string& target) {
  if (said.find("#error") != std::string::npos) {
    return "";
  }
  const std::string text = read_file(compat_path());
  const std::string todo = matched(text, "// (TODO\\(06.1\\).*)");
  const bool below = text.find("#include \"") < text.find("#error");
  return !todo.empty() ? todo
      : below && text.find("#error") != std::string::npos
      ? "the guard stands below another #include, whose header is read first"
      : !matched(said, "(static.assert)").empty()
      ? "the target " + target + " is refused, but not by an #error"
      : target.empty()
      ? "that no target is defined is accepted, without an #error"
      : "the target " + target + " is accepted, without an #error";
}

// Returns "" unless the #error advises a target that is refused itself.
inline std::string check_advice(const std::string& said) {
  const std::string line = first_error(said);
  for (const std::string& number : matches(line, "0x[0-9a-fA-F]{12,16}")) {
    const uint64_t told = std::stoull(number, nullptr, 16);
    if (told < pack_version(2, 10) || told > header_version()) {
      return "for no target your #error says " + number +
          ", and whoever takes that is refused again:\n" + line;
    }
  }
  return "";
}

// Returns "" unless the learner's #error for an undefined target has the words
// of the one for a target below 2.10, as where the branch for that comes first.
inline std::string check_message(
    const std::string& none, const std::string& below) {
  const auto message = [](const std::string& said) {
    return matched(said, "error: ([^\n]*)");
  };
  return message(none) != message(below)
      ? ""
      : "who has set no target reads what a target below 2.10 gets, and wants "
        "a sentence of its own: " +
          first_error(none);
}

// Returns an #undef for each macro that `text` defines, so that the compiler
// can read the text once more.
inline std::string undefine_macros(const std::string& text) {
  std::string undefined;
  for (const std::string& name : matches(text, "# *define +(\\w+)")) {
    undefined += "#undef " + name + "\n";
  }
  return undefined;
}

// The beginning of compat.h, up to its other headers, which the compiler reads
// with one version of torch's headers and with one target after the other.
class Beginning {
 public:
  explicit Beginning(uint64_t headers) : versions_(headers) {
    const std::string all = read_file(compat_path());
    text_ = all.substr(0, all.find("#include \"")) + "\n";
  }

  // Adds a target. "" leaves it undefined and defines PyTorch's older macro,
  // which names no target.
  void add(const std::string& target) {
    source_ += undefine_macros(text_) +
        "#undef TORCH_TARGET_VERSION\n#define " +
        (target.empty() ? "TORCH_STABLE_ONLY"
                        : "TORCH_TARGET_VERSION " + target) +
        "\n#line 1 \"at " + target + "\"\n" + text_;
  }
  // Requires a value of a macro at the last target, in an #if and in C++.
  void expect(const std::string& macro, const std::string& value) {
    const std::string what = "\"" + macro + " should be " + value + "\"";
    source_ += "#if (" + macro + ") != " + value + "\n#error " + what +
        "\n#endif\nstatic_assert((" + macro + ") == " + value + ", " + what +
        ");\n";
  }

  // Starts the compiler; the functions below read what it prints.
  void compile() {
    const std::string file = versions_.path + "/beginning.h";
    std::ofstream(file) << source_;
    compiler_ = std::make_unique<Compiler>(
        "-fsyntax-only -isystem" + quote(versions_.folder()) + quote(file));
  }
  std::string check_refused(const std::string& target) {
    return chapter_06::check_refused(errors(target), target);
  }
  std::string check_accepted(const std::string& target) {
    const std::string found = errors(target);
    const std::string macro = matched(found, "\"(COMPAT_[^\"]*)\"");
    return found.empty() ? ""
        : !macro.empty()
        ? macro + ", at target " + target
        : "the target " + target + " is refused: " + first_error(found);
  }
  // Returns what the compiler printed about this target.
  std::string errors(const std::string& target) {
    if (compiler_ != nullptr) {
      said_ = compiler_->text();
      compiler_.reset();
    }
    std::string found;
    std::istringstream lines(said_);
    bool here = false; // the lines of code that follow a message too
    for (std::string line; std::getline(lines, line);) {
      here = line.rfind("at ", 0) == 0
          ? line.rfind("at " + target + ":", 0) == 0
          : here;
      found += here ? line + "\n" : "";
    }
    return found;
  }

 private:
  Versions versions_;
  std::string text_, source_, said_;
  std::unique_ptr<Compiler> compiler_;
};

} // namespace workbook::chapter_06
