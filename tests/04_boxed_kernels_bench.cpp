// What a call costs before any element is computed: a no-op that is registered
// unboxed with TORCH_LIBRARY, boxed by hand, and boxed by TORCH_BOX. In time,
// and in instructions, which are the same in every run (callgrind, if there is
// one).
#include "bench/bench.h"

#include "04_boxed_kernels/checks.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

// tests/04_unboxed.cpp
extern "C" const void* wb04_find(const char* name, const char* overload);
extern "C" void wb04_call(const void* op, int64_t times, bool inference);

using torch::stable::Tensor;

// --- the ops -----------------------------------------------------------------

namespace {

void on_handles(StableIValue* stack, uint64_t, uint64_t) {
  using torch::stable::detail::to;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_delete_tensor_object(to<AtenTensorHandle>(stack[0])));
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_delete_tensor_object(to<AtenTensorHandle>(stack[1])));
}
void on_tensors(StableIValue* stack, uint64_t, uint64_t) {
  const auto out = torch::stable::detail::to<Tensor>(stack[0]);
  const auto input = torch::stable::detail::to<Tensor>(stack[1]);
}
void on_tensors_checked(StableIValue* stack, uint64_t, uint64_t) {
  const auto out = torch::stable::detail::to<Tensor>(stack[0]);
  const auto input = torch::stable::detail::to<Tensor>(stack[1]);
  check_out(out, input);
}
void no_op(const Tensor&, const Tensor&) {}

} // namespace

STABLE_TORCH_LIBRARY(wb04_bench, m) {
  m.def("on_handles(Tensor! out, Tensor input) -> ()");
  m.def("on_tensors(Tensor! out, Tensor input) -> ()");
  m.def("on_tensors_checked(Tensor! out, Tensor input) -> ()");
  m.def("torch_box(Tensor! out, Tensor input) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(wb04_bench, CPU, m) {
  m.impl("on_handles", &on_handles);
  m.impl("on_tensors", &on_tensors);
  m.impl("on_tensors_checked", &on_tensors_checked);
  m.impl("torch_box", TORCH_BOX(&no_op));
}

namespace workbook {
namespace {

struct Op {
  const char* member;
  Role role;
  const char* name;
  const char* overload;
};
constexpr Op kOps[] = {
    {"TORCH_LIBRARY", Role::kFloor, "wb04_unboxed::no_op", ""},
    {"by hand, handles", Role::kPeer, "wb04_bench::on_handles", ""},
    {"by hand, Tensor", Role::kPeer, "wb04_bench::on_tensors", ""},
    {"the same, checked", Role::kPeer, "wb04_bench::on_tensors_checked", ""},
    {"TORCH_BOX", Role::kPeer, "wb04_bench::torch_box", ""},
    {"solution", Role::kSubject, "wb04::silu_and_mul", "out"}, // of no rows
};

std::vector<Member> members(bool inference) {
  std::vector<Member> result;
  for (const Op& op : kOps) {
    const void* found = wb04_find(op.name, op.overload);
    result.push_back(
        {op.member,
         op.role,
         [=] { wb04_call(found, 100, inference); },
         [] {},
         [] { return std::string(); }});
  }
  return result;
}

// --- instructions ------------------------------------------------------------

constexpr int64_t kCounted = 1000; // calls
std::string library;               // --library

// What callgrind runs: a part of its output for each op.
int run_counted(bool inference) {
  if (dlopen(library.c_str(), RTLD_NOW) == nullptr) {
    return 3;
  }
  for (const Op& op : kOps) {
    const void* found = wb04_find(op.name, op.overload);
    wb04_call(found, kCounted, inference); // the first is not like the others
    wb04_call(found, kCounted, inference);
  }
  return 0;
}

std::string place_of(const std::string& object) {
  const auto has = [&](const char* part) {
    return object.find(part) != std::string::npos;
  };
  return has("libc.so") || has("libstdc++")                 ? "malloc and free"
      : has("04_unboxed")                                   ? "caller"
      : has("libtorch") || has("libc10") || has("ld-linux") ? "libtorch"
                                                            : "extension";
}

// Sums the costs of a part by object: "ob=(3) /lib/libc.so.6", later "ob=(3)";
// "calls=" is followed by the cost of the callee, which counts where it is.
Instructions read_part(const std::string& file) {
  Instructions result;
  std::map<std::string, std::string> objects;
  std::string object;
  std::ifstream stream(file);
  bool callee = false;
  for (std::string line; std::getline(stream, line);) {
    const size_t equals = line.find("ob=(");
    if (equals == 0 || (equals == 1 && line[0] == 'c')) {
      const size_t end = line.find(')');
      const std::string number = line.substr(equals + 3, end - equals - 2);
      if (end + 2 < line.size()) {
        objects[number] = line.substr(end + 2);
      }
      if (equals == 0) {
        object = objects[number];
      }
    } else if (line.rfind("calls=", 0) == 0) {
      callee = true;
    } else if (!line.empty() && std::strchr("0123456789+-*", line[0])) {
      if (!callee) {
        result[place_of(object)] +=
            std::strtod(line.c_str() + line.find(' '), nullptr) / kCounted;
      }
      callee = false;
    }
  }
  return result;
}

std::vector<Instructions> count(bool inference) {
  namespace fs = std::filesystem;
  char folder[] = "/tmp/callgrind.XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    return {};
  }
  const std::string out = std::string(folder) + "/part";
  const std::string self = fs::read_symlink("/proc/self/exe");
  const std::string to_out = "--callgrind-out-file=" + out;
  const std::string from = "--library=" + library;
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execlp(
        "valgrind",
        "valgrind",
        "--tool=callgrind",
        "--toggle-collect=wb04_counted",
        "--dump-after=wb04_counted",
        to_out.c_str(),
        self.c_str(),
        from.c_str(),
        inference ? "--count=inference" : "--count",
        nullptr);
    _exit(127); // no valgrind
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::vector<Instructions> result;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    for (size_t i = 1; i <= std::size(kOps); ++i) {
      result.push_back(read_part(out + "." + std::to_string(2 * i)));
    }
  } else {
    std::printf("\nvalgrind is not installed, or could not run this program");
  }
  fs::remove_all(folder);
  return result;
}

Group group(const std::string& what, bool inference) {
  return {
      what + (inference ? "/inference mode" : "/call"),
      "float",
      inference ? "2 tensors, inference mode" : "2 tensors",
      "warm",
      0,
      1,
      [=] { return members(inference); },
      {}};
}

std::vector<Group> groups(bool quick) {
  std::vector<Group> result;
  for (const bool inference : {true, false}) {
    if (!quick) { // it takes half a minute
      result.push_back(group("instructions", inference));
      result.back().count = [=] { return count(inference); };
    }
    result.push_back(group("time", inference));
  }
  return result;
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  std::string counting;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--library=", 0) == 0) {
      workbook::library = argument.substr(std::strlen("--library="));
    } else if (argument.rfind("--count", 0) == 0) {
      counting = argument;
    }
  }
  if (!counting.empty()) {
    return workbook::run_counted(counting != "--count");
  }
  return workbook::run_benchmarks(
      "04_boxed_kernels", workbook::groups, argc, argv);
}
