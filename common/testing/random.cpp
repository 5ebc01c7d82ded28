#include "random.h"

#include <doctest/doctest.h>

namespace workbook {

uint64_t seed() {
  return doctest::getContextOptions()->rand_seed;
}

int64_t Random::integer(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(engine_);
}

double Random::normal_double(double scale) {
  return std::normal_distribution<>(0, scale)(engine_);
}

} // namespace workbook
