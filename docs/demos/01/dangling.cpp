// What a HeaderOnlyArrayRef points to is gone at the end of the line.
#include <torch/headeronly/util/HeaderOnlyArrayRef.h>

#include <cstdio>

int main() {
  torch::headeronly::IntHeaderOnlyArrayRef sizes = {2, 3, 4};
  for (int64_t size : sizes) {
    std::printf("%d ", static_cast<int>(size));
  }
  std::printf("\n");
}
