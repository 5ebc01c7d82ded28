// The ops by which the boundary of the stable ABI is measured: some take
// arguments and do nothing, some cross it inside a kernel, some go around.
// unstable.cpp has the same with ATen.
#include "crossing.h"

#include "by_name.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using cost::seen_last;
using torch::headeronly::IntHeaderOnlyArrayRef;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using wb::call;
using wb::OpDecl;

// --- arguments ---------------------------------------------------------------

void tensor_by_value(Tensor) {
  seen_last = 1;
}
void tensors(const Tensor&, const std::vector<Tensor>& ys) {
  seen_last = static_cast<int64_t>(ys.size());
}
void integers(const Tensor&, const std::vector<int64_t>& ns) {
  seen_last = ns.back();
}
void string(const Tensor&, std::string_view s) {
  seen_last = static_cast<int64_t>(s.size());
}
void device(const Tensor&, torch::stable::Device d) {
  seen_last = d.index();
}
void dtype(const Tensor&, ScalarType t) {
  seen_last = static_cast<int64_t>(t);
}

//! [by_hand]
// What TORCH_BOX writes for `tensor`, without a torch::stable::Tensor.
void tensor_by_hand(StableIValue* stack, uint64_t, uint64_t) {
  const auto x = torch::stable::detail::to<AtenTensorHandle>(stack[0]);
  seen_last = 1;
  TORCH_ERROR_CODE_CHECK(aoti_torch_delete_tensor_object(x));
}
//! [by_hand]

// --- inside a kernel ---------------------------------------------------------

int64_t parallel_for(const Tensor&) {
  int64_t sum = 0;
  torch::stable::parallel_for(
      0, 4, 4, [&](int64_t begin, int64_t end) { sum += end - begin; });
  return sum;
}
Tensor empty_tensor(const Tensor&) {
  return torch::stable::empty({4, 4}, ScalarType::Long);
}
Tensor new_empty(const Tensor& x) {
  return torch::stable::new_empty(x, {4, 4});
}
Tensor empty_like(const Tensor& x) {
  return torch::stable::empty_like(x);
}
Tensor contiguous(const Tensor& x) {
  return torch::stable::contiguous(x);
}
Tensor narrow(const Tensor& x) {
  Tensor source = x;
  return torch::stable::narrow(source, 0, 1, 2);
}
Tensor select(const Tensor& x) {
  return torch::stable::select(x, 0, 1);
}
Tensor sum(const Tensor& x) {
  const int64_t first[] = {0};
  return torch::stable::sum(x, first);
}
inline constexpr OpDecl<Tensor(Tensor, Tensor)> mul{"aten::mul", "Tensor"};
Tensor by_name(const Tensor& x) {
  return call<mul>(x, x);
}
inline constexpr OpDecl<Tensor(Tensor)> neg{"aten::neg", ""};
Tensor neg_by_name(const Tensor& x) {
  return call<neg>(x);
}
inline constexpr OpDecl<Tensor(Tensor, int64_t, Tensor)> index_select{
    "aten::index_select", ""};
Tensor pick_by_name(const Tensor& x) {
  static const Tensor index = torch::stable::select(x, 0, 0);
  return call<index_select>(x, 0, index);
}
// Those of a device: of one that does nothing, see unstable.cpp.
int64_t guard(const Tensor&) {
  const torch::stable::accelerator::DeviceGuard guard(0);
  return 0;
}
int64_t stream(const Tensor&) {
  return torch::stable::accelerator::getCurrentStream(0).id();
}

// --- ways around -------------------------------------------------------------

//! [add_by_stack]
inline constexpr OpDecl<Tensor(std::vector<Tensor>, int64_t)> stack{
    "aten::stack", ""};
Tensor add_by_stack(const Tensor& a, const Tensor& b) {
  const int64_t first[] = {0};
  return torch::stable::sum(call<stack>({a, b}, 0), first);
}
//! [add_by_stack]

//! [empty_strided]
// A tensor of x's dtype and device, without a call by name.
Tensor make_contiguous(const Tensor& x, int64_t rows, int64_t columns) {
  const int64_t sizes[] = {rows, columns}, strides[] = {columns, 1};
  int32_t dtype, type, index;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(x.get(), &dtype));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(x.get(), &type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(x.get(), &index));
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_empty_strided(2, sizes, strides, dtype, type, index, &made));
  return Tensor(made);
}
//! [empty_strided]

//! [add_by_loop]
// Into `both`, a tensor of the same shape. All three are contiguous.
void add_by_loop(const Tensor& a, const Tensor& b, const Tensor& both) {
  STD_TORCH_CHECK(
      a.is_contiguous() && b.is_contiguous() && a.numel() == b.numel(),
      "a and b must be contiguous and of one shape");
  const auto* in = a.const_data_ptr<int64_t>();
  const auto* other = b.const_data_ptr<int64_t>();
  auto* out = both.mutable_data_ptr<int64_t>();
  const int64_t count = a.numel();
  for (int64_t i = 0; i < count; ++i) {
    out[i] = in[i] + other[i];
  }
}
//! [add_by_loop]

