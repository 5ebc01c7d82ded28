// The names that extensions use, each in a line that runs:
// docs/names_by_example.md. What is newer than 2.10 stands behind a gate.
#include "../../solutions/06_version_gating/compat.h"

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/DeviceType.h>
#include <torch/headeronly/core/Dispatch_v2.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/core/TensorAccessor.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Exception.h>
#include <torch/headeronly/util/Float8_e4m3fn.h>
#include <torch/headeronly/util/Float8_e4m3fnuz.h>
#include <torch/headeronly/util/Float8_e5m2.h>
#include <torch/headeronly/util/Float8_e5m2fnuz.h>
#include <torch/headeronly/util/Float8_e8m0fnu.h>
#include <torch/headeronly/util/Half.h>
#include <torch/headeronly/util/bit_cast.h>
#include <torch/headeronly/util/complex.h>
#include <torch/headeronly/util/shim_utils.h>
#if COMPAT_HEADERS(2, 15)
#include <torch/headeronly/util/TypeCast.h>
#endif
#if COMPAT_TARGET(2, 13)
#include <torch/csrc/stable/generator.h>
#endif
#if COMPAT_TARGET(2, 14)
#include <torch/csrc/stable/pyobject.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace {

//! [short]
using torch::headeronly::Layout;
using torch::headeronly::MemoryFormat;
using torch::headeronly::ScalarType;
using torch::stable::Device;
using torch::stable::DeviceType;
using torch::stable::Tensor;
//! [short]

//! [device]
std::vector<int64_t> about_device(const Device& device) {
  const Device cpu = DeviceType::CPU; // no index, which is -1
  const Device second("cuda:1"); // libtorch reads the text; no GPU is needed
  Device other(DeviceType::CUDA, 3);
  other.set_index(second.index());
  return {
      device.type() == DeviceType::CUDA,
      device.index(),
      device.has_index(),
      device.is_cpu(),
      device.is_cuda(),
      device == cpu, // the type and the index
      device != other};
}
//! [device]

//! [device_types]
// 1 for each type of device that has a place in a slot: the first six.
std::vector<int64_t> types_that_cross() {
  std::vector<int64_t> crosses;
  for (const DeviceType type :
       {DeviceType::CPU,    DeviceType::CUDA,   DeviceType::Meta,
        DeviceType::XPU,    DeviceType::MPS,    DeviceType::PrivateUse1,
        DeviceType::MKLDNN, DeviceType::OPENGL, DeviceType::OPENCL,
        DeviceType::IDEEP,  DeviceType::HIP,    DeviceType::FPGA,
        DeviceType::MAIA,   DeviceType::XLA,    DeviceType::Vulkan,
        DeviceType::Metal,  DeviceType::VE,     DeviceType::Lazy,
        DeviceType::IPU,    DeviceType::HPU,    DeviceType::MTIA}) {
    try {
      const StableIValue slot = torch::stable::detail::from(type);
      crosses.push_back(torch::stable::detail::to<DeviceType>(slot) == type);
    } catch (const std::runtime_error&) {
      crosses.push_back(0);
    }
  }
  return crosses;
}
//! [device_types]

//! [tensor]
std::string describe(const Tensor& x) {
  if (!x.defined()) { // as a Tensor() is
    return "undefined";
  }
  std::ostringstream text;
  text << x.dim() << " dimensions, " << x.numel() << " elements of "
       << x.element_size() << " bytes, "
       << torch::headeronly::toString(x.scalar_type());
  for (int64_t i = 0; i < x.dim(); ++i) {
    text << ", " << x.size(i) << " by " << x.stride(i);
  }
  if (x.dim() > 0) { // -1 is the last dimension, as in Python
    text << ", last " << x.size(-1) << " by " << x.stride(-1);
  }
  text << ", offset " << x.storage_offset();
  text << (x.is_contiguous() ? ", contiguous" : ", not contiguous");
  if (x.is_cpu() && !x.is_cuda() && x.device() == Device("cpu")) {
    const bool same = x.get_device() == x.get_device_index(); // two names
    text << ", CPU, index " << (same ? x.get_device_index() : 0);
  }
#if COMPAT_HEADERS(2, 11)
  text << (x.layout() == Layout::Strided ? ", strided" : ", another layout");
#endif
#if COMPAT_TARGET(2, 14)
  text << (x.has_storage() ? ", with a storage" : ", without a storage");
#endif
  return text.str();
}
//! [tensor]

