// What a call by name costs: aten::narrow on four elements, by the wrapper of
// ops.h, which is a C shim and the floor; by bare slots; with the headers' from
// and to; and by call_op.h.
#include "bench/bench.h"
#include "testing/aten.h"
#include "testing/library.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

using torch::stable::Tensor;

namespace workbook {
namespace {

using Narrow = AtenTensorHandle(AtenTensorHandle);

// The functions under test borrow a handle and give a new one; so do these.
Tensor borrow(AtenTensorHandle handle) {
  AtenTensorHandle mine = nullptr;
  aoti_torch_new_tensor_handle(handle, &mine);
  return Tensor(mine);
}
AtenTensorHandle lend(const Tensor& tensor) {
  AtenTensorHandle theirs = nullptr;
  aoti_torch_new_tensor_handle(tensor.get(), &theirs);
  return theirs;
}

AtenTensorHandle by_wrapper(AtenTensorHandle input) {
  Tensor x = borrow(input);
  return lend(torch::stable::narrow(x, 0, 1, 2));
}
AtenTensorHandle by_slots(AtenTensorHandle input) {
  const Tensor x = borrow(input);
  AtenTensorHandle self = nullptr;
  aoti_torch_new_tensor_handle(x.get(), &self);
  StableIValue stack[] = {reinterpret_cast<StableIValue>(self), 0, 1, 2};
  torch_call_dispatcher("aten::narrow", "", stack, TORCH_ABI_VERSION);
  return lend(Tensor(reinterpret_cast<AtenTensorHandle>(stack[0])));
}
AtenTensorHandle by_from_and_to(AtenTensorHandle input) {
  namespace detail = torch::stable::detail;
  StableIValue stack[] = {
      detail::from(borrow(input)),
      detail::from(int64_t{0}),
      detail::from(int64_t{1}),
      detail::from(int64_t{2})};
  torch_call_dispatcher("aten::narrow", "", stack, TORCH_ABI_VERSION);
  return lend(detail::to<Tensor>(stack[0]));
}

struct Buffers {
  Tensor input = tensor<float>({1, 6, -10, 0}, {4});
  AtenTensorHandle out = nullptr;

  void clear() {
    if (out != nullptr) {
      aoti_torch_delete_tensor_object(out);
      out = nullptr;
    }
  }
  std::string check() {
    if (out == nullptr) {
      return "there is no result";
    }
    return values<float>(borrow(out)) == std::vector<float>{6, -10}
        ? ""
        : "narrow of 1, 6, -10, 0 from 1 to 3 is wrong";
  }
  ~Buffers() {
    clear();
  }
};

struct Way {
  const char* name;
  Role role;
  Narrow* narrow;
};
std::vector<Way> ways(Narrow* by_call_op) {
  return {
      {"ops.h, a C shim", Role::kFloor, &by_wrapper},
      {"bare slots", Role::kPeer, &by_slots},
      {"from and to", Role::kPeer, &by_from_and_to},
      {"solution", Role::kSubject, by_call_op}};
}

std::vector<Member> members() {
  const auto it = std::make_shared<Buffers>();
  std::vector<Member> result;
  for (const Way& way : ways(function<Narrow>("wb05_narrow"))) {
    result.push_back(
        {way.name,
         way.role,
         [it, way] {
           it->clear();
           it->out = way.narrow(it->input.get());
         },
         [it] { it->clear(); },
         [it] { return it->check(); }});
  }
  return result;
}

// --- instructions ------------------------------------------------------------

constexpr int kCounted = 1000; // calls
std::string library;           // --library

} // namespace
} // namespace workbook

extern "C" __attribute__((noinline)) void wb05_counted(
    workbook::Narrow* narrow, AtenTensorHandle input) {
  for (int i = 0; i < workbook::kCounted; ++i) {
    aoti_torch_delete_tensor_object(narrow(input));
  }
}

namespace workbook {
namespace {

// What callgrind runs: two parts of its output for each way.
int run_counted() {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW);
  if (loaded == nullptr) {
    return 3;
  }
  const Tensor input = tensor<float>({1, 6, -10, 0}, {4});
  auto* const by_call_op =
      reinterpret_cast<Narrow*>(dlsym(loaded, "wb05_narrow"));
  for (const Way& way : ways(by_call_op)) {
    wb05_counted(way.narrow, input.get()); // the first is not like the others
    wb05_counted(way.narrow, input.get());
  }
  return 0;
}

// Sums what the calls of each function cost, by the beginning of its name:
// "cfn=(7) f(int)", later "cfn=(7)", and two lines on "16 812", the callee's.
Instructions read_part(const std::string& file) {
  std::map<std::string, std::string> names;
  std::map<std::string, double> costs;
  std::string callee;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const size_t open = line.find("fn=(");
    if (open <= 1) {
      const size_t close = line.find(')', open);
      const std::string number = line.substr(open, close - open);
      if (close + 2 < line.size()) {
        names[number] = line.substr(close + 2);
      }
      callee = open == 1 ? names[number] : "";
    } else if (line.rfind("calls=", 0) == 0 && std::getline(stream, line)) {
      costs[callee] +=
          std::strtod(line.c_str() + line.find(' '), nullptr) / kCounted;
    }
  }
  const auto cost = [&](const char* begin) {
    double sum = 0;
    for (const auto& [name, instructions] : costs) {
      sum += name.rfind(begin, 0) == 0 && name.back() != '\'' &&
              name.find("'2") == std::string::npos
          ? instructions
          : 0;
    }
    return sum;
  };
  const double shim = cost("aoti_torch_aten_narrow");
  const double op = shim > 0 ? cost("at::_ops::narrow::call")
                             : cost("c10::Dispatcher::callBoxed");
  const double look_up = cost("c10::Dispatcher::findSchemaOrThrow");
  const double convert = cost("to_ivalue") + cost("from_ivalue");
  const double inside = shim + cost("torch_call_dispatcher");
  return {
      {"the op", op},
      {"look-up by name", look_up},
      {"slots and IValues", convert},
      {"rest of the call", inside - op - look_up - convert},
      {"extension, handles", cost("wb05_counted") - inside}};
}

std::vector<Instructions> count() {
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
        "--toggle-collect=wb05_counted",
        "--dump-after=wb05_counted",
        to_out.c_str(),
        self.c_str(),
        from.c_str(),
        "--count",
        nullptr);
    _exit(127); // no valgrind
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::vector<Instructions> result;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    for (size_t i = 1; i <= ways(nullptr).size(); ++i) {
      result.push_back(read_part(out + "." + std::to_string(2 * i)));
    }
  } else {
    std::printf("\nvalgrind is not installed, or could not run this program");
  }
  fs::remove_all(folder);
  return result;
}

std::vector<Group> groups(bool quick) {
  std::vector<Group> result;
  const auto group = [](const char* name) {
    return Group{
        name,
        "float",
        "narrow of 4 elements",
        "warm",
        0,
        1,
        [] { return members(); },
        {}};
  };
  if (!quick) { // it takes ten seconds
    result.push_back(group("instructions/call"));
    result.back().count = [] { return count(); };
  }
  result.push_back(group("time/call"));
  return result;
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  bool counting = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--library=", 0) == 0) {
      workbook::library = argument.substr(std::string("--library=").size());
    }
    counting = counting || argument == "--count";
  }
  if (counting) {
    return workbook::run_counted();
  }
  return workbook::run_benchmarks(
      "05_torch_call_dispatcher", workbook::groups, argc, argv);
}
