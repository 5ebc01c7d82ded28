// What a call has to leave as it was of its caller's tensors, and whether its
// results have memory of their own.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/shim_utils.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace workbook {

// All that a tensor lies in, of which it may be a part. `begin` is null where
// there are no elements.
struct Memory {
  explicit Memory(const torch::stable::Tensor& tensor) {
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_storage_size(tensor.get(), &bytes));
    if (bytes > 0 && tensor.is_cpu()) {
      begin = static_cast<char*>(tensor.data_ptr()) -
          tensor.storage_offset() * static_cast<int64_t>(tensor.element_size());
    }
  }

  char* begin = nullptr;
  int64_t bytes = 0;
};

// Looks at an argument before a call, and again after it. While this lives the
// argument requires a gradient, which a kernel may not take from it. Of one
// that the op writes, the elements may change.
class [[gnu::visibility("hidden")]] Unchanged { // as Tensor is
 public:
  Unchanged(torch::stable::Tensor tensor, bool written)
      : tensor_(std::move(tensor)), written_(written) {
    int32_t layout = 0;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(tensor_.get(), &layout));
    strided_ = layout == aoti_torch_layout_strided();
    if (!strided_) {
      return;
    }
    using torch::headeronly::ScalarType;
    const ScalarType dtype = tensor_.scalar_type();
    asked_ = !requires_grad() &&
        (dtype == ScalarType::Float || dtype == ScalarType::Double ||
         dtype == ScalarType::Half || dtype == ScalarType::BFloat16);
    if (asked_) {
      tensor_.set_requires_grad(true);
    }
    before_ = look();
    elements_ = elements();
  }
  ~Unchanged() {
    if (asked_) {
      tensor_.set_requires_grad(false);
    }
  }
  Unchanged(const Unchanged&) = delete;
  Unchanged& operator=(const Unchanged&) = delete;

  const torch::stable::Tensor& tensor() const {
    return tensor_;
  }

  // After the call: "" or what the call has changed.
  std::string change() const {
    if (!strided_) {
      return "";
    }
    const std::vector<Property> after = look();
    for (size_t i = 0; i < after.size(); ++i) {
      if (after[i].value != before_[i].value) {
        return std::string("its ") + after[i].name + " is not what it was";
      }
    }
    return elements() == elements_ ? "" : "its elements are not what they were";
  }

 private:
  struct Property {
    const char* name;
    std::vector<int64_t> value;
  };

  static constexpr int64_t kMaxBytes = int64_t{1} << 24;

  template <class Result>
  static Result ask(const char* op, const torch::stable::Tensor& tensor) {
    StableIValue stack[] = {torch::stable::detail::from(tensor)};
    TORCH_ERROR_CODE_CHECK(
        torch_call_dispatcher(op, "", stack, TORCH_ABI_VERSION));
    return torch::stable::detail::to<Result>(stack[0]);
  }

  // The stable ABI sets it, and has no question for it. But what is made of a
  // tensor that requires a gradient is no leaf.
  bool requires_grad() const {
    using torch::stable::Tensor;
    return !ask<bool>("aten::is_leaf", ask<Tensor>("aten::alias", tensor_));
  }

  std::vector<Property> look() const {
    const Memory memory(tensor_);
    return {
        {"requires_grad", {requires_grad()}},
        {"sizes", tensor_.sizes().vec()},
        {"strides", tensor_.strides().vec()},
        {"dtype", {static_cast<int64_t>(tensor_.scalar_type())}},
        {"memory",
         {reinterpret_cast<int64_t>(memory.begin),
          memory.bytes,
          tensor_.storage_offset()}},
        {"version", {written_ ? 0 : ask<int64_t>("aten::_version", tensor_)}}};
  }

  std::vector<char> elements() const {
    const Memory memory(tensor_);
    if (written_ || memory.begin == nullptr || memory.bytes > kMaxBytes) {
      return {};
    }
    return {memory.begin, memory.begin + memory.bytes};
  }

  torch::stable::Tensor tensor_;
  bool written_;
  bool strided_ = false;
  bool asked_ = false; // for a gradient
  std::vector<Property> before_;
  std::vector<char> elements_;
};

// "" or why the memory of a result is not its own.
inline std::string not_its_own(
    const torch::stable::Tensor& result,
    const std::vector<torch::stable::Tensor>& others) {
  const Memory memory(result);
  const int64_t own =
      result.numel() * static_cast<int64_t>(result.element_size());
  if (memory.bytes != own) {
    return "the result is a part of a tensor of " +
        std::to_string(memory.bytes) + " bytes; one of its own has " +
        std::to_string(own);
  }
  for (const torch::stable::Tensor& other : others) {
    if (memory.begin != nullptr && Memory(other).begin == memory.begin) {
      return "the result shares its memory with another tensor of the call";
    }
  }
  return "";
}

} // namespace workbook
