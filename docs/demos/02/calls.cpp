// Calls demo::length of a library, on the libtorch that is loaded, and says how
// many bytes a call leaves behind.
#include <torch/csrc/stable/stableivalue_conversions.h>

#include <dlfcn.h>
#include <malloc.h>
#include <cstdio>

int main(int, char** arguments) {
  if (!dlopen(arguments[1], RTLD_NOW)) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  constexpr int kCalls = 100000;
  size_t before = 0;
  for (int i = -1; i < kCalls; ++i) { // the first call makes what stays
    StringHandle handle = nullptr;
    torch_new_string_handle("half", 4, &handle);
    StableIValue stack[1] = {reinterpret_cast<StableIValue>(handle)};
    if (torch_call_dispatcher("demo::length", "", stack, TORCH_ABI_VERSION)) {
      return 1;
    }
    if (i == -1) {
      before = mallinfo2().uordblks;
    }
  }
  const uint64_t version = aoti_torch_abi_version();
  std::printf(
      "libtorch 2.%d: %.0f bytes a call\n",
      static_cast<int>(version >> 48 & 0xff),
      static_cast<double>(mallinfo2().uordblks - before) / kCalls);
}
