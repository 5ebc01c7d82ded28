// The same as stable.cpp with ATen, and what only the unstable API can do: call
// an op without Python and without its name, and give it a gradient in C++.
#include "crossing.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using at::Tensor;
using cost::seen_last;

// --- arguments ---------------------------------------------------------------

void tensors(const Tensor&, at::TensorList ys) {
  seen_last = static_cast<int64_t>(ys.size());
}
void integers(const Tensor&, at::IntArrayRef ns) {
  seen_last = ns.back();
}
void string(const Tensor&, c10::string_view s) {
  seen_last = static_cast<int64_t>(s.size());
}
void device(const Tensor&, at::Device d) {
  seen_last = d.index();
}
void dtype(const Tensor&, at::ScalarType t) {
  seen_last = static_cast<int64_t>(t);
}

// --- inside a kernel ---------------------------------------------------------

// A device that does nothing: what is timed is PyTorch's part of a guard and of
// a stream, without the driver's.
constexpr auto kNothing = at::DeviceType::PrivateUse1;
C10_REGISTER_GUARD_IMPL(PrivateUse1, c10::impl::NoOpDeviceGuardImpl<kNothing>)

int64_t parallel_for(const Tensor&) {
  int64_t sum = 0;
  at::parallel_for(
      0, 4, 4, [&](int64_t begin, int64_t end) { sum += end - begin; });
  return sum;
}
Tensor empty_tensor(const Tensor&) {
  return at::empty({4, 4}, at::kLong);
}
Tensor new_empty(const Tensor& x) {
  return x.new_empty({4, 4});
}
Tensor empty_like(const Tensor& x) {
  return at::empty_like(x);
}
Tensor contiguous(const Tensor& x) {
  return x.contiguous();
}
Tensor narrow(const Tensor& x) {
  return x.narrow(0, 1, 2);
}
Tensor select(const Tensor& x) {
  return x.select(0, 1);
}
Tensor sum(const Tensor& x) {
  return x.sum(0);
}
Tensor mul(const Tensor& x) {
  return at::mul(x, x);
}
Tensor neg(const Tensor& x) {
  return x.neg();
}
Tensor pick(const Tensor& x) {
  static const Tensor index = x.select(0, 0);
  return x.index_select(0, index);
}
Tensor add(const Tensor& x) {
  return x + x;
}
Tensor zero(const Tensor& x) {
  return x.zero_();
}
int64_t guard(const Tensor&) {
  const c10::DeviceGuard guard(c10::Device(kNothing, 0));
  return 0;
}
int64_t stream(const Tensor&) {
  return c10::impl::VirtualGuardImpl(kNothing)
      .getStream(c10::Device(kNothing, 0))
      .id();
}

Tensor of_integer(int64_t n) {
  return at::full({}, n, at::kLong);
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
    crossing_of<&mul>("mul(x, x) by name"),
    crossing_of<&neg>("neg(x) by name"),
    crossing_of<&pick>("index_select(x, 0, i) by name"),
    crossing_of<&guard>("DeviceGuard(0)"),
    crossing_of<&stream>("getCurrentStream(0)"),
    crossing_of<&add>("add"),
    crossing_of<&zero>("zero_"),
};
double crossing(const Tensor& x, c10::string_view what, int64_t times) {
  return cost::find<Tensor, &of_integer>(kCrossings, what).seconds(x, times);
}
Tensor crossed(const Tensor& x, c10::string_view what) {
  return cost::find<Tensor, &of_integer>(kCrossings, what).result(x);
}

// --- whole ops ---------------------------------------------------------------

Tensor fresh(const Tensor& x) {
  return at::empty_like(x);
}

Tensor product(const Tensor& x, const Tensor& y) {
  TORCH_CHECK(
      x.is_contiguous() && y.is_contiguous() && x.numel() == y.numel(),
      "product: x and y must be contiguous and of one shape");
  Tensor result = at::empty_like(x);
  const auto* in = x.const_data_ptr<float>();
  const auto* other = y.const_data_ptr<float>();
  auto* out = result.mutable_data_ptr<float>();
  const int64_t count = x.numel();
  for (int64_t i = 0; i < count; ++i) {
    out[i] = in[i] * other[i];
  }
  return result;
}

Tensor difference(
    const Tensor& x, const Tensor& y, const std::optional<Tensor>& index) {
  return (index ? x.index_select(0, *index) : x) - y;
}

//! [autograd]
using ProductOp =
    c10::TypedOperatorHandle<Tensor(const Tensor&, const Tensor&)>;

// The gradient in C++, of the op of this library and of the stable one: it
// calls the kernel through the dispatcher, and need not know which it is.
constexpr const char* kProducts[] = {
    "cost_unstable::product", "cost_stable::product_cpp"};

template <int library>
struct Product : torch::autograd::Function<Product<library>> {
  using Context = torch::autograd::AutogradContext;

