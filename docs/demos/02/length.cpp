// An op that takes a string and returns its length.
#include <torch/csrc/stable/library.h>

#include <string>

int64_t length(std::string text) {
  return static_cast<int64_t>(text.size());
}

#ifdef BY_HAND
#include "slot.h"
void kernel(StableIValue* stack, uint64_t, uint64_t) {
  const std::string text = wb::Slot<std::string>::to(stack[0]);
  stack[0] = wb::Slot<int64_t>::from(length(text));
}
#else
constexpr auto kernel = TORCH_BOX(&length);
#endif

STABLE_TORCH_LIBRARY(demo, m) {
  m.def("length(str text) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(demo, CompositeExplicitAutograd, m) {
  m.impl("length", kernel);
}
