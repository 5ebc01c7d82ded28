// A row of floats, kept as float8_e4m3fn and read again.
#include <torch/headeronly/util/Float8_e4m3fn.h>

#include <cstdio>

using torch::headeronly::Float8_e4m3fn;

float kept(float value) {
#ifdef CLAMP
  constexpr float kMax = 448; // the largest float8_e4m3fn
  value = value > kMax ? kMax : value;
  value = value < -kMax ? -kMax : value;
#endif
  return static_cast<float>(Float8_e4m3fn(value));
}

int main() {
  float sum = 0;
  std::printf("  kept");
  for (float value : {1.5f, -20.f, 300.f, 464.f, 500.f}) {
    sum += kept(value);
    std::printf("%6g", static_cast<double>(kept(value)));
  }
  std::printf("   their sum %g\n", static_cast<double>(sum));
}
