// An op that takes a list of dtypes, of which some may be None.
#include "slot.h"

#include <torch/csrc/stable/library.h>

using Dtypes = std::vector<std::optional<wb::ScalarType>>;

int64_t count(Dtypes dtypes) {
  return static_cast<int64_t>(dtypes.size());
}
void by_hand(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = wb::Slot<int64_t>::from(count(wb::Slot<Dtypes>::to(stack[0])));
}

STABLE_TORCH_LIBRARY(third, m) {
  m.def("boxed(ScalarType?[] dtypes) -> int");
  m.def("by_hand(ScalarType?[] dtypes) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(third, CompositeExplicitAutograd, m) {
  m.impl("boxed", TORCH_BOX(&count));
  m.impl("by_hand", &by_hand);
}
