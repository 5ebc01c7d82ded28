// An op that quantises rows: out gets whole numbers from -127 to 127, and the
// scale of each row is returned, so that out * scale is nearly the input again.
#include "stack.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cmath>

namespace wb {

Tensor quantise(const Tensor& out, const Tensor& input) {
  const int64_t rows = input.size(0);
  const int64_t columns = input.size(1);
  const Tensor scale = torch::stable::new_empty(input, {rows, 1});
  const float* from = input.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  float* scales = scale.mutable_data_ptr<float>();
  for (int64_t row = 0; row < rows; ++row) {
    float largest = 0;
    for (int64_t i = 0; i < columns; ++i) {
      largest = std::max(largest, std::abs(from[i]));
    }
    scales[row] = largest / 127;
    for (int64_t i = 0; i < columns; ++i) {
      to[i] = std::round(from[i] / scales[row]);
    }
    from += columns;
    to += columns;
  }
  return scale;
}

//! [by_hand]
// quantise(Tensor! out, Tensor input) -> Tensor scale
void by_hand(StableIValue* slots, uint64_t, uint64_t) {
  const Tensor out = Slot<Tensor>::to(slots[0]);
  const Tensor input = Slot<Tensor>::to(slots[1]);
  const Tensor scale = quantise(out, input);
  slots[0] = Slot<Tensor>::from(out);
  slots[1] = Slot<Tensor>::from(scale);
}
//! [by_hand]

//! [stack]
// The same two returns, by stack.h.
void counted(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto [out, input] = to_values<Tensor, Tensor>(slots, num_args);
  from_values(slots, num_returns, out, quantise(out, input));
}

// The one return that the schema has.
void right(StableIValue* slots, uint64_t num_args, uint64_t num_returns) {
  const auto [out, input] = to_values<Tensor, Tensor>(slots, num_args);
  from_values(slots, num_returns, quantise(out, input));
}
//! [stack]

} // namespace wb

STABLE_TORCH_LIBRARY(demo, m) {
  m.def("quantise(Tensor! out, Tensor input) -> Tensor scale");
}

STABLE_TORCH_LIBRARY_IMPL(demo, CPU, m) {
  m.impl("quantise", &wb::KERNEL);
}
