#include "activation_cpu.h"
#include "activation_row.h"
#include "parallel.h"

namespace wb {
namespace {

template <typename T>
void compute(const RowOp& op, const Rows& r) {
  const auto* const gates = static_cast<const T*>(r.gate);
  const auto* const ups = static_cast<const T*>(r.up);
  auto* const out = static_cast<T*>(r.out);
  const bool non_temporal = r.rows * r.d * int64_t{sizeof(T)} > kMaxCachedBytes;
  for_each_piece(r.rows, r.d, [&](int64_t row, int64_t first, int64_t n) {
    const int64_t from = row * r.row_stride + first * r.column_stride;
    T* const to = out + row * r.d + first;
    activation_row(op, to, gates + from, ups + from, n, non_temporal);
  });
}

} // namespace

void activation_cpu(
    OpKind op,
    Dtype dtype,
    const Rows& rows,
    const Options& options,
    int32_t /*device*/) {
  const RowOp row_op{op, options};
  switch (dtype) {
    case Dtype::kFloat:
      return compute<float>(row_op, rows);
    case Dtype::kHalf:
      return compute<torch::headeronly::Half>(row_op, rows);
    case Dtype::kBFloat16:
      return compute<torch::headeronly::BFloat16>(row_op, rows);
  }
}

} // namespace wb
