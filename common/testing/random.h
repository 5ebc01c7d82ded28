// Random shapes and values, the same in every run unless doctest's --rand-seed
// says otherwise.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <random>

namespace workbook {

// The seed of this run: --rand-seed=N, else 1.
inline uint64_t seed() {
  return doctest::getContextOptions()->rand_seed;
}

class Random {
 public:
  // Integers from `low` to `high`, both included.
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  // Normally distributed, standard deviation `scale`.
  float normal(float scale) {
    return std::normal_distribution<float>(0, scale)(engine_);
  }

 private:
  std::mt19937_64 engine_{seed()};
};

} // namespace workbook