Tensor integers_by_stack(const Tensor& x) {
  return add_by_stack(x, x);
}
Tensor integers_by_loop(const Tensor& x) {
  const Tensor both = torch::stable::empty_like(x);
  add_by_loop(x, x, both);
  return both;
}
Tensor integers_by_shim(const Tensor& x) {
  const Tensor both = make_contiguous(x, x.size(0), x.size(1));
  add_by_loop(x, x, both);
  return both;
}
Tensor floats_by_subtract(const Tensor& x) {
  return torch::stable::subtract(x, x, -1);
}

int64_t sizes_in_the_loop(const Tensor& x) {
  const auto* in = x.const_data_ptr<int64_t>();
  int64_t sum = 0;
  for (int64_t i = 0; i < x.size(0); ++i) {
    for (int64_t j = 0; j < x.size(1); ++j) {
      sum += in[i * x.stride(0) + j];
    }
  }
  return sum;
}
//! [sizes_once]
int64_t sizes_once(const Tensor& x) {
  const auto* in = x.const_data_ptr<int64_t>();
  const int64_t rows = x.size(0), columns = x.size(1), stride = x.stride(0);
  int64_t sum = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      sum += in[i * stride + j];
    }
  }
  return sum;
}
//! [sizes_once]

//! [contiguous_if_not]
Tensor contiguous_if_not(const Tensor& x) {
  return x.is_contiguous() ? x : torch::stable::contiguous(x);
}
//! [contiguous_if_not]

Tensor zero_by_wrapper(const Tensor& x) {
  Tensor zeroed = x;
  return torch::stable::zero_(zeroed);
}
Tensor zero_by_fill(const Tensor& x) {
  Tensor zeroed = x;
  return torch::stable::fill_(zeroed, 0);
}
//! [zero_by_pointer]
Tensor zero_by_pointer(const Tensor& x) { // contiguous
  std::fill_n(x.mutable_data_ptr<int64_t>(), x.numel(), 0);
  return x;
}
//! [zero_by_pointer]

Tensor new_by_shim(const Tensor& x) {
  return make_contiguous(x, 4, 4);
}

int64_t scratch(const Tensor& x) {
  std::vector<int64_t> numbers(x.numel());
  return static_cast<int64_t>(numbers.size());
}

inline constexpr OpDecl<Tensor(Tensor, int64_t, int64_t, int64_t)> cut{
    "aten::narrow", ""};
Tensor narrow_by_name(const Tensor& x) {
  return call<cut>(x, 0, 1, 2);
}

Tensor of_integer(int64_t n) {
  return torch::stable::full({}, static_cast<double>(n), ScalarType::Long);
}
template <auto once>
cost::Crossing<Tensor> crossing_of(const char* name) {
  return cost::crossing<Tensor, once, &of_integer>(name);
}
const cost::Crossing<Tensor> kCrossings[] = {
    crossing_of<&parallel_for>("parallel_for, one thread"),
    crossing_of<&empty_tensor>("empty({4, 4})"),
    crossing_of<&new_empty>("new_empty(x, {4, 4})"),
    crossing_of<&empty_like>("empty_like(x)"),
    crossing_of<&contiguous>("contiguous(x)"),
    crossing_of<&narrow>("narrow(x, 0, 1, 2)"),
    crossing_of<&select>("select(x, 0, 1)"),
    crossing_of<&sum>("sum(x, 0)"),
    crossing_of<&by_name>("mul(x, x) by name"),
    crossing_of<&neg_by_name>("neg(x) by name"),
    crossing_of<&pick_by_name>("index_select(x, 0, i) by name"),
    crossing_of<&guard>("DeviceGuard(0)"),
    crossing_of<&stream>("getCurrentStream(0)"),
    crossing_of<&integers_by_stack>("integers by stack"),
    crossing_of<&integers_by_loop>("integers by loop"),
    crossing_of<&integers_by_shim>("integers by loop, empty_strided"),
    crossing_of<&floats_by_subtract>("floats by subtract"),
    crossing_of<&sizes_in_the_loop>("sizes in the loop"),
    crossing_of<&sizes_once>("sizes once"),
    crossing_of<&contiguous_if_not>("contiguous if not"),
    crossing_of<&zero_by_wrapper>("zero_"),
    crossing_of<&zero_by_fill>("fill_"),
    crossing_of<&zero_by_pointer>("fill_n"),
    crossing_of<&new_by_shim>("empty_strided"),
    crossing_of<&scratch>("vector"),
    crossing_of<&narrow_by_name>("narrow by name"),
};
double crossing(const Tensor& x, std::string_view what, int64_t times) {
  return cost::find<Tensor, &of_integer>(kCrossings, what).seconds(x, times);
}
Tensor crossed(const Tensor& x, std::string_view what) {
  return cost::find<Tensor, &of_integer>(kCrossings, what).result(x);
}

