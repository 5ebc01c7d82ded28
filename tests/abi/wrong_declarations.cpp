// Wrong declarations, the published ones among them. They compile without a
// warning; ./workbook schemas must reject each of them, and no other.
#include "call_op.h"

#include <optional>
#include <tuple>
#include <vector>

using wb::call;
using wb::OpDecl;
using wb::Tensor;

namespace {

using Dims = std::optional<std::vector<int64_t>>;
using MaybeTensor = std::optional<Tensor>;
using MaybeInt = std::optional<int64_t>;
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

constexpr OpDecl<Tensor(Tensor)> zeros_like{
    "aten::zeros_like", ""}; // takes six
constexpr OpDecl<Tensor(Tensor, Dims, bool)> sum{"aten::sum", "dim_IntList"};
constexpr OpDecl<Tensor(Tensor, Tensor, double)> add{"aten::add", "Tensor"};
constexpr OpDecl<Tensor(Tensor, bool, int64_t)> cumsum{"aten::cumsum", ""};
constexpr OpDecl<Tensor(Tensor, int64_t, bool)> max{"aten::max", "dim"};
constexpr OpDecl<Tensor(Tensor)> absent{"aten::silu_and_mul", ""};
constexpr OpDecl<Tensor(Tensor)> silu{"aten::silu", ""}; // is right

// Right on 2.10 and 2.11. Since 2.12 it also takes block_table and num_splits.
constexpr OpDecl<Five(
    Tensor, // query, key, value
    Tensor,
    Tensor,
    MaybeTensor, // cum_seq_q, cum_seq_k, max_q, max_k
    MaybeTensor,
    int64_t,
    int64_t,
    double, // dropout_p, is_causal, return_debug_mask
    bool,
    bool,
    std::optional<double>, // scale, window_size_left, window_size_right
    MaybeInt,
    MaybeInt,
    MaybeTensor, // seqused_k, alibi_slopes
    MaybeTensor)>
    flash{"aten::_flash_attention_forward", ""};

} // namespace

extern "C" __attribute__((visibility("default"))) void planted(
    const Tensor& x) {
  call<zeros_like>(x);
  call<sum>(x, Dims(), false);
  call<add>(x, x, 1);
  call<cumsum>(x, false, 1);
  call<max>(x, 0, false);
  call<absent>(x);
  call<silu>(x);
  call<flash>(x, x, x, {}, {}, 1, 1, 0, true, false, {}, {}, {}, {}, {});
}
