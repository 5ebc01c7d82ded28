// dispatch() goes from a dtype, which is known at run time, to a C++ type.
#pragma once

#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <type_traits>

namespace wb {

using torch::headeronly::ScalarType;

// What T is computed in (torch's opmath_t): 16-bit types in float.
template <typename T>
using compute_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

//! [dispatch]
// Calls f(T()), T being the C++ type of `dtype`: double, float, Half or
// BFloat16. Throws for another dtype, by its name.
template <typename F>
void dispatch(ScalarType dtype, const F& f) {
  THO_DISPATCH_V2(
      dtype,
      "dispatch",
      AT_WRAP(([&] { f(scalar_t()); })),
      AT_EXPAND(AT_FLOATING_TYPES),
      ScalarType::Half,
      ScalarType::BFloat16);
}
//! [dispatch]

} // namespace wb
