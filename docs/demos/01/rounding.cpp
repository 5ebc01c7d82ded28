// A million numbers between 0 and 1, each made a bfloat16 in two ways.
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/bit_cast.h>

#include <cstdint>
#include <cstdio>

using torch::headeronly::BFloat16;
using torch::headeronly::bit_cast;

int main() {
  double exact = 0, cut = 0, rounded = 0;
  uint32_t random = 1;
  for (int i = 0; i < 1000000; ++i) {
    random = random * 1664525 + 1013904223;
    const float value = static_cast<float>(random >> 8) / (1 << 24);
    exact += value;
    cut += bit_cast<float>(bit_cast<uint32_t>(value) & 0xffff0000);
    rounded += static_cast<float>(BFloat16(value));
  }
  std::printf("the sum is %.1f\n", exact);
  std::printf("off by %8.2f if the lower 16 bits are cut off\n", cut - exact);
  std::printf("off by %8.2f if each is rounded\n", rounded - exact);
}
