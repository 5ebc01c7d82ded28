// Published bugs, and others of their kinds, each as a small op, wrong and,
// with RIGHT, right. Schemas and calls are the same in both.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <sys/mman.h>

#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#ifdef RIGHT
constexpr bool kRight = true;
#else
constexpr bool kRight = false;
#endif

namespace bugs {

using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::to;

StableIValue handle_of(const Tensor& tensor) { // borrowed
  return reinterpret_cast<StableIValue>(tensor.get());
}

void call(const char* op, const char* overload, StableIValue* stack) {
  STD_TORCH_CHECK(
      torch_call_dispatcher(op, overload, stack, TORCH_ABI_VERSION) == 0,
      op,
      " failed");
}

// FlashAttention 3's backward (49fb7752): the returns do not begin at slot 0.
void backward(StableIValue* stack, uint64_t, uint64_t) {
  const auto grad = to<Tensor>(stack[0]);
  const auto input = to<Tensor>(stack[1]);
  const auto bias = to<Tensor>(stack[2]);
  const size_t first = kRight ? 0 : 1;
  stack[first] = from(torch::stable::empty_like(grad));
  stack[first + 1] = from(torch::stable::empty_like(input));
}

// torchvision (8d9ccb4): one slot for the six arguments of zeros_like.
Tensor zeros_one_slot(const Tensor& x) {
  StableIValue stack[kRight ? 6 : 1] = {from(x)};
  call("aten::zeros_like", "", stack);
  return to<Tensor>(stack[0]);
}

// The same, in a vector.
Tensor zeros_vector(const Tensor& x) {
  std::vector<StableIValue> stack(kRight ? 6 : 1);
  stack[0] = from(x);
  if (kRight) {
    using namespace torch::headeronly;
    stack[2] = from(std::make_optional(Layout::Strided));
    stack[3] = from(std::make_optional(torch::stable::Device(DeviceType::CPU)));
    stack[5] = from(std::make_optional(MemoryFormat::Preserve));
  }
  call("aten::zeros_like", "", stack.data());
  return to<Tensor>(stack[0]);
}

// torchvision (8d9ccb4): three slots for the four arguments of sum.
Tensor sum_three(const Tensor& x) {
  std::vector<StableIValue> stack(kRight ? 4 : 3);
  stack[0] = from(x);
  stack[1] = from(std::make_optional(std::vector<int64_t>{0}));
  stack[2] = from(false);
  call("aten::sum", "dim_IntList", stack.data());
  return to<Tensor>(stack[0]);
}

// PyTorch's headers up to 2.13 (pytorch#191340): a copy of each str is lost.
void length(StableIValue* stack, uint64_t, uint64_t) {
  const auto handle = to<StringHandle>(stack[0]);
  size_t size = 0;
  const char* data = nullptr;
  torch_string_length(handle, &size);
  torch_string_c_str(handle, &data);
  if (kRight) {
    const std::string copy(data, size);
    size = copy.size();
  } else {
    const auto* copy = new std::string(data, size);
    size = copy->size();
  }
  torch_delete_string(handle);
  to<Tensor>(stack[1]);
  stack[0] = from(static_cast<int64_t>(size));
}

// A str that is given to an op: libtorch up to 2.13 loses it.
Tensor gelu(const Tensor& x) {
  StableIValue stack[] = {from(x), from(std::string("tanh"))};
  call("aten::gelu", "", stack);
  return to<Tensor>(stack[0]);
}

// A handle that is given away, and is its owner's all the same.
Tensor multiply(const Tensor& x) {
  const Tensor y = torch::stable::empty_like(x);
  StableIValue stack[] = {from(x), kRight ? from(y) : handle_of(y)};
  call("aten::mul", "Tensor", stack);
  return to<Tensor>(stack[0]);
}

// One handle in two slots.
Tensor square(const Tensor& x) {
  StableIValue stack[] = {from(x), 0};
  stack[1] = kRight ? from(x) : stack[0];
  call("aten::mul", "Tensor", stack);
  return to<Tensor>(stack[0]);
}

// One handle twice in a list.
Tensor joined(const Tensor& x) {
  StableListHandle list = nullptr;
  torch_new_list_reserve_size(2, &list);
  const StableIValue first = from(x);
  torch_list_push_back(list, first);
  torch_list_push_back(list, kRight ? from(x) : first);
  StableIValue stack[] = {
      reinterpret_cast<StableIValue>(list), from(int64_t{0})};
  call("aten::cat", "", stack);
  return to<Tensor>(stack[0]);
}

// A str that is released as a Tensor.
Tensor named(const Tensor& x) {
  StringHandle text = nullptr;
  torch_new_string_handle("a text that is not so short", 27, &text);
  kRight ? torch_delete_string(text)
         : aoti_torch_delete_tensor_object(
               reinterpret_cast<AtenTensorHandle>(text));
  return x;
}

// A return without a reference: its owner releases it at the closing brace.
void unowned(StableIValue* stack, uint64_t, uint64_t) {
  const auto x = to<Tensor>(stack[0]);
  const Tensor y = torch::stable::empty_like(x);
  stack[0] = kRight ? from(y) : handle_of(y);
}

// An argument that is not read.
void ignored(StableIValue* stack, uint64_t, uint64_t) {
  const auto x = to<Tensor>(stack[0]);
  if (kRight) {
    to<std::optional<Tensor>>(stack[1]);
  }
  stack[0] = from(torch::stable::empty_like(x));
}

// A return of an out variant that is forgotten.
Tensor forgotten(const Tensor& x) {
  const Tensor out = torch::stable::empty_like(x);
  StableIValue stack[] = {from(x), from(x), from(out)};
  call("aten::mul", "out", stack);
  if (kRight) {
    to<Tensor>(stack[0]);
  }
  return out;
}

// `to` twice on one slot.
Tensor twice(const Tensor& x) {
  StableIValue stack[] = {from(x), from(x)};
  call("aten::mul", "Tensor", stack);
  const auto first = to<Tensor>(stack[0]);
  return kRight ? first : to<Tensor>(stack[0]);
}

// A wrong default: a number where the schema has an optional.
Tensor cumulated(const Tensor& x) {
  StableIValue stack[] = {
      from(x),
      from(int64_t{0}),
      kRight ? from(std::optional<c10::ScalarType>(c10::ScalarType::Double))
             : from(c10::ScalarType::Double)};
  call("aten::cumsum", "", stack);
  return to<Tensor>(stack[0]);
}

// An op that this libtorch does not have.
Tensor missing(const Tensor& x) {
  StableIValue stack[] = {from(x)};
  const char* const op = kRight ? "aten::relu" : "aten::no_such_op";
  if (torch_call_dispatcher(op, "", stack, TORCH_ABI_VERSION) != 0) {
    to<Tensor>(stack[0]); // which no one has taken
    return x;
  }
  return to<Tensor>(stack[0]);
}

// An exception overtakes what is not released.
void thrown(StableIValue* stack, uint64_t, uint64_t) {
  if (kRight) {
    to<Tensor>(stack[0]);
  }
  STD_TORCH_CHECK(false, "thrown by bugs.cpp");
}

// Too many slots are written.
void beyond(StableIValue* stack, uint64_t, uint64_t) {
  const auto x = to<Tensor>(stack[0]);
  stack[0] = from(torch::stable::empty_like(x));
  if (!kRight) {
    stack[1] = from(int64_t{7});
  }
}

// An int that is read as a bool: any number but 0 and 1 passes.
Tensor sum_flag(const Tensor& x) {
  StableIValue stack[] = {
      from(x),
      from(std::make_optional(std::vector<int64_t>{0})),
      kRight ? from(true) : from(int64_t{2}),
      0};
  call("aten::sum", "dim_IntList", stack);
  return to<Tensor>(stack[0]);
}

// Schema float, C++ float.
Tensor close(const Tensor& x) {
  StableIValue stack[] = {
      from(x),
      from(x),
      kRight ? from(1e-5) : from(1e-5F),
      from(1e-8),
      from(false)};
  call("aten::allclose", "", stack);
  return x;
}

// Returns whose types do not read the same backwards: libtorch confuses them.
void two(StableIValue* stack, uint64_t, uint64_t) {
  const auto x = to<Tensor>(stack[0]);
  stack[0] = from(x);
  stack[1] = from(std::make_optional(x));
}
void alike(StableIValue* stack, uint64_t, uint64_t) {
  const auto x = to<Tensor>(stack[0]);
  stack[0] = from(x);
  stack[1] = from(x);
}
Tensor confused(const Tensor& x) {
  StableIValue stack[] = {from(x), 0};
  call(kRight ? "bugs::alike" : "bugs::two", "", stack);
  if (kRight) {
    to<Tensor>(stack[1]);
    return to<Tensor>(stack[0]);
  }
  return x;
}

// An int of 32 bits, and one in a list.
Tensor negative(const Tensor& x) {
  const int dim = -1;
  StableIValue stack[] = {from(x), 0, 0};
  stack[1] = kRight ? from(int64_t{dim}) : static_cast<uint32_t>(dim);
  call("aten::softmax", "int", stack);
  return to<Tensor>(stack[0]);
}
Tensor negative_in_list(const Tensor& x) {
  const std::vector<int64_t> dims = {kRight ? -1 : 0xffffffffLL};
  StableIValue stack[] = {from(x), from(std::make_optional(dims)), 0, 0};
  call("aten::sum", "dim_IntList", stack);
  return to<Tensor>(stack[0]);
}

// Short arrays on the heap, shorter than the smallest block.
Tensor vector_of_one(const Tensor& x) {
  std::vector<StableIValue> stack(kRight ? 2 : 1);
  stack[0] = from(x);
  call("aten::sum", "", stack.data());
  return to<Tensor>(stack[0]);
}
Tensor vector_of_two(const Tensor& x) {
  std::vector<StableIValue> stack(kRight ? 3 : 2);
  stack[0] = from(x);
  stack[1] = from(int64_t{0});
  call("aten::cumsum", "", stack.data());
  return to<Tensor>(stack[0]);
}

// Handles that the threads of a loop lose.
Tensor parallel(const Tensor& x) {
  torch::stable::parallel_for(0, 64, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      AtenTensorHandle handle = nullptr;
      aoti_torch_new_tensor_handle(x.get(), &handle);
      if (kRight) {
        aoti_torch_delete_tensor_object(handle);
      }
    }
  });
  return x;
}

