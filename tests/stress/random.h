// What a case is drawn from: a number decides all of it, so that a failing case
// can be run again by its number.
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>

namespace stress {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  // True once in n times.
  bool once_in(int64_t n) {
    return integer(1, n) == 1;
  }
  uint64_t bits() {
    return engine_();
  }
  double normal() {
    return std::normal_distribution<>(0, 4)(engine_);
  }
  // Mostly of order one; now and then huge, tiny, infinite or NaN.
  double value() {
    static constexpr float kOdd[] = {
        0,
        -0.f,
        INFINITY,
        -INFINITY,
        NAN,
        1e30f,
        -1e30f,
        1e-30f,
        88,
        -88,
        -104};
    return once_in(200)
        ? kOdd[integer(0, static_cast<int64_t>(std::size(kOdd)) - 1)]
        : normal();
  }

 private:
  std::mt19937_64 engine_;
};

} // namespace stress
