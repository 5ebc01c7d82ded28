// What stack.h costs: aten::frexp.Tensor on four elements, called through bare
// C shims, which is the floor, with Slot's from and to by hand, and by stack.h.
#include "bench/bench.h"
#include "testing/aten.h"
#include "testing/library.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <memory>
#include <string>
#include <vector>

using torch::stable::Tensor;

namespace workbook {
namespace {

using Frexp = void(AtenTensorHandle, AtenTensorHandle*);

void by_shims(AtenTensorHandle input, AtenTensorHandle* out) {
  AtenTensorHandle self = nullptr;
  aoti_torch_new_tensor_handle(input, &self);
  StableIValue stack[2] = {reinterpret_cast<StableIValue>(self), 0};
  torch_call_dispatcher("aten::frexp", "Tensor", stack, TORCH_ABI_VERSION);
  out[0] = reinterpret_cast<AtenTensorHandle>(stack[0]);
  out[1] = reinterpret_cast<AtenTensorHandle>(stack[1]);
}

struct Buffers {
  Tensor input = tensor<float>({1, 6, -10, 0}, {4});
  AtenTensorHandle out[2] = {};

  void clear() {
    for (AtenTensorHandle& handle : out) {
      if (handle != nullptr) {
        aoti_torch_delete_tensor_object(handle);
        handle = nullptr;
      }
    }
  }
  std::string check() {
    if (out[0] == nullptr || out[1] == nullptr) {
      return "a return is missing";
    }
    const Tensor mantissa(out[0]);
    const Tensor exponent(out[1]);
    out[0] = out[1] = nullptr;
    return values<float>(mantissa) ==
                std::vector<float>{0.5f, 0.75f, -0.625f, 0} &&
            values<int32_t>(exponent) == std::vector<int32_t>{1, 3, 4, 0}
        ? ""
        : "frexp of 1, 6, -10, 0 is wrong";
  }
  ~Buffers() {
    clear();
  }
};

std::vector<Member> members() {
  const auto it = std::make_shared<Buffers>();
  const auto member = [&](const char* name, Role role, Frexp* frexp) {
    return Member{
        name,
        role,
        [it, frexp] {
          it->clear();
          frexp(it->input.get(), it->out);
        },
        [it] { it->clear(); },
        [it] { return it->check(); }};
  };
  return {
      member("C shims", Role::kFloor, &by_shims),
      member("stack.h", Role::kSubject, function<Frexp>("wb03_call_frexp")),
      member("from and to", Role::kPeer, function<Frexp>("wb03_frexp"))};
}

std::vector<Group> groups(bool) {
  return {{"call/frexp", "float", "4", "warm", 0, 1, members()}};
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  return workbook::run_benchmarks(workbook::groups, argc, argv);
}
