// Three ways to an op of PyTorch: by name; by a function of the C shim that
// goes through the dispatcher; and by one that goes past it.
#include "call_op.h"

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>

using namespace wb;

constexpr OpDecl<Tensor(Tensor, Tensor)> mul{"aten::mul", "Tensor"};

Tensor by_name(const Tensor& x) { // x * x
  return call<mul>(x, x);
}

Tensor shim(const Tensor& x) { // x - -1 * x
  AtenTensorHandle result = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_aten_subtract_Tensor(x.get(), x.get(), -1, &result));
  return Tensor(result);
}

Tensor backend_shim(const Tensor& x) { // x * x
  AtenTensorHandle result = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mul_Tensor(x.get(), x.get(), &result));
  return Tensor(result);
}

STABLE_TORCH_LIBRARY(demo05, m) {
  m.def("by_name(Tensor x) -> Tensor");
  m.def("shim(Tensor x) -> Tensor");
  m.def("backend_shim(Tensor x) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(demo05, CompositeImplicitAutograd, m) {
  m.impl("by_name", TORCH_BOX(&by_name));
  m.impl("shim", TORCH_BOX(&shim));
  m.impl("backend_shim", TORCH_BOX(&backend_shim));
}
