// What the notes of rows.toml say of behaviour, as ops that
// test_migration.py calls.
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>
#include <optional>
#include <stdexcept>
#include <string>
using namespace torch::stable;
using torch::headeronly::ScalarType;
#include "check.h" // CHECK, of the row "a check without a text"

void fails(const Tensor& x, int64_t how) {
  switch (how) {
    case 0:
      STD_TORCH_CHECK(x.dim() == 2);
      break;
    case 1:
      CHECK(x.dim() == 2);
      break;
    case 2:
      throw std::out_of_range("out of range");
    case 3:
      x.size(7);
      break;
    case 4:
      parallel_for(0, 2, 9, [](int64_t, int64_t) {
        STD_TORCH_CHECK(false, "own text");
      });
      break;
    case 5:
      accelerator::DeviceGuard(x.get_device_index());
      break;
    case 6: {
      std::optional<accelerator::DeviceGuard> guard;
      if (!x.is_cpu())
        guard.emplace(x.get_device_index());
    }
  }
}
double item(const Tensor& x) {
  double value = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_item_float64(x.get(), &value));
  return value;
}
int64_t item_int(const Tensor& x) {
  int64_t value = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_item_int64(x.get(), &value));
  return value;
}
const int64_t sizes[] = {2, 2}, strides[] = {2, 1};
Tensor strided(const Tensor& x, bool reinterpret) {
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(
      reinterpret
          ? aoti_torch__reinterpret_tensor(x.get(), 2, sizes, strides, 1, &made)
          : aoti_torch_as_strided(x.get(), sizes, strides, &made));
  return Tensor(made);
}
Tensor number() {
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_scalar_to_tensor_float64(2.5, &made));
  return Tensor(made);
}
Tensor square(const Tensor& x, bool off) {
  const bool before = aoti_torch_grad_mode_is_enabled();
  aoti_torch_grad_mode_set_enabled(before && !off);
  const Tensor y = matmul(x, x);
  aoti_torch_grad_mode_set_enabled(before);
  return y;
}
Tensor ranged(const Tensor& x) {
  AtenRecordFunctionHandle range = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_record_function_start("my_range", nullptr, nullptr, 0, &range));
  Tensor y = clone(x);
  TORCH_ERROR_CODE_CHECK(aoti_record_function_end(range));
  return y;
}
int64_t alive = 0;
struct Object {
  int64_t count = 0;
  Object() {
    ++alive;
  }
  ~Object() {
    --alive;
  }
};
Tensor make() {
  return from_blob(
      new Object,
      {sizeof(Object)},
      {1},
      Device(torch::headeronly::DeviceType::CPU),
      ScalarType::Byte,
      [](void* p) { delete static_cast<Object*>(p); });
}
int64_t next(const Tensor& x) {
  return ++static_cast<Object*>(x.mutable_data_ptr())->count;
}
int64_t living() {
  return alive;
}
int64_t any(StableIValue) {
  return 0;
}
int64_t nested(std::vector<std::vector<int64_t>> x) {
  return x[1][0];
}
STABLE_TORCH_LIBRARY(row_notes, m) {
  m.def("row_notes::fails(Tensor x, int how) -> ()");
  m.def("item(Tensor x) -> float");
  m.def("item_int(Tensor x) -> int");
  m.def("strided(Tensor x, bool reinterpret) -> Tensor");
  m.def("number() -> Tensor");
  m.def("square(Tensor x, bool off) -> Tensor");
  m.def("ranged(Tensor x) -> Tensor");
  m.def("make() -> Tensor");
  m.def("next(Tensor(a!) x) -> int");
  m.def("living() -> int");
  m.def("table(Dict(str, Tensor) x) -> int");
  m.def("pairs((str, int)[] x) -> int");
  m.def("nested(int[][] x) -> int");
}
STABLE_TORCH_LIBRARY_IMPL(row_notes, CPU, m) {
  m.impl("row_notes::fails", TORCH_BOX(&fails));
  m.impl("item", TORCH_BOX(&item));
  m.impl("item_int", TORCH_BOX(&item_int));
  m.impl("strided", TORCH_BOX(&strided));
  m.impl("square", TORCH_BOX(&square));
  m.impl("ranged", TORCH_BOX(&ranged));
  m.impl("next", TORCH_BOX(&next));
}
STABLE_TORCH_LIBRARY_IMPL(row_notes, CompositeExplicitAutograd, m) {
  m.impl("number", TORCH_BOX(&number));
  m.impl("make", TORCH_BOX(&make));
  m.impl("living", TORCH_BOX(&living));
  m.impl("table", TORCH_BOX(&any));
  m.impl("pairs", TORCH_BOX(&any));
  m.impl("nested", TORCH_BOX(&nested));
}
