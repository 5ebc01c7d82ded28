// Prints how the launcher of chapter 07 divides rows: the width of a vector,
// and the blocks and threads of the launch. For machine_code.py.
#include "launch_rows.h"

#include <cstdio>

using namespace wb::cuda;
using wb::Rows;

int main() {
  const uintptr_t base = uintptr_t{1} << 40;
  for (const int size : {2, 4}) {
    for (const int64_t rows : {1, 32, 4096, 1 << 20}) {
      for (const int64_t d : {1, 2, 4, 64, 100, 11008, 14336}) {
        for (const int offset : {0, 2, 4, 8}) {
          for (const int64_t column_stride : {1, 2}) {
            const auto at = [&](int64_t element) {
              return reinterpret_cast<void*>(base + offset + element * size);
            };
            const Rows r{at(0), at(d), at(0), rows, d, 2 * d, column_stride};
            const int width = vector_width(r, size);
            const LaunchConfig config(
                rows * d / (width ? width : 1), kThreads, nullptr);
            std::printf(
                "%d %u %u\n", width, config.gridDim.x, config.blockDim.x);
          }
        }
      }
    }
  }
}
