// x.sum(dim=[0]) by name. The schema has four arguments, the call has three:
//   sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *,
//                   ScalarType? dtype=None) -> Tensor
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace convert = torch::stable::detail;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using MaybeDims = std::optional<std::vector<int64_t>>;

//! [total]
Tensor total(const Tensor& x, StableIValue behind) {
  StableIValue memory[] = {
      convert::from(x),                                  // self
      convert::from(MaybeDims(std::vector<int64_t>{0})), // dim
      convert::from(false),                              // keepdim
      behind, // not of this call: what the program keeps behind its slots
  };
  const AOTITorchError code = torch_call_dispatcher(
      "aten::sum", "dim_IntList", memory, TORCH_ABI_VERSION);
  STD_TORCH_CHECK(code == 0, "the call failed");
  return convert::to<Tensor>(memory[0]);
}
//! [total]

int main(int, char** argv) {
  const std::string behind = argv[1]; // "0", "1" or "slot"
  const Tensor x = torch::stable::full({4}, 0.75);
  const Tensor y = total(
      x,
      behind == "slot" ? convert::from(std::optional(ScalarType::Long))
                       : std::stoul(behind));
  const Tensor z = torch::stable::to(y, ScalarType::Double);
  std::printf(
      "  0.75 + 0.75 + 0.75 + 0.75 = %g\n", *z.const_data_ptr<double>());
}
