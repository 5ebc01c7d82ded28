// Ops whose ports need a second look: docs/port_python.md.
#include "../../../solutions/04_boxed_kernels/core/by_name.h"

#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <optional>
#include <string_view>

namespace special {
namespace {

using torch::headeronly::MemoryFormat;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

//! [positive]
// The positive elements of x: how many there are is known only when it has run.
Tensor positive(const Tensor& x) {
  STD_TORCH_CHECK(
      x.dim() == 1 && x.is_contiguous(), "positive: x must be contiguous [n]");
  const auto* in = x.const_data_ptr<float>();
  Tensor out = torch::stable::new_empty(x, {x.numel()});
  auto* to = out.mutable_data_ptr<float>();
  int64_t count = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (in[i] > 0) {
      to[count++] = in[i];
    }
  }
  return torch::stable::clone(torch::stable::narrow(out, 0, 0, count));
}
//! [positive]

//! [first]
Tensor first(const Tensor& x, int64_t n) {
  Tensor source = x; // narrow takes a Tensor&; this copies the handle, no data
  return torch::stable::clone(torch::stable::narrow(source, 0, 0, n));
}
//! [first]

//! [mul_out]
constexpr wb::OpDecl<Tensor(Tensor, Tensor)> mul{"aten::mul", "Tensor"};

void mul_out(const Tensor& x, const Tensor& y, Tensor out) {
  torch::stable::copy_(out, wb::call<mul>(x, y));
}
//! [mul_out]

// Write through a pointer, of which the version counter learns nothing.
void double_(Tensor x) {
  STD_TORCH_CHECK(x.is_contiguous(), "double_: x must be contiguous");
  auto* at = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    at[i] *= 2;
  }
}

// Returns out. Its schema is in special.py, with the tag.
Tensor triple_out(const Tensor& x, Tensor out) {
  STD_TORCH_CHECK(
      x.is_contiguous() && out.is_contiguous() && x.numel() == out.numel(),
      "triple: x and out must be contiguous and of one size");
  const auto* from = x.const_data_ptr<float>();
  auto* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    to[i] = 3 * from[i];
  }
  return out;
}

// Writes to out, if there is one: of its two schemas one says so.
void maybe_fill(const Tensor& /*x*/, std::optional<Tensor> out) {
  if (out) {
    torch::stable::fill_(*out, 7);
  }
}

//! [rounded]
constexpr wb::OpDecl<Tensor(Tensor)> floor{"aten::floor", ""};
constexpr wb::OpDecl<Tensor(Tensor)> ceil{"aten::ceil", ""};

Tensor rounded(const Tensor& x, std::string_view mode) {
  STD_TORCH_CHECK(
      mode == "floor" || mode == "ceil",
      "rounded: mode must be \"floor\" or \"ceil\", got \"",
      mode,
      '"');
  return mode == "floor" ? wb::call<floor>(x) : wb::call<ceil>(x);
}
//! [rounded]

//! [channels_last]
// What at::Tensor::is_contiguous(at::MemoryFormat::ChannelsLast) says.
bool is_channels_last(const Tensor& x) {
  if (x.dim() != 4) {
    return false;
  }
  int64_t expected = 1;
  for (const int64_t dim : {1, 3, 2, 0}) { // C, W, H, N
    if (x.size(dim) != 1 && x.stride(dim) != expected) {
      return false;
    }
    expected *= x.size(dim);
  }
  return true;
}

Tensor to_channels_last(const Tensor& x) {
  return torch::stable::contiguous(x, MemoryFormat::ChannelsLast);
}

Tensor empty_channels_last(const Tensor& x) {
  return torch::stable::empty(
      x.sizes(),
      x.scalar_type(),
      std::nullopt, // layout
      x.device(),
      std::nullopt, // pin_memory
      MemoryFormat::ChannelsLast);
}
//! [channels_last]

//! [dequantized]
constexpr wb::OpDecl<double(Tensor)> q_scale{"aten::q_scale", ""};
constexpr wb::OpDecl<int64_t(Tensor)> q_zero_point{"aten::q_zero_point", ""};
constexpr wb::OpDecl<Tensor(Tensor)> int_repr{"aten::int_repr", ""};

Tensor dequantized(const Tensor& x) {
  const double scale = wb::call<q_scale>(x);
  const int64_t zero_point = wb::call<q_zero_point>(x);
  const Tensor stored = wb::call<int_repr>(x); // int8 for qint8
  const Tensor out = torch::stable::empty(x.sizes(), ScalarType::Float);
  const auto* from = stored.const_data_ptr<int8_t>();
  auto* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    to[i] = static_cast<float>(scale * (from[i] - zero_point));
  }
  return out;
}
//! [dequantized]

} // namespace

//! [registration]
STABLE_TORCH_LIBRARY(special, m) {
  m.def("positive(Tensor x) -> Tensor");
  m.def("first(Tensor x, SymInt n) -> Tensor");
  m.def("mul_out(Tensor x, Tensor y, Tensor(a!) out) -> ()");
  m.def("double_(Tensor(a!) x) -> ()");
  m.def("marked(Tensor x, Tensor(a!)? out) -> ()");
  m.def("forgotten(Tensor x, Tensor? out) -> ()");
  m.def("rounded(Tensor x, str mode=\"floor\") -> Tensor");
  m.def("is_channels_last(Tensor x) -> bool");
  m.def("to_channels_last(Tensor x) -> Tensor");
  m.def("empty_channels_last(Tensor x) -> Tensor");
  m.def("dequantized(Tensor x) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(special, CPU, m) {
  m.impl("positive", TORCH_BOX(&positive));
  m.impl("first", TORCH_BOX(&first));
  m.impl("mul_out", TORCH_BOX(&mul_out));
  m.impl("double_", TORCH_BOX(&double_));
  m.impl("triple.out", TORCH_BOX(&triple_out));
  m.impl("marked", TORCH_BOX(&maybe_fill));
  m.impl("forgotten", TORCH_BOX(&maybe_fill));
  m.impl("rounded", TORCH_BOX(&rounded));
  m.impl("is_channels_last", TORCH_BOX(&is_channels_last));
  m.impl("to_channels_last", TORCH_BOX(&to_channels_last));
  m.impl("empty_channels_last", TORCH_BOX(&empty_channels_last));
}

STABLE_TORCH_LIBRARY_IMPL(special, QuantizedCPU, m) {
  m.impl("dequantized", TORCH_BOX(&dequantized));
}
//! [registration]

} // namespace special
