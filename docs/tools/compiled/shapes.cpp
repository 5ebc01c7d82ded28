// The kernels of docs/tools/compiled: an op for each shape of schema. Python
// defines the schemas, since tags can be set there alone.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <tuple>
#include <vector>

using torch::stable::Tensor;

namespace {

Tensor plus_one(const Tensor& x) {
  Tensor y = torch::stable::clone(x);
  float* data = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < y.numel(); ++i) {
    data[i] += 1;
  }
  return y;
}

void write(Tensor out, Tensor x) {
  torch::stable::copy_(out, plus_one(x));
}

Tensor write_return(Tensor out, Tensor x) {
  write(out, x);
  return out;
}

Tensor write_last(Tensor x, Tensor out) {
  return write_return(out, x);
}

Tensor in_place(Tensor x) {
  return write_return(x, x);
}

Tensor write_fresh(Tensor out, Tensor x) {
  write(out, x);
  return plus_one(out);
}

std::tuple<Tensor, Tensor> write_two(Tensor out, Tensor x) {
  return {write_fresh(out, x), plus_one(x)};
}

std::vector<Tensor> write_list(Tensor out, Tensor x) {
  return {write_fresh(out, x), plus_one(x)};
}

int64_t write_int(Tensor out, Tensor x) {
  write(out, x);
  return out.numel();
}

void write_optional(std::optional<Tensor> out, Tensor x) {
  if (out) {
    write(*out, x);
  }
}

void write_each(std::vector<Tensor> outs, Tensor x) {
  for (const Tensor& out : outs) {
    write(out, x);
  }
}

std::vector<Tensor> list(Tensor x) {
  return {plus_one(x), plus_one(plus_one(x))};
}

int64_t number(Tensor x) {
  return x.numel();
}

Tensor view(Tensor x) {
  return torch::stable::narrow(x, 0, 0, 1);
}

} // namespace

STABLE_TORCH_LIBRARY_IMPL(shapes, CPU, m) {
  m.impl("fresh", TORCH_BOX(&plus_one));
  m.impl("number", TORCH_BOX(&number));
  m.impl("list", TORCH_BOX(&list));
  m.impl("write", TORCH_BOX(&write));
  m.impl("write_optional", TORCH_BOX(&write_optional));
  m.impl("write_each", TORCH_BOX(&write_each));
  m.impl("write_fresh", TORCH_BOX(&write_fresh));
  m.impl("write_two", TORCH_BOX(&write_two));
  m.impl("write_list", TORCH_BOX(&write_list));
  m.impl("write_int", TORCH_BOX(&write_int));
  m.impl("write_return", TORCH_BOX(&write_return));
  m.impl("plain.out", TORCH_BOX(&write_last));
  m.impl("tagged.out", TORCH_BOX(&write_last));
  m.impl("variant.out", TORCH_BOX(&write_last));
  m.impl("in_place_", TORCH_BOX(&in_place));
  m.impl("tagged_in_place_", TORCH_BOX(&in_place));
  m.impl("view", TORCH_BOX(&view));
  m.impl("unmarked", TORCH_BOX(&write));
  m.impl("unmarked_optional", TORCH_BOX(&write_optional));
}
