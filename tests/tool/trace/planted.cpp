// Random right calls and kernels, with one fault planted among them:
//   planted SEED COUNT
// For each of COUNT faults, and for each kind in turn, a child process writes
// to stderr "@@ KIND|WHAT", where WHAT must stand in a line of the summary.
#include "abi/torch_stable_abi/trace/slots.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace planted {

using torch::stable::Tensor;
using workbook::slots::bits;
using workbook::slots::make;
using workbook::slots::release;
using Types = std::vector<std::string>;
using Stack = std::vector<StableIValue>;

std::mt19937_64 random_bits;
size_t below(size_t end) {
  return random_bits() % end;
}

// --- calls that work
// ------------------------------------------------------------

struct Call {
  const char* op;
  const char* overload;
  Types arguments;
  Types returns;

  std::string name() const {
    return *overload == 0 ? op : op + std::string(".") + overload;
  }
};

const Call kCalls[] = {
    {"aten::mul", "Tensor", {"Tensor", "Tensor"}, {"Tensor"}},
    {"aten::zeros_like",
     "",
     {"Tensor", "ScalarType?", "Layout?", "Device?", "bool?", "MemoryFormat?"},
     {"Tensor"}},
    {"aten::sum",
     "dim_IntList",
     {"Tensor", "int[]?", "bool", "ScalarType?"},
     {"Tensor"}},
    {"aten::cumsum", "", {"Tensor", "int", "ScalarType?"}, {"Tensor"}},
    {"aten::cat", "", {"Tensor[]", "int"}, {"Tensor"}},
    {"aten::allclose",
     "",
     {"Tensor", "Tensor", "float", "float", "bool"},
     {"bool"}},
    {"aten::max", "dim", {"Tensor", "int", "bool"}, {"Tensor", "Tensor"}},
    {"planted::kernel",
     "",
     {"Tensor", "Tensor?", "int[]", "Tensor[]", "str", "float", "bool"},
     {"Tensor", "Tensor"}},
};

Tensor tensor() {
  const std::vector<int64_t> sizes = {2, 3};
  return torch::stable::fill_(
      torch::stable::empty(sizes, c10::ScalarType::Float), 0.5);
}

// A value that each of the ops takes.
StableIValue right(const std::string& type, const Tensor& x) {
  namespace detail = torch::stable::detail;
  if (type.back() == '?' && type != "int[]?" &&
      (type != "Tensor?" || below(2) == 0)) {
    return type == "ScalarType?" && below(2) == 0
        ? detail::from(std::make_optional(c10::ScalarType::Double))
        : 0;
  }
  if (type == "int" || type == "int[]?" || type == "int[]") {
    return type == "int" ? detail::from(int64_t{0})
        : type == "int[]"
        ? detail::from(std::vector<int64_t>{0, 1})
        : detail::from(std::make_optional(std::vector<int64_t>{0}));
  }
  return make(type, x.get());
}

Stack arguments_of(const Call& call, const Tensor& x) {
  Stack stack;
  for (const std::string& type : call.arguments) {
    stack.push_back(
        type == "Tensor[]"
            ? torch::stable::detail::from(std::vector<Tensor>{x, x})
            : right(type, x));
  }
  stack.resize(std::max(stack.size(), call.returns.size()));
  return stack;
}

void run(const Call& call, Stack& stack) {
  if (torch_call_dispatcher(
          call.op, call.overload, stack.data(), TORCH_ABI_VERSION) == 0) {
    for (size_t i = 0; i < call.returns.size(); ++i) {
      release(call.returns[i], stack[i]);
    }
  }
}

void run_right(const Tensor& x) {
  const Call& call = kCalls[below(std::size(kCalls))];
  Stack stack = arguments_of(call, x);
  run(call, stack);
}

// --- a kernel, with the fault of the next call
// -------------------------------------

std::string fault;
size_t faulty = 0; // its slot

void kernel(StableIValue* stack, uint64_t, uint64_t) {
  const std::string now = std::exchange(fault, "");
  const Types& types = std::end(kCalls)[-1].arguments;
  const Tensor a = tensor();
  for (size_t i = 0; i < types.size(); ++i) {
    if (now != "argument kept" || i != faulty) {
      release(types[i], stack[i]);
    }
  }
  if (now == "argument twice") {
    release("Tensor", stack[0]);
  } else if (now == "thrown") {
    throw std::runtime_error("planted");
  }
  const size_t first = now == "shifted" ? 1 : 0;
  stack[first] = make("Tensor", a.get());
  stack[first + 1] = make("Tensor", a.get());
  if (now == "unowned") {
    const Tensor b = tensor();
    release("Tensor", stack[faulty]);
    stack[faulty] = bits(b.get());
  } else if (now == "behind") {
    stack[2 + below(4)] = make("Tensor", a.get());
  } else if (now == "beyond") {
    stack[types.size() + below(2)] = 7;
  } else if (now == "null return") {
    release("Tensor", stack[faulty]);
    stack[faulty] = 0;
  }
}

