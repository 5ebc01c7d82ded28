// An op whose kernel reads a Device as PyTorch's own class once lay in memory.
#include <torch/csrc/stable/library.h>

#include <cstdint>
#include <string>

struct LikeC10Device {
  int8_t type;
  int8_t index;
};

std::string by_literal(LikeC10Device device) {
  return "type " + std::to_string(device.type) + ", index " +
      std::to_string(device.index);
}

std::string by_table(torch::stable::Device device) {
  return "type " + std::to_string(static_cast<int>(device.type())) +
      ", index " + std::to_string(device.index());
}

STABLE_TORCH_LIBRARY(literal, m) {
  m.def("by_literal(Device device) -> str");
  m.def("by_table(Device device) -> str");
}

STABLE_TORCH_LIBRARY_IMPL(literal, CompositeExplicitAutograd, m) {
  m.impl("by_literal", TORCH_BOX(&by_literal));
  m.impl("by_table", TORCH_BOX(&by_table));
}