//! [sizes]
std::vector<int64_t> shapes(const Tensor& x) {
  const auto sizes = x.sizes(); // points into x, as strides() does
  const auto strides = x.strides();
  const auto rest = sizes.slice(1); // all but the first
  return {
      static_cast<int64_t>(sizes.size()),
      sizes[0],
      sizes.back(),
      strides[0],
      static_cast<int64_t>(rest.size()),
      sizes.equals(strides),
      static_cast<int64_t>(rest.vec().size())}; // vec() copies
}
//! [sizes]

//! [pointers]
// out = x + 1, element by element.
void add_one(const Tensor& x, const Tensor& out) {
  STD_TORCH_CHECK(
      x.is_contiguous() && out.is_contiguous() && x.numel() == out.numel(),
      "add_one: x and out must be contiguous and of one size");
  const float* from = x.const_data_ptr<float>(); // looks at the dtype
  float* to = out.mutable_data_ptr<float>();
  const void* bytes = x.const_data_ptr(); // looks at nothing
  STD_TORCH_CHECK(
      bytes == from && out.data_ptr() == to, "add_one: one address");
  for (int64_t i = 0; i < x.numel(); ++i) {
    to[i] = from[i] + 1;
  }
}
//! [pointers]

//! [making]
std::vector<Tensor> make(const Tensor& x) {
  Tensor zeros = torch::stable::empty_like(x);
  torch::stable::zero_(zeros); // takes no const Tensor&, unlike fill_
  const Tensor sevens = torch::stable::new_empty(x, {2});
  torch::stable::fill_(sevens, 7);
  return {
      zeros,
      sevens,
      torch::stable::new_zeros(x, {2}, ScalarType::Long),
      torch::stable::full({2, 2}, 0.5, ScalarType::Double),
      torch::stable::empty( // size, dtype, layout, device, pinned, format
          {1, 2, 3, 4},
          ScalarType::Half,
          Layout::Strided,
          x.device(),
          false,
          MemoryFormat::ChannelsLast)};
}
//! [making]

//! [blob]
// Memory that outlives every tensor: nothing is to be freed.
Tensor around_a_table() {
  static float table[] = {1, 2, 3, 4, 5, 6};
  return torch::stable::from_blob( // data, sizes, strides, device, dtype
      table,
      {2, 3},
      {3, 1},
      DeviceType::CPU,
      ScalarType::Float);
}

std::atomic<int64_t> freed{0};

#if COMPAT_TARGET(2, 11)
// The tensor owns the memory, and ends it by the deleter.
Tensor around_an_array(int64_t n) {
  auto* data = new int64_t[n]();
  return torch::stable::from_blob(
      data, {n}, {1}, DeviceType::CPU, ScalarType::Long, [n](void* memory) {
        delete[] static_cast<int64_t*>(memory);
        freed += n;
      });
}
#endif
//! [blob]

int64_t freed_elements() {
  return freed;
}

//! [views]
// x is [2, 3]. Each of these shares its memory.
std::vector<Tensor> views(Tensor x) {
  using namespace torch::stable;
  return {
      view(x, {3, 2}),
      reshape(x, {-1}), // copies where a view cannot be
      transpose(x, 0, 1),
      narrow(x, 1, 0, 2), // dimension, start, length; takes no const Tensor&
      select(x, 0, -1),
      unsqueeze(x, 0),
      squeeze(unsqueeze(x, 0), 0),
      flatten(x, 0, -1)};
}
//! [views]

//! [copies]
// x is [2, 3]. Each of these has memory of its own.
std::vector<Tensor> copies(const Tensor& x) {
  using namespace torch::stable;
  const int64_t rows[] = {0};
  Tensor filled = empty_like(x);
  copy_(filled, subtract(x, x, -1)); // filled = x - (-1) * x
  Tensor totals = new_empty(x, {3});
  sum_out(totals, x, rows); // out comes first
  return {
      filled,
      clone(x),
      to(x, ScalarType::Double), // x itself, if it is that already
      to(x, Device("cpu"), /*non_blocking=*/false, /*copy=*/true),
      contiguous(transpose(x, 0, 1)),
      totals,
      sum(x), // over everything
      sum(x, rows, /*keepdim=*/true, ScalarType::Double),
      amax(x, 1), // over one dimension
      amax(x, {0, 1}, /*keepdim=*/true),
      matmul(x, transpose(x, 0, 1)),
      pad(x, {1, 2}, "constant", 9)}; // last dimension first: left, right
}
//! [copies]

