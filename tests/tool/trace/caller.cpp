// Loads a library and calls ops of it, three times each:
//   caller LIBRARY OP...
// It names what failed, and ends as if nothing had; where "exit" stands, in
// another thread.
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace caller {

using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::to;

bool call(const std::string& op, const Tensor& x) {
  std::vector<StableIValue> stack(8);
  size_t returns = 1;
  if (op == "bugs::backward") {
    stack = {from(x), from(x), from(x)};
    returns = 2;
  } else if (op == "bugs::length") {
    stack = {from(std::string("longer than the small buffer")), from(x)};
    returns = 0;
  } else if (op == "bugs::ignored") {
    stack = {from(x), from(std::make_optional(x))};
  } else {
    stack[0] = from(x);
  }
  if (torch_call_dispatcher(op.c_str(), "", stack.data(), TORCH_ABI_VERSION)) {
    return false;
  }
  for (size_t i = 0; i < returns; ++i) {
    to<Tensor>(stack[i]);
  }
  return true;
}

} // namespace caller

int main(int, char** words) {
  if (dlopen(words[1], RTLD_NOW) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  std::vector<int64_t> sizes = {2, 3};
  const torch::stable::Tensor x = torch::stable::fill_(
      torch::stable::empty(sizes, c10::ScalarType::Float), 1.5);
  for (char** op = words + 2; *op != nullptr; ++op) {
    if (*op == std::string("exit")) {
      std::thread ender([] { std::exit(0); });
      const auto begin = std::chrono::steady_clock::now();
      while (std::chrono::steady_clock::now() - begin <
             std::chrono::milliseconds(20)) {
      } // still runs when the other one is at its end
      ender.join();
    }
    bool good = true;
    for (int i = 0; i < 3; ++i) {
      good = caller::call(*op, x);
    }
    std::printf("%s %s\n", *op, good ? "returned" : "failed");
  }
  return 0;
}