// A call that fails, and nobody asks. The right one throws, and catches.
Tensor unasked(const Tensor& x) {
  StableIValue stack[] = {from(x), from(int64_t{7}), 0};
  if (kRight) {
    try {
      call("aten::softmax", "int", stack);
    } catch (const std::exception&) {
    }
  } else {
    torch_call_dispatcher("aten::softmax", "int", stack, TORCH_ABI_VERSION);
  }
  return x;
}

// A code that no dtype has, in an optional.
Tensor dtype(const Tensor& x) {
  auto* const inner = new StableIValue(
      kRight ? from(torch::headeronly::ScalarType::Float)
             : StableIValue{0xffffffff00000000});
  StableIValue stack[] = {from(x), from(int64_t{0}), from(inner)};
  const AOTITorchError failed =
      torch_call_dispatcher("aten::softmax", "int", stack, TORCH_ABI_VERSION);
  return failed ? x : to<Tensor>(stack[0]);
}

// A kernel that asks a slot behind its one argument.
void behind(StableIValue* stack, uint64_t, uint64_t) {
  int64_t dims = 0;
  aoti_torch_get_dim(to<AtenTensorHandle>(stack[kRight ? 0 : 1]), &dims);
}

// A Tensor taken for a list.
void as_list(StableIValue* stack, uint64_t, uint64_t) {
  size_t size = 0;
  if (!kRight) {
    torch_list_size(to<StableListHandle>(stack[0]), &size);
  }
}

