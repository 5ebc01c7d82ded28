// Kernels that look at nothing: the slot that came is the slot that goes.
#include <torch/csrc/stable/library.h>

void pass(StableIValue*, uint64_t, uint64_t) {}

STABLE_TORCH_LIBRARY(pass_on, m) {
  m.def("device(Device x) -> Device");
  m.def("tensor(Tensor x) -> Tensor");
  m.def("names(str[] x) -> str[]");
  m.def("generator(Generator x) -> Generator");
  m.def("scalar(Scalar x) -> Scalar");
  m.def("maybe_scalar(Scalar? x) -> Scalar?");
  m.def("complex(complex x) -> complex");
}

STABLE_TORCH_LIBRARY_IMPL(pass_on, CompositeExplicitAutograd, m) {
  for (const char* name :
       {"device",
        "tensor",
        "names",
        "generator",
        "scalar",
        "maybe_scalar",
        "complex"}) {
    m.impl(name, &pass);
  }
}
