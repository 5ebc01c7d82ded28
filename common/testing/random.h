// Random shapes and values, the same in every run unless doctest's --rand-seed
// says otherwise.
#pragma once

#include <cstdint>
#include <random>
#include <type_traits>

namespace workbook {

// The seed of this run: --rand-seed=N, else 1.
uint64_t seed();

class Random {
 public:
  // Integers from `low` to `high`, both included.
  int64_t integer(int64_t low, int64_t high);

  // Normally distributed, standard deviation `scale`. A double has bits that no
  // float has.
  template <typename T>
  T normal(double scale) {
    const double x = normal_double(scale);
    if constexpr (std::is_same_v<T, double>) {
      return x;
    } else {
      return T(static_cast<float>(x));
    }
  }

 private:
  double normal_double(double scale);

  std::mt19937_64 engine_{seed()};
};

} // namespace workbook