// --- faults
// --------------------------------------------------------------------------

// A call and a slot of it, of one of these types.
struct Place {
  const Call* call;
  size_t slot;
  std::string what() const {
    return call->name() + ", argument " + std::to_string(slot);
  }
};

Place place(const Types& types) {
  for (;;) {
    const Call& call = kCalls[below(std::size(kCalls))];
    const size_t slot = below(call.arguments.size());
    if (std::count(types.begin(), types.end(), call.arguments[slot]) != 0) {
      return {&call, slot};
    }
  }
}

void say(const char* kind, const std::string& what) {
  const std::string text = std::string("@@ ") + kind + "|" + what + "\n";
  (void)!write(STDERR_FILENO, text.data(), text.size());
}

// A call with another value in one slot.
void plant(
    const char* kind,
    const Tensor& x,
    const Types& types,
    const std::function<StableIValue(StableIValue, const std::string&)>& by) {
  const Place at = place(types);
  say(kind, at.what());
  Stack stack = arguments_of(*at.call, x);
  const std::string& type = at.call->arguments[at.slot];
  stack[at.slot] = by(stack[at.slot], type);
  run(*at.call, stack);
}

void in_kernel(
    const char* kind, const Tensor& x, size_t slots, const char* what) {
  const Call& call = std::end(kCalls)[-1];
  fault = kind;
  faulty = below(slots);
  std::string said(what);
  if (const size_t hash = said.find('#'); hash != std::string::npos) {
    said.replace(hash, 1, std::to_string(faulty));
  }
  say(kind, said);
  Stack stack = arguments_of(call, x);
  run(call, stack);
}

const Types kHandles = {"Tensor", "Tensor[]", "int[]", "str"};
const Types kOptionals = {
    "ScalarType?",
    "Layout?",
    "Device?",
    "bool?",
    "MemoryFormat?",
    "Tensor?",
    "int[]?"};

StableIValue boxed(StableIValue value) {
  return bits(new StableIValue(value));
}