#if COMPAT_HEADERS(2, 14)
//! [newer]
// Each calls an op that libtorch 2.10 has: only the headers have to be new.
std::vector<Tensor> newer(const Tensor& x, const Tensor& index) {
  using namespace torch::stable;
  std::vector<Tensor> made = {
      permute(x, {1, 0}),
      index_select(x, 1, index),
      floor_divide(x, x),
      bitwise_and(index, index),
      bitwise_or(index, index),
      bitwise_left_shift(index, index),
      bitwise_right_shift(index, index)};
  STD_TORCH_CHECK(!is_pinned(x), "newer: x is in plain memory");
#if COMPAT_HEADERS(2, 15)
  auto [values, places] = sort(x, /*dim=*/1, /*descending=*/true);
  made.insert(made.end(), {values, places});
#endif
  return made;
}
//! [newer]
#endif

//! [checks]
void check(const Tensor& x, int64_t how) {
  STD_TORCH_CHECK(
      how != 0, "check: how is ", how, ", x has ", x.dim(), " dims");
  STD_TORCH_CHECK(how != 1);
  int64_t size = 0;
  if (how == 2) { // x has no dimension 9
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_size(x.get(), 9, &size));
  }
#if COMPAT_HEADERS(2, 13)
  if (how == 3) {
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_size(x.get(), 9, &size));
  }
#endif
}
//! [checks]

int64_t index_of(const std::string& device) {
  return Device(device).index();
}

//! [dtypes]
using torch::headeronly::CppTypeToScalarType;
using torch::headeronly::impl::ScalarTypeToCPPTypeT;
static_assert(CppTypeToScalarType<int64_t>::value == ScalarType::Long);
static_assert(std::is_same_v<ScalarTypeToCPPTypeT<ScalarType::Byte>, uint8_t>);

// The names of a list, with the size of each type.
std::string list_of_types() {
  std::ostringstream text;
#define ADD(ctype, name) text << #name << " " << sizeof(ctype) << ", ";
  AT_FORALL_SCALAR_TYPES_AND2(Half, BFloat16, ADD)
  AT_FORALL_COMPLEX_TYPES(ADD)
  AT_FORALL_FLOAT8_TYPES(ADD)
  AT_FORALL_QINT_TYPES(ADD)
#undef ADD
  int integers = 0;
#define COUNT(ctype, name) ++integers;
  AT_FORALL_INT_TYPES(COUNT)
#undef COUNT
  text << integers << " integers, ";
  text << torch::headeronly::toString(ScalarType::QUInt8) << " is "
       << torch::headeronly::toUnderlying(ScalarType::QUInt8) << ", "
       << torch::headeronly::isQIntType(ScalarType::Float);
  return text.str();
}
//! [dtypes]

//! [dispatch]
// "twice" is for the error. The second brackets keep commas together.
Tensor twice(const Tensor& x) {
  STD_TORCH_CHECK(x.is_contiguous(), "twice: x must be contiguous");
  Tensor out = torch::stable::empty_like(x);
  THO_DISPATCH_V2(
      x.scalar_type(),
      "twice",
      AT_WRAP(([&] {
        const scalar_t* from = x.const_data_ptr<scalar_t>();
        scalar_t* to = out.mutable_data_ptr<scalar_t>();
        for (int64_t i = 0; i < x.numel(); ++i) {
          to[i] = static_cast<scalar_t>(from[i] + from[i]);
        }
      })),
      AT_EXPAND(AT_ALL_TYPES),
      ScalarType::Half,
      ScalarType::BFloat16);
  return out;
}

// Case by case: each has a body of its own, and all return one type.
int64_t digits(const Tensor& x) {
  return THO_DISPATCH_SWITCH(
      x.scalar_type(), "digits", THO_DISPATCH_CASE(ScalarType::Float, [] {
        return std::numeric_limits<scalar_t>::digits;
      }) THO_DISPATCH_CASE(ScalarType::Half, [] { return 11; }));
}
//! [dispatch]