// --- whole ops ---------------------------------------------------------------

Tensor fresh(const Tensor& x) {
  return torch::stable::empty_like(x);
}

Tensor product(const Tensor& x, const Tensor& y) {
  STD_TORCH_CHECK(
      x.is_contiguous() && y.is_contiguous() && x.numel() == y.numel(),
      "product: x and y must be contiguous and of one shape");
  Tensor result = torch::stable::empty_like(x);
  const auto* in = x.const_data_ptr<float>();
  const auto* other = y.const_data_ptr<float>();
  auto* out = result.mutable_data_ptr<float>();
  const int64_t count = x.numel();
  for (int64_t i = 0; i < count; ++i) {
    out[i] = in[i] * other[i];
  }
  return result;
}

// As a port writes it at first: each op of ATen's by its name.
Tensor difference_by_name(
    const Tensor& x, const Tensor& y, const std::optional<Tensor>& index) {
  return add_by_stack(
      index ? call<index_select>(x, 0, *index) : x, call<neg>(y));
}

// As a loop of its own: x[index[i]] - y[i] for each row, of int64 tensors.
Tensor difference(
    const Tensor& x, const Tensor& y, const std::optional<Tensor>& index) {
  STD_TORCH_CHECK(
      x.dim() == 2 && y.dim() == 2 && x.size(1) == y.size(1) &&
          x.is_contiguous() && y.is_contiguous(),
      "difference: x and y must be contiguous, with rows of one length");
  const int64_t limit = x.size(0), rows = y.size(0), columns = y.size(1);
  STD_TORCH_CHECK(
      index ? index->is_contiguous() && index->numel() == rows : limit == rows,
      "difference: index must be contiguous, a number for each row of y");
  Tensor result = make_contiguous(y, rows, columns);
  const auto* from = x.const_data_ptr<int64_t>();
  const auto* other = y.const_data_ptr<int64_t>();
  const auto* at = index ? index->const_data_ptr<int64_t>() : nullptr;
  auto* out = result.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = at != nullptr ? at[i] : i;
    STD_TORCH_CHECK(row >= 0 && row < limit, "difference: no row ", row);
    for (int64_t j = 0; j < columns; ++j) {
      out[i * columns + j] = from[row * columns + j] - other[i * columns + j];
    }
  }
  return result;
}

} // namespace

STABLE_TORCH_LIBRARY(cost_stable, m) {
  cost::define(m);
  m.def("tensor_by_value(Tensor x) -> ()");
  m.def("tensor_by_hand(Tensor x) -> ()");
  // The same kernel as `product`: with a gradient in C++, and in Python.
  m.def("product_cpp(Tensor x, Tensor y) -> Tensor");
  m.def("product_python(Tensor x, Tensor y) -> Tensor");
  m.def("difference_by_name(Tensor x, Tensor y, Tensor? index) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(cost_stable, CompositeExplicitAutograd, m) {
  m.impl("empty", TORCH_BOX(&cost::empty));
  m.impl("seen", TORCH_BOX(&cost::seen));
}

STABLE_TORCH_LIBRARY_IMPL(cost_stable, CPU, m) {
  m.impl("tensor", TORCH_BOX(&cost::tensor<Tensor>));
  m.impl("tensor_by_value", TORCH_BOX(&tensor_by_value));
  m.impl("tensor_by_hand", &tensor_by_hand);
  m.impl("two_tensors", TORCH_BOX(&cost::two_tensors<Tensor>));
  m.impl("optional", TORCH_BOX(&cost::optional<Tensor>));
  m.impl("tensors", TORCH_BOX(&tensors));
  m.impl("integers", TORCH_BOX(&integers));
  m.impl("integer", TORCH_BOX(&cost::integer<Tensor>));
  m.impl("number", TORCH_BOX(&cost::number<Tensor>));
  m.impl("string", TORCH_BOX(&string));
  m.impl("device", TORCH_BOX(&device));
  m.impl("dtype", TORCH_BOX(&dtype));
  m.impl("returned", TORCH_BOX(&cost::returned<Tensor>));
  m.impl("crossing", TORCH_BOX(&crossing));
  m.impl("crossed", TORCH_BOX(&crossed));
  m.impl("fresh", TORCH_BOX(&fresh));
  m.impl("product", TORCH_BOX(&product));
  m.impl("product_cpp", TORCH_BOX(&product));
  m.impl("product_python", TORCH_BOX(&product));
  m.impl("difference", TORCH_BOX(&difference));
  m.impl("difference_by_name", TORCH_BOX(&difference_by_name));
}
