// aten::topk by name: a declaration and a call. A program, and with -shared a
// library for `./workbook schemas`.
#include "call_op.h"

#include <torch/csrc/stable/ops.h>

#include <cstdio>

using namespace wb;

int main() {
  const Tensor x = torch::stable::full({4}, 0.5);
  x.mutable_data_ptr<float>()[1] = 3;
  x.mutable_data_ptr<float>()[3] = 9;

  //! [topk]
  static constexpr OpDecl<std::tuple<Tensor, Tensor>(
      Tensor, int64_t, int64_t, bool, bool)>
      topk{"aten::topk", ""};

  const auto [values, indices] = call<topk>(x, 2, -1, true, true);
  //! [topk]

  for (int64_t i = 0; i < values.numel(); ++i) {
    std::printf(
        "%g at %d\n",
        static_cast<double>(values.const_data_ptr<float>()[i]),
        static_cast<int>(indices.const_data_ptr<int64_t>()[i]));
  }
}
