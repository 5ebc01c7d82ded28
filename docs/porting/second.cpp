// The second library: the old one has opened the namespace "two" and has
// defined two::moved.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

Tensor moved(const Tensor& x) {
  return torch::stable::clone(x);
}

//! [second]
// An op whose schema is still in the old library.
STABLE_TORCH_LIBRARY_IMPL(two, CPU, m) {
  m.impl("moved", TORCH_BOX(&moved));
}

// An op that is new.
STABLE_TORCH_LIBRARY_FRAGMENT(two, m) {
  m.def("fresh(Tensor x) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(two, CompositeExplicitAutograd, m) {
  m.impl("fresh", TORCH_BOX(&moved));
}
//! [second]
