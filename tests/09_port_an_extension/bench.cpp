// This benchmark measures what the port costs. The floor of each group is an op
// of the library as it was. Both ops are called by name, on a few rows and on
// more, but fewer than libtorch shares among threads.
#include "bench/bench.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace workbook {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

bool is_same(const Tensor& a, const Tensor& b) {
  const auto size = a.numel() * static_cast<int64_t>(a.element_size());
  return a.sizes().equals(b.sizes()) &&
      std::memcmp(
          a.const_data_ptr(), b.const_data_ptr(), static_cast<size_t>(size)) ==
      0;
}

std::vector<StableIValue> pack(const std::vector<Tensor>& arguments) {
  std::vector<StableIValue> stack(std::max<size_t>(arguments.size(), 1));
  for (size_t i = 0; i < arguments.size(); ++i) {
    stack[i] = torch::stable::detail::from(arguments[i]);
  }
  return stack;
}

// An op with its arguments. It returns a tensor, or writes to the first one.
struct Call {
  std::string op;
  std::vector<Tensor> arguments;
  bool writes = false;
  std::optional<Tensor> result = {};

  void run() {
    std::vector<StableIValue> stack = pack(arguments);
    TORCH_ERROR_CODE_CHECK(
        torch_call_dispatcher(op.c_str(), "", stack.data(), TORCH_ABI_VERSION));
    if (!writes) {
      result = torch::stable::detail::to<Tensor>(stack[0]);
    }
  }
};

Tensor numbers(const std::vector<int64_t>& sizes) {
  Tensor all = torch::stable::empty(sizes, ScalarType::Float);
  auto* at = all.mutable_data_ptr<float>();
  for (int64_t i = 0; i < all.numel(); ++i) {
    at[i] = static_cast<float>(i % 100) / 64 + 1;
  }
  return all;
}

Tensor integers(int64_t n, int64_t step) {
  Tensor all = torch::stable::empty({n}, ScalarType::Long);
  auto* at = all.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    at[i] = i * step;
  }
  return all;
}

std::vector<Call> calls(int64_t rows, int64_t columns) {
  const Tensor x = numbers({rows, columns});
  return {
      {"scale_rows_",
       {numbers({rows, columns}), torch::stable::full({rows}, 1)},
       true},
      {"segment_sum", {x, integers(rows / 4 + 1, 4)}},
      {"center", {x}},
      {"gather_rows", {x, integers(rows / 2, 2)}},
      {"row_share", {x}},
      {"segment_lengths", {integers(rows * columns, 3)}}};
}

std::vector<Group> groups(bool quick) {
  if (*WORKBOOK_ORIGINAL == '\0' || !dlopen(WORKBOOK_ORIGINAL, RTLD_NOW)) {
    std::fputs(
        "the library as it was is not built: no headers of ATen\n", stderr);
    return {};
  }
  std::vector<Group> all;
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{8, 16}, {128, 128}}) {
    if (quick && rows > 8) {
      continue;
    }
    for (const Call& call : calls(rows, columns)) {
      const auto before = std::make_shared<Call>(call);
      const auto after = std::make_shared<Call>(call);
      before->op = "before::" + call.op;
      after->op = "rowops::" + call.op;
      const auto check = [=]() -> std::string {
        if (call.writes) { // to the same tensor, and each factor is 1
          return "";
        }
        if (!before->result) {
          before->run();
        }
        if (!after->result) {
          after->run();
        }
        return is_same(*after->result, *before->result)
            ? ""
            : "the ported op has other values";
      };
      all.push_back(
          {call.op + "/" + std::to_string(rows),
           "float",
           call.op + ", " + std::to_string(rows) + " x " +
               std::to_string(columns),
           "warm",
           0,
           1,
           {{"as it was",
             Role::kFloor,
             [=] { before->run(); },
             [=] { before->result.reset(); },
             check},
            {"ported",
             Role::kSubject,
             [=] { after->run(); },
             [=] { after->result.reset(); },
             check}}});
    }
  }
  return all;
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  return workbook::run_benchmarks(workbook::groups, argc, argv);
}