// A handle that was not made, because its size was wrong.
Tensor unmade(const Tensor& x) {
  const int64_t size = kRight ? 4 : -4, stride = 1;
  AtenTensorHandle made = nullptr;
  aoti_torch_empty_strided(
      1,
      &size,
      &stride,
      aoti_torch_dtype_float32(),
      aoti_torch_device_type_cpu(),
      0,
      &made);
  return Tensor(made).dim() == 1 ? x : Tensor();
}

// An optional that is None, and one that is not, each taken for a Tensor.
void optional(StableIValue* stack, uint64_t, uint64_t) {
  const auto x = to<Tensor>(stack[0]);
  if (kRight) {
    to<std::optional<Tensor>>(stack[1]);
  } else {
    Tensor(to<AtenTensorHandle>(stack[1])).dim();
  }
  stack[0] = from(x);
}
Tensor none(const Tensor& x) {
  StableIValue stack[] = {from(x), from(std::optional<Tensor>())};
  call("bugs::optional", "", stack);
  return to<Tensor>(stack[0]);
}
Tensor some(const Tensor& x) {
  StableIValue stack[] = {from(x), from(std::make_optional(x))};
  call("bugs::optional", "", stack);
  return to<Tensor>(stack[0]);
}

// A flag taken for a Tensor.
Tensor flag(const Tensor& x) {
  int64_t dims = 0;
  aoti_torch_get_dim(
      kRight ? x.get() : to<AtenTensorHandle>(from(true)), &dims);
  return x;
}