void plant_one(size_t kind, const Tensor& x) {
  const auto other = [&x](StableIValue old, const std::string& type) {
    release(type, old);
    return make(type == "Tensor" ? "str" : "Tensor", x.get());
  };
  switch (kind) {
    case 0:
      return say("none", "");
    case 1: { // all but the optional, which may have nothing to lose
      fault = "argument kept";
      constexpr size_t kSlots[] = {0, 2, 3, 4};
      faulty = kSlots[below(4)];
      say("argument kept",
          "argument " + std::to_string(faulty) +
              " of planted::kernel: never released");
      Stack stack = arguments_of(std::end(kCalls)[-1], x);
      return run(std::end(kCalls)[-1], stack);
    }
    case 2:
      return in_kernel(
          "argument twice",
          x,
          1,
          "argument 0 of planted::kernel: released by "
          "aoti_torch_delete_tensor_object");
    case 3:
      return in_kernel(
          "shifted", x, 1, "planted::kernel, return 0 (Tensor): was not wri");
    case 4:
      return in_kernel(
          "unowned", x, 2, "planted::kernel, return # (Tensor): was released");
    case 5:
      return in_kernel("behind", x, 1, "was written behind the 2 returns");
    case 6:
      return in_kernel("beyond", x, 1, "was written beyond the end of the st");
    case 7:
      return in_kernel(
          "null return", x, 2, "planted::kernel, return # (Tensor): ");
    case 8: {
      const Call& call = kCalls[below(2) * 6];
      say("return kept",
          "of " + call.name() + ", called by planted: never released");
      Stack stack = arguments_of(call, x);
      torch_call_dispatcher(
          call.op, call.overload, stack.data(), TORCH_ABI_VERSION);
      return;
    }
    case 9:
      say("handle kept",
          "new_tensor_handle, called by planted: never released");
      make("Tensor", x.get());
      return;
    case 10: {
      const char* const types[] = {"Tensor", "str", "int[]"};
      const std::string type = types[below(3)];
      say("released twice", "and released again");
      const StableIValue slot = make(type, x.get());
      release(type, slot);
      if (type == "int[]") {
        torch_delete_list(reinterpret_cast<StableListHandle>(slot));
      } else {
        release(type, slot);
      }
      return;
    }
    case 11: {
      say("used after release",
          "used by aoti_torch_new_tensor_handle, called by planted, after");
      const StableIValue slot = make("Tensor", x.get());
      release("Tensor", slot);
      make("Tensor", reinterpret_cast<AtenTensorHandle>(slot));
      return;
    }
    case 12: {
      const Place at = place({"Tensor"});
      const Tensor y = tensor();
      say("borrowed, given away",
          "given as argument " + std::to_string(at.slot) + " of " +
              at.call->name() + ", and released again");
      Stack stack = arguments_of(*at.call, x);
      release("Tensor", stack[at.slot]);
      stack[at.slot] = bits(y.get());
      return run(*at.call, stack);
    }
    case 13: {
      const Call& call = kCalls[below(2) * 5];
      say("in two slots", call.name() + ", argument 1 (Tensor): the same");
      Stack stack = arguments_of(call, x);
      release("Tensor", stack[1]);
      stack[1] = stack[0];
      return run(call, stack);
    }
    case 14:
      return plant("null handle", x, kHandles, [](auto old, auto& type) {
        release(type, old);
        return 0;
      });
    case 15:
      return plant("another's handle", x, kHandles, other);
    case 16:
      return plant("handle, not optional", x, kOptionals, other);
    case 17:
      return plant(
          "number, not optional", x, kOptionals, [](auto old, auto& t) {
            release(t, old);
            return 1 + below(40);
          });
    case 18:
      return plant(
          "bool", x, {"bool"}, [](auto, auto&) { return 2 + below(1000); });
    case 19:
      return plant(
          "code",
          x,
          {"ScalarType?", "Layout?", "Device?", "MemoryFormat?"},
          [](auto old, auto& type) {
            release(type, old);
            return boxed((uint64_t{100} + below(1000)) << 32 | 99);
          });
    case 20: {
      StableIValue local = 0;
      return plant("on the stack", x, kOptionals, [&](auto old, auto& type) {
        release(type, old);
        return bits(&local);
      });
    }
    case 21:
      return plant("garbage", x, kHandles, [](auto old, auto& type) {
        release(type, old);
        return random_bits() | 1;
      });
    case 22:
      return plant(
          "handle, not value", x, {"int", "float", "bool"}, [&x](auto, auto&) {
            return bits(x.get());
          });
    case 23: {
      const std::string op = "no_such_op_" + std::to_string(below(100));
      say("no such op", "aten::" + op + ": this libtorch has no such op");
      Stack stack = {make("Tensor", x.get())};
      torch_call_dispatcher(
          ("aten::" + op).c_str(), "", stack.data(), TORCH_ABI_VERSION);
      return release("Tensor", stack[0]);
    }
    case 24: {
      const Call& call = kCalls[below(2) * 6 + 1];
      say("short stack", call.name() + ", argument ");
      Stack stack = arguments_of(call, x);
      stack.resize(3);
      stack.shrink_to_fit();
      torch_call_dispatcher(
          call.op, call.overload, stack.data(), TORCH_ABI_VERSION);
      return;
    }
    case 25:
      return plant("dead handle", x, {"Tensor", "str"}, [](auto old, auto& t) {
        release(t, old);
        return old;
      });
    case 26:
      return in_kernel("thrown", x, 1, ""); // no fault: all was released before
    case 27:
      return plant("float for double", x, {"float"}, [](auto, auto&) {
        const float value = 0.001F * static_cast<float>(1 + below(100000));
        return torch::stable::detail::from(value);
      });
    case 28:
      return plant("int for float", x, {"float"}, [](auto, auto&) {
        return torch::stable::detail::from(
            static_cast<int64_t>(1 + below(999)));
      });
    default:
      return plant("float for int", x, {"int"}, [](auto, auto&) {
        return torch::stable::detail::from(
            0.25 + static_cast<double>(below(9)));
      });
  }
}

constexpr size_t kKinds = 30;

} // namespace planted

STABLE_TORCH_LIBRARY(planted, m) {
  m.def(
      "kernel(Tensor a, Tensor? b, int[] c, Tensor[] d, str e, float f, bool "
      "g) -> (Tensor, Tensor)");
}
STABLE_TORCH_LIBRARY_IMPL(planted, CPU, m) {
  m.impl("kernel", &planted::kernel);
}

int main(int, char** words) {
  using namespace planted;
  const size_t seed = std::strtoul(words[1], nullptr, 10);
  const size_t count = std::strtoul(words[2], nullptr, 10);
  for (size_t i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      // libtorch may read without an end after a fault.
      const rlimit seconds{20, 20};
      setrlimit(RLIMIT_CPU, &seconds);
      random_bits.seed(seed * 1000003 + i);
      {
        const Tensor x = tensor();
        const size_t where = below(8);
        for (size_t act = 0; act < 8; ++act) {
          act == where ? plant_one(i % kKinds, x) : run_right(x);
        }
      }
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::fprintf(stderr, "@@@ %d\n", status);
  }
}
