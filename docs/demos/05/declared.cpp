// The same sum, declared with call_op.h: without its dtype, or with it. A
// program, and with -shared a library for `./workbook schemas`.
#include "call_op.h"

#include <torch/csrc/stable/ops.h>

#include <cstdio>

using namespace wb;
using Dims = std::vector<int64_t>;
using MaybeDims = std::optional<Dims>;
using MaybeDtype = std::optional<ScalarType>;

#ifndef DTYPE
constexpr OpDecl<Tensor(Tensor, MaybeDims, bool)> sum_dim{
    "aten::sum", "dim_IntList"};
Tensor total(const Tensor& x) {
  return call<sum_dim>(x, Dims{0}, false);
}
#else
constexpr OpDecl<Tensor(Tensor, MaybeDims, bool, MaybeDtype)> sum_dim{
    "aten::sum", "dim_IntList"};
Tensor total(const Tensor& x) {
  return call<sum_dim>(x, Dims{0}, false, std::nullopt);
}
#endif

int main() {
  const Tensor y = total(torch::stable::full({4}, 0.75));
  std::printf(
      "  0.75 + 0.75 + 0.75 + 0.75 = %g\n",
      static_cast<double>(*y.const_data_ptr<float>()));
}