// The address of a text where a str should be.
Tensor literal(const Tensor& x) {
  alignas(8) static const char text[] = "=tanh"; // which is at an odd address
  StableIValue stack[] = {
      from(x),
      kRight ? from(std::string("tanh"))
             : reinterpret_cast<StableIValue>(text + 1)};
  call("aten::gelu", "", stack);
  return to<Tensor>(stack[0]);
}

// An IValue that nobody deletes.
Tensor boxed(const Tensor& x) {
  C10IValueHandle value = nullptr;
  aoti_torch_tensor_to_ivalue(x.get(), &value);
  if (kRight) {
    aoti_torch_delete_c10_value_object(value);
  }
  return x;
}

// The eps of another op, and the lower end of a mask, where an int is read.
Tensor small(const Tensor& x) {
  const double value = kRight ? 0 : 1e-12;
  StableIValue stack[] = {from(x), from(value), from(std::nullopt)};
  call("aten::softmax", "int", stack);
  return to<Tensor>(stack[0]);
}

// Handles that what is static holds, as it is or marked.
AtenTensorHandle new_handle(const Tensor& x) {
  AtenTensorHandle handle = nullptr;
  aoti_torch_new_tensor_handle(x.get(), &handle);
  return handle;
}
Tensor cached(const Tensor& x) {
  static std::unordered_map<int64_t, AtenTensorHandle> handles;
  if (handles.empty()) {
    handles[0] = new_handle(x);
  }
  return x;
}
// A handle lies in memory that processes share.
Tensor shared(const Tensor& x) {
  static auto* const handles = static_cast<AtenTensorHandle*>(mmap(
      nullptr,
      4096,
      PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_ANONYMOUS,
      -1,
      0));
  if (*handles == nullptr) {
    *handles = new_handle(x);
  }
  return x;
}
// Two threads have handles, and still work when the process ends.
Tensor working(const Tensor& x) {
  std::thread([handle = new_handle(x)] {
    for (volatile bool on = true; on;) {
    }
    aoti_torch_delete_tensor_object(handle);
  }).detach();
  std::thread([x] {
    for (;;) {
      aoti_torch_delete_tensor_object(new_handle(x));
    }
  }).detach();
  return x;
}
Tensor cached_by_thread(const Tensor& x) {
  static thread_local std::vector<AtenTensorHandle> handles;
  if (handles.empty()) {
    handles.push_back(new_handle(x));
  }
  return x;
}
Tensor marked(const Tensor& x) {
  static volatile uintptr_t handle = 0;
  if (handle == 0) {
    handle = reinterpret_cast<uintptr_t>(new_handle(x)) | 1;
  }
  return x;
}

// A handle that Python has as an int.
int64_t number(const Tensor& x) {
  return reinterpret_cast<int64_t>(new_handle(x));
}

// What a library keeps is not lost.
Tensor kept(const Tensor& x) {
  static Tensor* const first = new Tensor(torch::stable::empty_like(x));
  return *first;
}

