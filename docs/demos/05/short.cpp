// The call of sum.cpp with an array of three, and nothing put behind it.
#include "stack.h"

#include <torch/csrc/stable/ops.h>

#include <array>
#include <cstdio>

using namespace wb;
using MaybeDims = std::optional<std::vector<int64_t>>;

Tensor total(const Tensor& x) {
  std::array<StableIValue, 3> slots{
      Slot<Tensor>::from(x),
      Slot<MaybeDims>::from(std::vector<int64_t>{0}),
      Slot<bool>::from(false)};
  call_slots("aten::sum", "dim_IntList", slots.data());
  return Slot<Tensor>::to(slots[0]);
}

int main() {
  try {
    const Tensor y = total(torch::stable::full({4}, 0.75));
    std::printf("%g\n", static_cast<double>(*y.const_data_ptr<float>()));
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
  }
}
