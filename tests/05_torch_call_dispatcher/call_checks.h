// Checks of the learner's calls by name: their declarations and drawings, their
// way through the dispatcher, and their errors.
#pragma once

#include "ops.h"
#include "testing/aten.h"
#include "testing/dispatcher.h"
#include "testing/library.h"
#include "testing/watch.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace workbook::chapter_05 {

using torch::headeronly::ScalarType;

// Returns the calls by name of the library under test, a line each, such as
// "aten::mul.Tensor(Tensor, Tensor) -> Tensor".
inline std::string list_calls() {
  static std::string lines;
  lines.clear();
  function<void(void (*)(const char*))>("call_op_declared")(
      [](const char* call) { lines += std::string(call) + "\n"; });
  return lines;
}

// Returns "" unless `op` is declared with other types than its schema has,
// which libtorch would confuse, and crash. (A missing slot shows in the drawing
// of the call.)
inline std::string check_declaration(const std::string& op) {
  const auto joined = [](const std::vector<std::string>& types) {
    std::string text;
    for (const std::string& type : types) {
      text += (text.empty() ? "" : ", ") + type;
    }
    return text;
  };
  const std::string arguments = joined(kOps.at(op).arguments);
  std::istringstream lines(list_calls());
  for (std::string line; std::getline(lines, line);) {
    const std::string types =
        line.substr(line.find('(') + 1, line.find(')') - line.find('(') - 1);
    const bool as_many = std::count(types.begin(), types.end(), ',') ==
        std::count(arguments.begin(), arguments.end(), ',');
    if (line.compare(0, op.size() + 1, op + "(") == 0 && as_many &&
        types != arguments) {
      return op + " is declared with (" + types + "), its schema has (" +
          arguments + ")";
    }
  }
  return "";
}

// Returns "" if `call`, such as "aten::silu(Tensor) -> Tensor", is in the list
// of calls, else what the list has instead.
inline std::string check_listed(const std::string& call) {
  const std::string op = call.substr(0, call.find('(') + 1);
  std::istringstream lines(list_calls());
  std::string others;
  for (std::string line; std::getline(lines, line);) {
    if (line == call) {
      return "";
    }
    if (line.compare(0, op.size(), op) == 0) {
      others += "\n    " + line;
    }
  }
  return "the list of the library's calls lacks\n    " + call +
      (others.empty() ? "" : "\nit has" + others);
}

// Returns "" if the drawing has this line of a slot.
inline std::string check_drawn(
    const std::string& line, const std::string& drawing) {
  return drawing.find(line) != std::string::npos
      ? ""
      : "the stack should have: " + line + drawing;
}

// Returns the elements as text, in which all NaN are equal.
inline std::vector<std::string> texts(const Tensor& tensor) {
  std::vector<std::string> result;
  for (const float value : values<float>(tensor)) {
    std::ostringstream text;
    text << value;
    result.push_back(std::isnan(value) ? "nan" : text.str());
  }
  return result;
}

// Returns a tensor on the device meta.
inline Tensor meta_tensor(const Sizes& sizes) {
  const torch::stable::Device meta(c10::DeviceType::Meta);
  return torch::stable::empty(sizes, ScalarType::Float, std::nullopt, meta);
}
inline Tensor require_gradient(const Floats& data, const Sizes& sizes) {
  StableIValue stack[] = {
      slots::make("Tensor", tensor(data, sizes).get()),
      torch::stable::detail::from(true)};
  call_op("aten::requires_grad_", "", stack);
  return adopt(stack[0]);
}
// Returns false for a tensor of which autograd has recorded how it was
// computed.
inline bool is_leaf(Handle handle) {
  StableIValue stack[] = {slots::make("Tensor", handle)};
  call_op("aten::is_leaf", "", stack);
  return torch::stable::detail::to<bool>(stack[0]);
}

// Returns "" if `call`, of a tensor [2, 3], reaches PyTorch's ops through the
// dispatcher: for a tensor without data the result has none either, and
// autograd records the call.
template <typename Call>
std::string check_dispatched(const Call& call) {
  std::string text = thrown([&] {
    if (call(meta_tensor({2, 3})).device().type() != c10::DeviceType::Meta) {
      throw std::runtime_error("the result is on another device");
    }
  });
  if (!text.empty()) {
    return "of tensors without data, on the device meta: " + text;
  }
  const Tensor input = require_gradient({1, 5, 3, 4, 2, 6}, {2, 3});
  return is_leaf(call(input).get())
      ? "the input requires a gradient, and the result knows of none"
      : "";
}

// Returns "" if `call`, with arguments that libtorch refuses, throws.
template <typename Call>
std::string check_thrown(const Call& call) {
  const CapturedStderr quiet;
  return thrown(call).empty() ? "the call fails, and nothing is thrown" : "";
}

} // namespace workbook::chapter_05