STABLE_TORCH_LIBRARY(bugs, m) {
  m.def("backward(Tensor grad, Tensor input, Tensor bias) -> (Tensor, Tensor)");
  m.def("zeros_one_slot(Tensor x) -> Tensor");
  m.def("zeros_vector(Tensor x) -> Tensor");
  m.def("sum_three(Tensor x) -> Tensor");
  m.def("length(str text, Tensor x) -> int");
  m.def("gelu(Tensor x) -> Tensor");
  m.def("multiply(Tensor x) -> Tensor");
  m.def("square(Tensor x) -> Tensor");
  m.def("joined(Tensor x) -> Tensor");
  m.def("named(Tensor x) -> Tensor");
  m.def("unowned(Tensor x) -> Tensor");
  m.def("ignored(Tensor x, Tensor? scale) -> Tensor");
  m.def("forgotten(Tensor x) -> Tensor");
  m.def("twice(Tensor x) -> Tensor");
  m.def("cumulated(Tensor x) -> Tensor");
  m.def("missing(Tensor x) -> Tensor");
  m.def("thrown(Tensor x) -> Tensor");
  m.def("beyond(Tensor x) -> Tensor");
  m.def("sum_flag(Tensor x) -> Tensor");
  m.def("close(Tensor x) -> Tensor");
  m.def("kept(Tensor x) -> Tensor");
  m.def("two(Tensor x) -> (Tensor, Tensor?)");
  m.def("alike(Tensor x) -> (Tensor, Tensor)");
  m.def("confused(Tensor x) -> Tensor");
  m.def("negative(Tensor x) -> Tensor");
  m.def("negative_in_list(Tensor x) -> Tensor");
  m.def("vector_of_one(Tensor x) -> Tensor");
  m.def("vector_of_two(Tensor x) -> Tensor");
  m.def("parallel(Tensor x) -> Tensor");
  m.def("unasked(Tensor x) -> Tensor");
  m.def("dtype(Tensor x) -> Tensor");
  m.def("behind(Tensor x) -> Tensor");
  m.def("as_list(Tensor x) -> Tensor");
  m.def("small(Tensor x) -> Tensor");
  m.def("unmade(Tensor x) -> Tensor");
  m.def("optional(Tensor x, Tensor? y) -> Tensor");
  m.def("none(Tensor x) -> Tensor");
  m.def("some(Tensor x) -> Tensor");
  m.def("flag(Tensor x) -> Tensor");
  m.def("literal(Tensor x) -> Tensor");
  m.def("boxed(Tensor x) -> Tensor");
  m.def("cached(Tensor x) -> Tensor");
  m.def("shared(Tensor x) -> Tensor");
  m.def("working(Tensor x) -> Tensor");
  m.def("cached_by_thread(Tensor x) -> Tensor");
  m.def("marked(Tensor x) -> Tensor");
  m.def("number(Tensor x) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(bugs, CPU, m) {
  m.impl("backward", &backward);
  m.impl("zeros_one_slot", TORCH_BOX(&zeros_one_slot));
  m.impl("zeros_vector", TORCH_BOX(&zeros_vector));
  m.impl("sum_three", TORCH_BOX(&sum_three));
  m.impl("length", &length);
  m.impl("gelu", TORCH_BOX(&gelu));
  m.impl("multiply", TORCH_BOX(&multiply));
  m.impl("square", TORCH_BOX(&square));
  m.impl("joined", TORCH_BOX(&joined));
  m.impl("named", TORCH_BOX(&named));
  m.impl("unowned", &unowned);
  m.impl("ignored", &ignored);
  m.impl("forgotten", TORCH_BOX(&forgotten));
  m.impl("twice", TORCH_BOX(&twice));
  m.impl("cumulated", TORCH_BOX(&cumulated));
  m.impl("missing", TORCH_BOX(&missing));
  m.impl("thrown", &thrown);
  m.impl("beyond", &beyond);
  m.impl("sum_flag", TORCH_BOX(&sum_flag));
  m.impl("close", TORCH_BOX(&close));
  m.impl("kept", TORCH_BOX(&kept));
  m.impl("two", &two);
  m.impl("alike", &alike);
  m.impl("confused", TORCH_BOX(&confused));
  m.impl("negative", TORCH_BOX(&negative));
  m.impl("negative_in_list", TORCH_BOX(&negative_in_list));
  m.impl("vector_of_one", TORCH_BOX(&vector_of_one));
  m.impl("vector_of_two", TORCH_BOX(&vector_of_two));
  m.impl("parallel", TORCH_BOX(&parallel));
  m.impl("unasked", TORCH_BOX(&unasked));
  m.impl("dtype", TORCH_BOX(&dtype));
  m.impl("behind", &behind);
  m.impl("as_list", &as_list);
  m.impl("small", TORCH_BOX(&small));
  m.impl("unmade", TORCH_BOX(&unmade));
  m.impl("optional", &optional);
  m.impl("none", TORCH_BOX(&none));
  m.impl("some", TORCH_BOX(&some));
  m.impl("flag", TORCH_BOX(&flag));
  m.impl("literal", TORCH_BOX(&literal));
  m.impl("boxed", TORCH_BOX(&boxed));
  m.impl("cached", TORCH_BOX(&cached));
  m.impl("shared", TORCH_BOX(&shared));
  m.impl("working", TORCH_BOX(&working));
  m.impl("cached_by_thread", TORCH_BOX(&cached_by_thread));
  m.impl("marked", TORCH_BOX(&marked));
  m.impl("number", TORCH_BOX(&number));
}

} // namespace bugs
