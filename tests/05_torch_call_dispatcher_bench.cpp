// What a call by name costs: aten::narrow on four elements, by the wrapper of
// ops.h, which is a C shim and the floor; by bare slots; with the headers' from
// and to; and by call_op.h.
#include "bench/bench.h"
#include "testing/aten.h"
#include "testing/library.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <memory>
#include <string>
#include <vector>

using torch::stable::Tensor;

namespace workbook {
namespace {

using Narrow = AtenTensorHandle(AtenTensorHandle);

// The functions under test borrow a handle and give a new one; so do these.
Tensor borrow(AtenTensorHandle handle) {
  AtenTensorHandle mine = nullptr;
  aoti_torch_new_tensor_handle(handle, &mine);
  return Tensor(mine);
}
AtenTensorHandle lend(const Tensor& tensor) {
  AtenTensorHandle theirs = nullptr;
  aoti_torch_new_tensor_handle(tensor.get(), &theirs);
  return theirs;
}

AtenTensorHandle by_wrapper(AtenTensorHandle input) {
  Tensor x = borrow(input);
  return lend(torch::stable::narrow(x, 0, 1, 2));
}
AtenTensorHandle by_slots(AtenTensorHandle input) {
  const Tensor x = borrow(input);
  AtenTensorHandle self = nullptr;
  aoti_torch_new_tensor_handle(x.get(), &self);
  StableIValue stack[] = {reinterpret_cast<StableIValue>(self), 0, 1, 2};
  torch_call_dispatcher("aten::narrow", "", stack, TORCH_ABI_VERSION);
  return lend(Tensor(reinterpret_cast<AtenTensorHandle>(stack[0])));
}
AtenTensorHandle by_from_and_to(AtenTensorHandle input) {
  namespace detail = torch::stable::detail;
  StableIValue stack[] = {
      detail::from(borrow(input)),
      detail::from(int64_t{0}),
      detail::from(int64_t{1}),
      detail::from(int64_t{2})};
  torch_call_dispatcher("aten::narrow", "", stack, TORCH_ABI_VERSION);
  return lend(detail::to<Tensor>(stack[0]));
}

struct Buffers {
  Tensor input = tensor<float>({1, 6, -10, 0}, {4});
  AtenTensorHandle out = nullptr;

  void clear() {
    if (out != nullptr) {
      aoti_torch_delete_tensor_object(out);
      out = nullptr;
    }
  }
  std::string check() {
    if (out == nullptr) {
      return "there is no result";
    }
    return values<float>(borrow(out)) == std::vector<float>{6, -10}
        ? ""
        : "narrow of 1, 6, -10, 0 from 1 to 3 is wrong";
  }
  ~Buffers() {
    clear();
  }
};

std::vector<Member> members() {
  const auto it = std::make_shared<Buffers>();
  const auto member = [&](const char* name, Role role, Narrow* narrow) {
    return Member{
        name,
        role,
        [it, narrow] {
          it->clear();
          it->out = narrow(it->input.get());
        },
        [it] { it->clear(); },
        [it] { return it->check(); }};
  };
  return {
      member("ops.h, a C shim", Role::kFloor, &by_wrapper),
      member("solution", Role::kSubject, function<Narrow>("wb05_narrow")),
      member("bare slots", Role::kPeer, &by_slots),
      member("from and to", Role::kPeer, &by_from_and_to)};
}

std::vector<Group> groups(bool) {
  return {
      {"call/narrow",
       "float",
       "4",
       "warm",
       0,
       1,
       [] { return members(); },
       {}}};
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  return workbook::run_benchmarks(
      "05_torch_call_dispatcher", workbook::groups, argc, argv);
}
