// A function of libtorch 2.14, called by an extension that targets 2.10. Needs
// the headers of 2.14 or newer.
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/shim_utils.h>

#include <cstdio>

using torch::stable::Tensor;

//! [newer]
// What is done instead before 2.14. The parameters are those of
// torch_has_storage.
AOTITorchError assume_storage(AtenTensorHandle, bool* has_storage) {
  *has_storage = true;
  std::puts("assumed");
  return 0; // success
}

bool has_storage(const Tensor& x) {
  bool result = false;
  TORCH_ERROR_CODE_CHECK(TORCH_DYNAMIC_VERSION_CALL(
      TORCH_VERSION_2_14_0,
      torch_has_storage,
      assume_storage,
      x.get(),
      &result));
  return result;
}
//! [newer]

int main() {
  std::puts(has_storage(torch::stable::full({2}, 1)) ? "has storage" : "wrong");
}
