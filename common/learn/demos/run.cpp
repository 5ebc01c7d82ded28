// Loads a library into the libtorch that is there and calls an op of it, for
// `./workbook demo`:
//   LD_LIBRARY_PATH=.../torch/lib demo libfirst_extension.so silu
// It is a stable-ABI program itself, so one build of it runs on every libtorch.
#include "testing/aten.h"
#include "testing/dispatcher.h"

#include <dlfcn.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace convert = torch::stable::detail;

static void silu() {
  const auto x = workbook::tensor<float>({-1, 0, 1}, {3});
  StableIValue stack[] = {convert::from(x)};
  workbook::call_op("wb00::silu", "", stack);
  const auto y = convert::to<torch::stable::Tensor>(stack[0]);
  std::printf("silu(-1, 0, 1) is");
  for (const float value : workbook::values<float>(y)) {
    std::printf(" %.4f", value);
  }
  std::printf("\n");
}

static void abi_report() {
  StableIValue slot = 0;
  workbook::call_op("wb06::abi_report", "", &slot);
  const auto handle = convert::to<StringHandle>(slot);
  const char* data = nullptr;
  torch_string_c_str(handle, &data);
  std::printf("%s\n", data);
  torch_delete_string(handle);
}

int main(int, char** argv) {
  if (dlopen(argv[1], RTLD_NOW) == nullptr) {
    std::printf("does not load: %s\n", dlerror());
    return 1;
  }
  try {
    argv[2] == std::string("silu") ? silu() : abi_report();
  } catch (const std::exception& error) {
    std::printf("loads, and then: %s\n", error.what());
    return 1;
  }
}
