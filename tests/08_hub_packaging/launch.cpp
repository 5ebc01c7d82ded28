// What chapter 08's launches ask of CUDA, on a GPU that is pretended:
// test_package.py compiles it with the package's activation.cu.
#include "../07_cuda_activation_kernel/fake_gpu.h"
#include "activation_cuda/launch_activation.h"

#include <cstdio>
#include <cstdlib>
#include <string>

using namespace wb;

namespace {

void check(bool right, const std::string& what) {
  if (!right) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::exit(1);
  }
}

// Of rows x d elements, at addresses where there is no memory.
std::string call(
    OpKind op, Dtype dtype, int64_t rows, int64_t d, int offset = 0) {
  const uint64_t input = (uint64_t{1} << 50) + static_cast<uint64_t>(offset);
  const bool interleaved = op == OpKind::kSwigluoaiAndMul;
  const bool one = op >= OpKind::kSilu;
  const int64_t up = interleaved ? 1 : one ? 0 : d;
  const Rows layout{
      reinterpret_cast<const void*>(input),
      reinterpret_cast<const void*>(
          input + static_cast<uint64_t>(up * element_size(dtype))),
      reinterpret_cast<void*>(uint64_t{3} << 50),
      rows,
      d,
      one ? d : 2 * d,
      interleaved ? 2 : 1};
  const char* const error =
      cuda::launch_activation(op, dtype, layout, {}, pretend::stream_of(1));
  return error == nullptr ? "" : error;
}

constexpr OpKind kOps[] = {
    OpKind::kSiluAndMul,
    OpKind::kGeluAndMul,
    OpKind::kGeluTanhAndMul,
    OpKind::kFatreluAndMul,
    OpKind::kSiluAndMulWithClamp,
    OpKind::kSwigluoaiAndMul,
    OpKind::kSilu,
    OpKind::kGelu,
    OpKind::kGeluTanh,
    OpKind::kGeluQuick};
constexpr Dtype kDtypes[] = {Dtype::kFloat, Dtype::kHalf, Dtype::kBFloat16};

} // namespace

int main() {
  auto& state = pretend::state();
  std::set<const void*> kernels;
  for (const OpKind op : kOps) {
    for (const Dtype dtype : kDtypes) {
      for (const int offset : {0, 8, 4, 2}) { // 16, 8, 4 and 2 bytes at once
        if (offset % element_size(dtype) != 0) {
          continue;
        }
        const pretend::Pretend gpu;
        const std::string error = call(op, dtype, 16, 64, offset);
        check(error.empty(), error);
        check(state.launches.size() == 1, "it is one launch");
        check(state.launches[0].stream == pretend::stream_of(1), "the stream");
        kernels.insert(state.launches[0].kernel);
      }
    }
  }
  check(kernels.size() == 10 * (4 + 4 + 3), "a kernel is used for two ops");
  {
    const pretend::Pretend gpu; // an error that someone else has left
    state.error = 719;
    check(call(OpKind::kSilu, Dtype::kHalf, 4, 64).empty(), "blamed for it");
    check(state.error == 719, "taken from those whose it is");
  }
  {
    const pretend::Pretend gpu;
    state.fail_next = 719;
    check(
        call(OpKind::kSilu, Dtype::kHalf, 4, 64) ==
            "unspecified launch failure",
        "why");
    check(state.error == 0, "its own error is left behind");
  }
  {
    const pretend::Pretend gpu; // the first launch, while a graph is captured
    state.loaded.clear();
    state.capturing = true;
    const std::string error = call(OpKind::kGelu, Dtype::kFloat, 4, 64);
    check(error.empty(), error);
    check(state.mode == pretend::kGlobal, "the mode is another than before");
  }
  for (const OpKind op :
       {OpKind::kSiluAndMul, OpKind::kSwigluoaiAndMul, OpKind::kSilu}) {
    const pretend::Pretend gpu; // a row of more vectors than a launch takes
    const int64_t d = (int64_t{1} << 31) + 1;
    check(call(op, Dtype::kHalf, 2, d, 2).empty(), "a long row");
    uint64_t threads = 0;
    for (const auto& launched : state.launches) {
      threads += launched.blocks * launched.threads;
    }
    check(state.launches.size() == 1, "the plain kernel takes it");
    check(threads >= static_cast<uint64_t>(2 * d), "all of it");
  }
}
