// Sizes of tensors: as text, and those of a result with half of the columns.
#pragma once

#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace wb {

using torch::headeronly::IntHeaderOnlyArrayRef;

// "[2, 6]"; also for strides.
inline std::string to_string(IntHeaderOnlyArrayRef sizes) {
  std::ostringstream text;
  for (size_t i = 0; i < sizes.size(); ++i) {
    text << (i == 0 ? "[" : ", ") << sizes[i];
  }
  text << (sizes.empty() ? "[]" : "]");
  return text.str();
}

// Throws unless `input` is [..., 2d].
inline void check_even(IntHeaderOnlyArrayRef input) {
  STD_TORCH_CHECK(
      !input.empty() && input.back() % 2 == 0,
      "input must end in an even size, got ",
      to_string(input));
}

//! [output_sizes]
// [..., 2d] -> [..., d].
inline std::vector<int64_t> output_sizes(IntHeaderOnlyArrayRef input) {
  check_even(input);
  std::vector<int64_t> result = input.vec();
  result.back() /= 2;
  return result;
}
//! [output_sizes]

} // namespace wb
