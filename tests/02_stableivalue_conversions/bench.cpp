// A list of eight tensors out of its slot and into a new one, inside an op that
// is called by name: by hand against torch::stable::detail::{from,to}.
#include "bench/bench.h"
#include "testing/dispatcher.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace {

using torch::stable::Tensor;
using Tensors = std::vector<Tensor>;
namespace theirs = torch::stable::detail; // PyTorch's own conversions

void exchange(StableIValue* stack, uint64_t, uint64_t) {
  stack[0] = theirs::from(theirs::to<Tensors>(stack[0]));
}

} // namespace

// As the library's op: libtorch lets the 64 bits of an `int` through.
STABLE_TORCH_LIBRARY(wb02_bench, m) {
  m.def("raw_tensors(int slot) -> int");
}
STABLE_TORCH_LIBRARY_IMPL(wb02_bench, CompositeExplicitAutograd, m) {
  m.impl("raw_tensors", exchange);
}

namespace workbook {
namespace {

// A slot that an op empties, and fills anew with the same tensors.
class Exchange {
 public:
  explicit Exchange(const char* op)
      : op_(op),
        tensors_(8, torch::stable::full({16}, 1)),
        slot_(theirs::from(tensors_)) {}
  ~Exchange() {
    theirs::to<Tensors>(slot_);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void run() {
    call_op(op_, "", &slot_);
  }
  std::string check() {
    const auto result = theirs::to<Tensors>(slot_);
    slot_ = theirs::from(result);
    if (result.size() != tensors_.size()) {
      return std::to_string(result.size()) + " tensors came back";
    }
    for (size_t i = 0; i < result.size(); ++i) {
      if (result[i].data_ptr() != tensors_[i].data_ptr()) {
        return "tensor " + std::to_string(i) + " is another one";
      }
    }
    return "";
  }

 private:
  std::string op_;
  Tensors tensors_;
  StableIValue slot_;
};

Member member(const char* name, Role role, const char* op) {
  const auto it = std::make_shared<Exchange>(op);
  return {name, role, [it] { it->run(); }, [] {}, [it] { return it->check(); }};
}

std::vector<Group> groups(bool) {
  return {
      {"list of tensors",
       "float",
       "8 tensors",
       "warm",
       0,
       1,
       {member(
            "PyTorch's from and to", Role::kFloor, "wb02_bench::raw_tensors"),
        member("by hand", Role::kSubject, "wb02::raw_tensors")}}};
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  return workbook::run_benchmarks(workbook::groups, argc, argv);
}
