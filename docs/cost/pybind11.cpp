// Functions of pybind11, as extensions have them before they have ops.
#include <torch/csrc/utils/pybind.h>

namespace {
int seen_last = 0;
}

PYBIND11_MODULE(cost_pybind11, m) {
  m.def("empty", [] { seen_last = 0; });
  m.def("tensor", [](const at::Tensor&) { seen_last = 1; });
  m.def("seen", [] { return seen_last; });
}