//! [accessor]
// The sum of a float matrix of any strides.
double total(const Tensor& x) {
  STD_TORCH_CHECK(x.dim() == 2, "total: x must have 2 dimensions");
  const torch::headeronly::HeaderOnlyTensorAccessor<const float, 2> at(
      x.const_data_ptr<float>(), x.sizes().data(), x.strides().data());
  double sum = 0;
  for (int64_t i = 0; i < at.size(0); ++i) {
    for (int64_t j = 0; j < at.size(1); ++j) {
      sum += at[i][j]; // no check of i or j
    }
  }
  return sum;
}
//! [accessor]

//! [packed]
// A packed one copies sizes and strides, so that a kernel can take it by value.
std::vector<int64_t> packed(const Tensor& x, int64_t dimension) {
  STD_TORCH_CHECK(x.dim() == 2, "packed: x must have 2 dimensions");
  using torch::headeronly::DefaultPtrTraits;
  using torch::headeronly::HeaderOnlyGenericPackedTensorAccessor;
  const HeaderOnlyGenericPackedTensorAccessor<
      const float,
      2,
      DefaultPtrTraits,
      int32_t>
      at(x.const_data_ptr<float>(), x.sizes().data(), x.strides().data());
  const auto turned = at.transpose(0, static_cast<int32_t>(dimension));
  return {turned.size(0), turned.stride(0), at.size(0), at.stride(0)};
}
//! [packed]

//! [numbers]
std::vector<double> rounded(double value) {
  using namespace torch::headeronly;
  const auto x = static_cast<float>(value);
  const complex<float> turned = complex<float>(x, 0) * complex<float>(0, 1);
  return {
      Half(x), // a conversion rounds to nearest, ties to even
      BFloat16(x),
      Float8_e4m3fn(x),
      Float8_e4m3fnuz(x),
      Float8_e5m2(x),
      Float8_e5m2fnuz(x),
      Float8_e8m0fnu(x), // a power of two, without a sign
      turned.real(),
      turned.imag(),
      static_cast<double>(Half(1) + Half(x)), // each operation rounds
      static_cast<double>(bit_cast<uint16_t>(Half(x))),
      static_cast<double>(Half(x).x)}; // the bits again
}
//! [numbers]

#if COMPAT_HEADERS(2, 15)
//! [convert]
std::vector<double> converted(double value) {
  using namespace torch::headeronly;
  return {
      static_cast<double>(convert<int32_t>(value)),
      convert<double>(complex<double>(value, 5)), // the real part
      static_cast<double>(convert<bool>(value)),
      static_cast<double>(checked_convert<int8_t>(value, "int8_t"))};
}
//! [convert]
#endif

//! [handles]
// How many dimensions x has, by a handle of one's own.
int64_t dimensions(const Tensor& x) {
  AtenTensorHandle again = nullptr; // a second handle of the same tensor
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(x.get(), &again));
  int64_t dim = 0;
  // aoti_torch_get_dim borrows the handle. x lives on when it is deleted.
  const AOTITorchError code = aoti_torch_get_dim(again, &dim);
  TORCH_ERROR_CODE_CHECK(aoti_torch_delete_tensor_object(again));
  TORCH_ERROR_CODE_CHECK(code);
  return dim;
}

// The diagonal of a matrix, which shares its memory.
Tensor diagonal(const Tensor& x) {
  STD_TORCH_CHECK(x.dim() == 2, "diagonal: x must have 2 dimensions");
  const int64_t sizes[] = {std::min(x.size(0), x.size(1))};
  const int64_t strides[] = {x.stride(0) + x.stride(1)};
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch__reinterpret_tensor(
      x.get(), 1, sizes, strides, /*storage_offset=*/0, &made));
  return Tensor(made); // takes the handle over
}

// Zeros, column by column.
Tensor zeros_by_column(int64_t rows, int64_t columns) {
  const int64_t sizes[] = {rows, columns}, strides[] = {1, rows};
  AtenTensorHandle made = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      2,
      sizes,
      strides,
      aoti_torch_dtype_float32(),
      aoti_torch_device_type_cpu(),
      0,
      &made));
  const Tensor zeros(made);
  TORCH_ERROR_CODE_CHECK(aoti_torch_zero_(made)); // borrows it
  return zeros;
}
//! [handles]

