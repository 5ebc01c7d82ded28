// Two ops that call an op of PyTorch's with a stack of one slot, which is too
// short. What lies behind the stack is given from outside.
#include "stack.h"

#include <torch/csrc/stable/library.h>

namespace wb {

struct Memory {
  StableIValue stack[1];
  int64_t neighbours[5]; // variables that have nothing to do with it
};

// aten::triu(Tensor self, int diagonal=0) -> Tensor
void upper(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto [x, neighbour] = to_values<Tensor, int64_t>(slots, num_args);
  Memory memory = {{Slot<Tensor>::from(x)}, {neighbour}};
  call_slots("aten::triu", "", memory.stack);
  from_values(slots, num_returns, Slot<Tensor>::to(memory.stack[0]));
}

// aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None,
//   Device? device=None, bool? pin_memory=None,
//   MemoryFormat? memory_format=None) -> Tensor
void zeros(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto [x, neighbour] = to_values<Tensor, int64_t>(slots, num_args);
  Memory memory = {{Slot<Tensor>::from(x)}, {neighbour}};
  call_slots("aten::zeros_like", "", memory.stack);
  from_values(slots, num_returns, Slot<Tensor>::to(memory.stack[0]));
}

} // namespace wb

STABLE_TORCH_LIBRARY(demo, m) {
  m.def("upper(Tensor x, int neighbour) -> Tensor");
  m.def("zeros(Tensor x, int neighbour) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(demo, CPU, m) {
  m.impl("upper", &wb::upper);
  m.impl("zeros", &wb::zeros);
}
