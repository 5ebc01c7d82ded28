// What a call costs before any element is computed: a no-op that is registered
// unboxed with TORCH_LIBRARY, boxed by hand, and boxed by TORCH_BOX. In time,
// and in instructions, which are the same in every run (callgrind, if there is
// one). Then the ops at work, whole call against ATen's whole calls.
#include "bench/bench.h"
#include "bench/callgrind.h"

#include "04_boxed_kernels/core/checks.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

// tests/04_boxed_kernels/unboxed.cpp
extern "C" const void* wb04_find(const char* name, const char* overload);
extern "C" void wb04_call(const void* op, int64_t times, bool inference);
extern "C" const void* wb04_find_backward(const char* name);
extern "C" void* wb04_work(int64_t rows, int64_t d, int8_t dtype);
extern "C" void wb04_forward(void* work, const void* op);
extern "C" void wb04_aten_forward(void* work);
extern "C" void wb04_backward(void* work, const void* op);
extern "C" void wb04_aten_backward(void* work);
extern "C" void wb04_poison(void* work);
extern "C" double wb04_forward_error(void* work);
extern "C" double wb04_backward_error(void* work);

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
  const wb::TensorInfo info(input);
  wb::check_even(info.sizes);
  wb::check_rows("out", wb::TensorInfo(out), info, info.sizes.back() / 2);
  wb::check_contiguous("out", out);
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

// --- instructions ------------------------------------------------------------

constexpr int64_t kCounted = 1000; // calls

std::string place_of(const std::string& object) {
  const auto has = [&](const char* part) {
    return object.find(part) != std::string::npos;
  };
  return has("libc.so") || has("libstdc++")                 ? "malloc and free"
      : has("04_unboxed")                                   ? "caller"
      : has("libtorch") || has("libc10") || has("ld-linux") ? "libtorch"
                                                            : "extension";
}

// Sums the costs of kCounted calls by object: "ob=(3) /lib/libc.so.6", later
// "ob=(3)"; "calls=" is followed by the cost of the callee, which counts where
// it is.
Instructions read(const std::string& profile) {
  Instructions result;
  std::map<std::string, std::string> objects;
  std::string object;
  std::istringstream stream(profile);
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

Group group(bool counted, bool inference) {
  const std::string name = std::string(counted ? "instructions" : "time") +
      (inference ? "/inference mode" : "/call");
  const auto callgrind = std::make_shared<Callgrind>("wb04_counted", name);
  std::vector<Member> members;
  for (const Op& op : kOps) {
    const void* found = wb04_find(op.name, op.overload);
    const auto call = [=](int64_t times) {
      return [=] { wb04_call(found, times, inference); };
    };
    members.push_back(
        {op.member, op.role, call(100), [] {}, [] { return std::string(); }});
    if (counted) {
      members.back().count = [=, index = members.size() - 1] {
        return read(callgrind->profile(index, call(kCounted)));
      };
    }
  }
  return {
      name,
      "float",
      inference ? "2 tensors, inference mode" : "2 tensors",
      "warm",
      0,
      1,
      members};
}

// --- at work -----------------------------------------------------------------

struct Shape {
  const char* kind;
  int64_t rows, d;
  bool parallel;
};
constexpr Shape kShapes[] = {
    {"small", 1, 4096, false},
    {"cache", 32, 1024, false},
    {"dram", 4096, 8192, true}};

struct Dtype {
  const char* name;
  c10::ScalarType number;
  int64_t size;
  double tolerance; // ATen rounds silu before it multiplies
};
constexpr Dtype kDtypes[] = {
    {"float", c10::ScalarType::Float, 4, 1e-5},
    {"half", c10::ScalarType::Half, 2, 4e-3},
    {"bfloat16", c10::ScalarType::BFloat16, 2, 3e-2}};

// ATen is the floor, that all ratios are to: the subject has to be below 1.
Group at_work(const Shape& shape, const Dtype& dtype, bool backward) {
  // Made when a member first runs: only for the groups that the filter leaves.
  const auto made = std::make_shared<void*>();
  const auto work = [=] {
    if (*made == nullptr) {
      *made = wb04_work(shape.rows, shape.d, static_cast<int8_t>(dtype.number));
    }
    return *made;
  };
  const void* const op = backward
      ? wb04_find_backward("wb04::silu_and_mul_backward")
      : wb04_find("wb04::silu_and_mul", "out");
  const auto ours = [=] {
    backward ? wb04_backward(work(), op) : wb04_forward(work(), op);
  };
  const auto aten = [=] {
    backward ? wb04_aten_backward(work()) : wb04_aten_forward(work());
  };
  const auto poison = [=] { wb04_poison(work()); };
  const auto check = [=] {
    const double error =
        backward ? wb04_backward_error(work()) : wb04_forward_error(work());
    return error <= dtype.tolerance
        ? std::string()
        : "a relative error of " + std::to_string(error);
  };
  return {
      std::string(shape.kind) + (backward ? "/backward/" : "/forward/") +
          dtype.name,
      dtype.name,
      std::to_string(shape.rows) + " x " + std::to_string(shape.d),
      shape.parallel ? "cold" : "warm",
      (backward ? 5 : 3) * shape.rows * shape.d * dtype.size,
      shape.parallel ? static_cast<int>(torch::stable::get_num_threads()) : 1,
      {{"ATen", Role::kFloor, aten, poison, check, shape.parallel},
       {"solution", Role::kSubject, ours, poison, check, shape.parallel}}};
}

std::vector<Group> groups(bool quick) {
  std::vector<Group> result;
  for (const bool inference : {true, false}) {
    if (!quick) { // it takes half a minute
      result.push_back(group(true, inference));
    }
    result.push_back(group(false, inference));
  }
  for (const Shape& shape : kShapes) {
    for (const Dtype& dtype : kDtypes) {
      for (const bool backward : {false, true}) {
        if (!quick || (dtype.size == 2 && !shape.parallel)) {
          result.push_back(at_work(shape, dtype, backward));
        }
      }
    }
  }
  return result;
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  return workbook::run_benchmarks(workbook::groups, argc, argv);
}