//! [items]
// The numbers of three tensors of one element each.
std::vector<double> items(const Tensor& f, const Tensor& i, const Tensor& b) {
  double real = 0;
  int64_t whole = 0;
  bool truth = false;
  TORCH_ERROR_CODE_CHECK(aoti_torch_item_float64(f.get(), &real));
  TORCH_ERROR_CODE_CHECK(aoti_torch_item_int64(i.get(), &whole));
  TORCH_ERROR_CODE_CHECK(aoti_torch_item_bool(b.get(), &truth));
  return {real, static_cast<double>(whole), static_cast<double>(truth)};
}

// Each number becomes a tensor without dimensions, on the CPU.
std::tuple<Tensor, Tensor> scalars(double real, int64_t whole) {
  AtenTensorHandle f = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_scalar_to_tensor_float64(real, &f));
  Tensor first(f); // owned, before the next call can throw
  AtenTensorHandle i = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_scalar_to_tensor_int64(whole, &i));
  return {first, Tensor(i)};
}
//! [items]

//! [layouts]
// The shim needs no headers of 2.11 for this.
bool is_strided(const Tensor& x) {
  int32_t layout = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(x.get(), &layout));
  return layout == aoti_torch_layout_strided();
}
//! [layouts]

//! [modes]
struct NoGrad { // restores the mode when an exception passes, too
  const bool before = aoti_torch_grad_mode_is_enabled();
  NoGrad() {
    aoti_torch_grad_mode_set_enabled(false);
  }
  ~NoGrad() {
    aoti_torch_grad_mode_set_enabled(before);
  }
};

struct Range { // a range in the profiler
  AtenRecordFunctionHandle handle = nullptr;
  explicit Range(const char* name) {
    TORCH_ERROR_CODE_CHECK(
        aoti_record_function_start(name, nullptr, nullptr, 0, &handle));
  }
  ~Range() {
    static_cast<void>(aoti_record_function_end(handle));
  }
};

std::vector<int64_t> modes(const Tensor& x) {
  const Range range("examples_range");
  const int64_t outside = aoti_torch_grad_mode_is_enabled();
  const NoGrad guard;
  if (!x.is_contiguous()) {
    aoti_torch_warn(
        __func__,
        __FILE__,
        static_cast<uint32_t>(__LINE__),
        "modes: x is not contiguous");
  }
  return {outside, aoti_torch_grad_mode_is_enabled()};
}
//! [modes]

//! [slots]
// aten::sum.dim_IntList(Tensor, int[1]?, bool, ScalarType?) -> Tensor
Tensor sum_by_name(const Tensor& x, int64_t dim) {
  using torch::stable::detail::from;
  using torch::stable::detail::to;
  std::array<StableIValue, 4> stack{
      from(x), // a new handle, which the slot owns
      from(std::optional(std::vector<int64_t>{dim})), // a slot on the heap
      from(true),
      from(std::optional<ScalarType>())}; // None: a null, which owns nothing
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(
      "aten::sum", "dim_IntList", stack.data(), TORCH_ABI_VERSION));
  return to<Tensor>(stack[0]); // takes the handle over
}

// A string into a slot and out of it; the second call frees it.
std::string there_and_back(const std::string& text) {
  const StableIValue slot = torch::stable::detail::from(text);
  return torch::stable::detail::to<std::string>(slot);
}
//! [slots]

//! [threads]
// Which thread computed each of n elements, and then how many there may be.
Tensor who(int64_t n) {
  const Tensor out = torch::stable::empty({n + 1}, ScalarType::Long);
  auto* to = out.mutable_data_ptr<int64_t>();
  torch::stable::parallel_for(
      0, n, /*grain_size=*/1, [to](int64_t begin, int64_t end) {
        uint32_t thread = 0;
        TORCH_ERROR_CODE_CHECK(torch_get_thread_idx(&thread));
        for (int64_t i = begin; i < end; ++i) {
          to[i] = thread;
        }
      });
  to[n] = torch::stable::get_num_threads();
  return out;
}
//! [threads]

// Each of these throws where there is no accelerator. names.cu has the rest.
void ask_accelerator(int64_t how) {
  using namespace torch::stable::accelerator;
  if (how == 0) {
    const DeviceGuard guard(0);
  } else if (how == 1) {
    getCurrentStream(0);
  } else {
    getCurrentDeviceIndex();
  }
}