  static Tensor kernel(const Tensor& x, const Tensor& y) {
    static const ProductOp op =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow(kProducts[library], "")
            .typed<Tensor(const Tensor&, const Tensor&)>();
    const at::AutoDispatchBelowADInplaceOrView below;
    return op.call(x, y);
  }
  static Tensor forward(Context* ctx, const Tensor& x, const Tensor& y) {
    ctx->save_for_backward({x, y});
    return kernel(x, y);
  }
  static std::vector<Tensor> backward(
      Context* ctx, const std::vector<Tensor>& grads) {
    const auto saved = ctx->get_saved_variables();
    return {kernel(grads[0], saved[1]), kernel(grads[0], saved[0])};
  }
};

template <int library>
Tensor product_with_gradient(const Tensor& x, const Tensor& y) {
  const bool needed =
      at::GradMode::is_enabled() && (x.requires_grad() || y.requires_grad());
  return needed ? Product<library>::apply(x, y)
                : Product<library>::kernel(x, y);
}
//! [autograd]

// --- calls from C++ ----------------------------------------------------------

template <typename F, typename... Args>
double call(const std::string& name, int64_t times, const Args&... args) {
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow(name.c_str(), "")
                      .typed<F>();
  return cost::time(times, [&] {
    if constexpr (std::is_void_v<decltype(op.call(args...))>) {
      op.call(args...);
      return 0;
    } else {
      return op.call(args...);
    }
  });
}

// Returns the seconds of as many calls of library::op, without Python.
double calls(
    const Tensor& x, std::string library, std::string op, int64_t times) {
  const std::string name = library + "::" + op;
  const std::optional<Tensor> none;
  const std::vector<Tensor> list = {x, x};
  if (op == "empty") {
    return call<void()>(name, times);
  }
  if (op == "two_tensors") {
    return call<void(const Tensor&, const Tensor&)>(name, times, x, x);
  }
  if (op == "optional" || op == "none") {
    return call<void(const Tensor&, const std::optional<Tensor>&)>(
        library + "::optional",
        times,
        x,
        op == "none" ? none : std::optional(x));
  }
  if (op == "tensors") {
    return call<void(const Tensor&, at::TensorList)>(name, times, x, list);
  }
  if (op == "integers") {
    return call<void(const Tensor&, at::IntArrayRef)>(
        name, times, x, std::vector<int64_t>{1, 2, 3, 4});
  }
  if (op == "integer") {
    return call<void(const Tensor&, int64_t)>(name, times, x, 7);
  }
  if (op == "number") {
    return call<void(const Tensor&, double)>(name, times, x, 7.5);
  }
  if (op == "string") {
    return call<void(const Tensor&, c10::string_view)>(name, times, x, "sum");
  }
  if (op == "device") {
    return call<void(const Tensor&, at::Device)>(
        name, times, x, at::Device(at::kCPU, 0));
  }
  if (op == "dtype") {
    return call<void(const Tensor&, at::ScalarType)>(
        name, times, x, at::kFloat);
  }
  if (op == "returned") {
    return call<Tensor(const Tensor&)>(name, times, x);
  }
  return call<void(const Tensor&)>(name, times, x); // tensor, and as it crosses
}

} // namespace

TORCH_LIBRARY(cost_unstable, m) {
  cost::define(m);
  m.def("calls(Tensor x, str library, str op, int times) -> float", &calls);
  m.def("make_device() -> ()", [] {
    c10::register_privateuse1_backend("nothing");
  });
}

TORCH_LIBRARY_IMPL(cost_unstable, CompositeExplicitAutograd, m) {
  m.impl("empty", &cost::empty);
  m.impl("seen", &cost::seen);
}

TORCH_LIBRARY_IMPL(cost_unstable, CPU, m) {
  m.impl("tensor", &cost::tensor<Tensor>);
  m.impl("two_tensors", &cost::two_tensors<Tensor>);
  m.impl("optional", &cost::optional<Tensor>);
  m.impl("tensors", &tensors);
  m.impl("integers", &integers);
  m.impl("integer", &cost::integer<Tensor>);
  m.impl("number", &cost::number<Tensor>);
  m.impl("string", &string);
  m.impl("device", &device);
  m.impl("dtype", &dtype);
  m.impl("returned", &cost::returned<Tensor>);
  m.impl("crossing", &crossing);
  m.impl("crossed", &crossed);
  m.impl("fresh", &fresh);
  m.impl("product", &product);
  m.impl("difference", &difference);
}

TORCH_LIBRARY_IMPL(cost_unstable, Autograd, m) {
  m.impl("product", &product_with_gradient<0>);
}

//! [autograd_beside]
TORCH_LIBRARY_IMPL(cost_stable, Autograd, m) {
  m.impl("product_cpp", &product_with_gradient<1>);
}
//! [autograd_beside]
