// The op of this package: schema, kernels for CPU and Meta, their registration,
// and the module that Python imports.
#include "checked_box.h"
#include "checks.h"
#include "dispatch.h"
#include "outputs.h"
#include "parallel.h"
#include "registration.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>

// The ops' namespace is the build's own id, never a fixed name: two versions of
// a kernel may be loaded into one process, and each opens its namespace.
#define OPS TORCH_EXTENSION_NAME

namespace wb {
namespace {

// input + alpha * other, for tensors of one size and dtype.
Tensor add_scaled(const Tensor& input, const Tensor& other, double alpha) {
  const TensorInfo info(input);
  check_rows(
      "other",
      TensorInfo(other),
      info,
      info.sizes.empty() ? 1 : info.sizes.back());
  const Tensor a = as_contiguous(input);
  const Tensor b = as_contiguous(other);
  Tensor out = empty_contiguous(input);
  dispatch(a.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* x = static_cast<const T*>(a.const_data_ptr());
    const T* y = static_cast<const T*>(b.const_data_ptr());
    T* z = static_cast<T*>(out.mutable_data_ptr());
    for_each_piece(1, a.numel(), [&](int64_t, int64_t first, int64_t n) {
      for (int64_t i = first; i < first + n; ++i) {
        const C scaled = static_cast<C>(alpha) * static_cast<C>(y[i]);
        z[i] = static_cast<T>(static_cast<C>(x[i]) + scaled);
      }
    });
  });
  return out;
}

// Sizes, strides, dtype and device of the result, and no element.
Tensor add_scaled_meta(const Tensor& input, const Tensor&, double) {
  return empty_contiguous(input);
}

} // namespace
} // namespace wb

STABLE_TORCH_LIBRARY_EXPAND(OPS, m) {
  m.def("add_scaled(Tensor input, Tensor other, float alpha=1.0) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPS, CPU, m) {
  m.impl("add_scaled", CHECKED_BOX(&wb::add_scaled));
}
STABLE_TORCH_LIBRARY_IMPL_EXPAND(OPS, Meta, m) {
  m.impl("add_scaled", CHECKED_BOX(&wb::add_scaled_meta));
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