#if COMPAT_TARGET(2, 13)
//! [generator]
// n numbers, drawn from a generator of Python.
Tensor draw(const torch::stable::Generator& generator, int64_t n) {
  using torch::stable::detail::from;
  const Device device = generator.device();
  const Tensor out = torch::stable::empty(
      {n}, ScalarType::Double, std::nullopt, device, std::nullopt);
  std::array<StableIValue, 4> stack{
      from(out), from(0.0), from(1.0), from(std::optional(generator))};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(
      "aten::uniform_", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// Both handles are of one state; the second is released here.
bool shares_its_state(const torch::stable::Generator& generator) {
  AtenGeneratorHandle again = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(
      torch_new_generator_handle(generator.get(), &again));
  const torch::stable::Generator second(again); // takes it over
  return second.get() == again && second.device() == generator.device();
}
//! [generator]
#endif

#if COMPAT_HEADERS(2, 14)
//! [dynamic]
// The fallback has the types of the function that it stands in for.
AOTITorchError no_has_storage(AtenTensorHandle /*x*/, bool* /*found*/) {
  return TORCH_FAILURE;
}

// 1 or 0, and -1 where libtorch is older than 2.14. The target may be 2.10.
int64_t has_storage(const Tensor& x) {
  bool found = false;
  const AOTITorchError code = TORCH_DYNAMIC_VERSION_CALL(
      COMPAT_VERSION(2, 14),
      torch_has_storage,
      no_has_storage,
      x.get(),
      &found);
  return code == TORCH_SUCCESS ? found : -1;
}
//! [dynamic]
#endif

//! [registration]
STABLE_TORCH_LIBRARY(examples, m) { // once for a namespace
  m.def("about_device(Device device) -> int[]");
  m.def("twice(Tensor x) -> Tensor");
  m.def("add_one(Tensor x, Tensor(a!) out) -> ()"); // the mark: it is written
}

STABLE_TORCH_LIBRARY_FRAGMENT(examples, m) { // as often as you like
#if COMPAT_TARGET(2, 13)
  m.set_python_module("examples.fakes"); // for the ops that follow
#endif
#if COMPAT_TARGET(2, 12)
  m.def("digits(Tensor x) -> int", {at::Tag::pt2_compliant_tag});
#else
  m.def("digits(Tensor x) -> int");
#endif
}

STABLE_TORCH_LIBRARY_IMPL(examples, CPU, m) { // one for each dispatch key
  m.impl("twice", TORCH_BOX(&twice));
  m.impl("add_one", TORCH_BOX(&add_one));
  m.impl("digits", TORCH_BOX(&digits));
}

// An op without a tensor has no backend, so this key stands for all of them.
STABLE_TORCH_LIBRARY_IMPL(examples, CompositeExplicitAutograd, m) {
  m.impl("about_device", TORCH_BOX(&about_device));
}
//! [registration]

std::string describe_undefined() {
  return describe(Tensor());
}

STABLE_TORCH_LIBRARY_FRAGMENT(examples, m) {
  m.def("types_that_cross() -> int[]");
  m.def("describe(Tensor x) -> str");
  m.def("describe_undefined() -> str");
  m.def("shapes(Tensor x) -> int[]");
  m.def("make(Tensor x) -> Tensor[]");
  m.def("around_a_table() -> Tensor");
  m.def("freed_elements() -> int");
  m.def("views(Tensor x) -> Tensor[]");
  m.def("copies(Tensor x) -> Tensor[]");
  m.def("check(Tensor x, int how) -> ()");
  m.def("index_of(str device) -> int");
  m.def("list_of_types() -> str");
  m.def("total(Tensor x) -> float");
  m.def("packed(Tensor x, int dimension) -> int[]");
  m.def("rounded(float value) -> float[]");
  m.def("dimensions(Tensor x) -> int");
  m.def("diagonal(Tensor x) -> Tensor");
  m.def("zeros_by_column(int rows, int columns) -> Tensor");
  m.def("items(Tensor f, Tensor i, Tensor b) -> float[]");
  m.def("scalars(float real, int whole) -> (Tensor, Tensor)");
  m.def("is_strided(Tensor x) -> bool");
  m.def("modes(Tensor x) -> int[]");
  m.def("sum_by_name(Tensor x, int dim) -> Tensor");
  m.def("there_and_back(str text) -> str");
  m.def("who(int n) -> Tensor");
  m.def("ask_accelerator(int how) -> ()");
#if COMPAT_TARGET(2, 11)
  m.def("around_an_array(int n) -> Tensor");
#endif
#if COMPAT_TARGET(2, 13)
  m.def("draw(Generator generator, int n) -> Tensor");
  m.def("shares_its_state(Generator generator) -> bool");
#endif
#if COMPAT_HEADERS(2, 14)
  m.def("newer(Tensor x, Tensor index) -> Tensor[]");
  m.def("has_storage(Tensor x) -> int");
#endif
#if COMPAT_HEADERS(2, 15)
  m.def("converted(float value) -> float[]");
#endif
}

STABLE_TORCH_LIBRARY_IMPL(examples, CompositeExplicitAutograd, m) {
  m.impl("types_that_cross", TORCH_BOX(&types_that_cross));
  m.impl("describe", TORCH_BOX(&describe));
  m.impl("describe_undefined", TORCH_BOX(&describe_undefined));
  m.impl("shapes", TORCH_BOX(&shapes));
  m.impl("around_a_table", TORCH_BOX(&around_a_table));
  m.impl("freed_elements", TORCH_BOX(&freed_elements));
  m.impl("index_of", TORCH_BOX(&index_of));
  m.impl("list_of_types", TORCH_BOX(&list_of_types));
  m.impl("rounded", TORCH_BOX(&rounded));
  m.impl("dimensions", TORCH_BOX(&dimensions));
  m.impl("zeros_by_column", TORCH_BOX(&zeros_by_column));
  m.impl("scalars", TORCH_BOX(&scalars));
  m.impl("is_strided", TORCH_BOX(&is_strided));
  m.impl("there_and_back", TORCH_BOX(&there_and_back));
  m.impl("who", TORCH_BOX(&who));
  m.impl("ask_accelerator", TORCH_BOX(&ask_accelerator));
#if COMPAT_TARGET(2, 11)
  m.impl("around_an_array", TORCH_BOX(&around_an_array));
#endif
#if COMPAT_TARGET(2, 13)
  m.impl("draw", TORCH_BOX(&draw));
  m.impl("shares_its_state", TORCH_BOX(&shares_its_state));
#endif
#if COMPAT_HEADERS(2, 14)
  m.impl("has_storage", TORCH_BOX(&has_storage));
#endif
#if COMPAT_HEADERS(2, 15)
  m.impl("converted", TORCH_BOX(&converted));
#endif
}

STABLE_TORCH_LIBRARY_IMPL(examples, CPU, m) {
  m.impl("make", TORCH_BOX(&make));
  m.impl("views", TORCH_BOX(&views));
  m.impl("copies", TORCH_BOX(&copies));
  m.impl("check", TORCH_BOX(&check));
  m.impl("total", TORCH_BOX(&total));
  m.impl("packed", TORCH_BOX(&packed));
  m.impl("diagonal", TORCH_BOX(&diagonal));
  m.impl("items", TORCH_BOX(&items));
  m.impl("modes", TORCH_BOX(&modes));
  m.impl("sum_by_name", TORCH_BOX(&sum_by_name));
#if COMPAT_HEADERS(2, 14)
  m.impl("newer", TORCH_BOX(&newer));
#endif
}

} // namespace

#if COMPAT_TARGET(2, 14)
//! [pyobject]
// For ctypes.PyDLL, or another binding that holds the GIL while it calls. An
// exception must not leave extern "C", so a failure is a null.
extern "C" void* examples_zeros_like(void* object) { // borrows object
  try {
    const Tensor x = torch::stable::tensor_from_pyobject(object); // shares it
    Tensor zeros = torch::stable::empty_like(x);
    torch::stable::zero_(zeros);
    return torch::stable::tensor_to_pyobject(zeros); // the caller's reference
  } catch (const std::exception&) {
    return nullptr;
  }
}

#if COMPAT_TARGET(2, 15)
// The dtype, the device, or the tensor that object is, as an object of Python.
extern "C" void* examples_copy(void* object, int kind) {
  using namespace torch::stable;
  try {
    if (is_tensor_pyobject(object)) {
      return tensor_to_pyobject(clone(tensor_from_pyobject(object)));
    }
    return kind == 0 ? dtype_to_pyobject(dtype_from_pyobject(object))
                     : device_to_pyobject(device_from_pyobject(object));
  } catch (const std::exception&) {
    return nullptr;
  }
}
#endif
//! [pyobject]
#endif
