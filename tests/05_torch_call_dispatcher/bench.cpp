// What a call by name costs: aten::narrow on four elements, by the wrapper of
// ops.h, which is a C shim and the floor; by bare slots; with the headers' from
// and to; and by call_op.h.
#include "bench/bench.h"
#include "bench/callgrind.h"
#include "testing/aten.h"
#include "testing/library.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
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
std::vector<Way> ways() {
  return {
      {"ops.h, a C shim", Role::kFloor, &by_wrapper},
      {"bare slots", Role::kPeer, &by_slots},
      {"from and to", Role::kPeer, &by_from_and_to},
      {"solution", Role::kSubject, function<Narrow>("wb05_narrow")}};
}

// --- instructions ------------------------------------------------------------

constexpr int kCounted = 1000; // calls

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

// Sums what the calls of each function cost, by the beginning of its name:
// "cfn=(7) f(int)", later "cfn=(7)", and two lines on "16 812", the callee's.
Instructions read(const std::string& profile) {
  if (profile.empty()) {
    return {};
  }
  std::map<std::string, std::string> names;
  std::map<std::string, double> costs;
  std::string callee;
  std::istringstream stream(profile);
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

Group group(bool counted) {
  const std::string name = counted ? "instructions/call" : "time/call";
  const auto callgrind = std::make_shared<Callgrind>("wb05_counted", name);
  const auto it = std::make_shared<Buffers>();
  std::vector<Member> members;
  for (const Way& way : ways()) {
    members.push_back(
        {way.name,
         way.role,
         [=] {
           it->clear();
           it->out = way.narrow(it->input.get());
         },
         [=] { it->clear(); },
         [=] { return it->check(); }});
    if (counted) {
      members.back().count = [=, index = members.size() - 1] {
        return read(callgrind->profile(
            index, [&] { wb05_counted(way.narrow, it->input.get()); }));
      };
    }
  }
  return {name, "float", "narrow of 4 elements", "warm", 0, 1, members};
}

std::vector<Group> groups(bool quick) {
  if (quick) { // counting takes ten seconds
    return {group(false)};
  }
  return {group(true), group(false)};
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  return workbook::run_benchmarks(workbook::groups, argc, argv);
}
