// Tests of chapter 02: a case a step, a subcase a row of the conversion table,
// and what libtorch and its headers themselves lose, by version.
#include "02_conversions.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"
#include "testing/ledger.h"
#include "testing/random.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/version.h>

#include <dlfcn.h>

#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

using namespace workbook;
using c10::DeviceType;
using c10::Layout;
using c10::MemoryFormat;
using c10::ScalarType;
using doctest::Contains;
using rows::Verdict;
using torch::stable::Device;
using torch::stable::Tensor;
namespace theirs = torch::stable::detail; // PyTorch's own conversions

// --- Shims that the tests stand in front of ----------------------------------
// The executable's own definition of a symbol comes before libtorch's, for the
// library under test and, where libtorch calls itself through its procedure
// linkage table, for libtorch too.

namespace {

enum Shim { kNewTensorHandle, kNewStringHandle, kStringCStr, kShims };
int calls_until_failure[kShims]; // 0: it does not fail

bool fails(Shim shim) {
  return calls_until_failure[shim] > 0 && --calls_until_failure[shim] == 0;
}

// While it lives, the n-th call of a shim fails, as it would without memory.
struct Failing {
  Failing(Shim shim, int n) : shim(shim) {
    calls_until_failure[shim] = n;
  }
  ~Failing() {
    calls_until_failure[shim] = 0;
  }
  Shim shim;
};

// While it lives, libtorch numbers its enums otherwise, as a later one may.
int32_t code_offset = 0;
struct Renumbered {
  Renumbered() {
    code_offset = 100;
  }
  ~Renumbered() {
    code_offset = 0;
  }
};

} // namespace

#define NEXT(name)         \
  static const auto next = \
      reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name))

extern "C" {

// A second deletion is counted, and does not reach libtorch.
AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle handle) {
  NEXT(aoti_torch_delete_tensor_object);
  if (Ledger::deletions(handle) > 0) {
    Ledger::count_deletion(handle);
    return TORCH_SUCCESS;
  }
  return next(handle);
}
AOTITorchError aoti_torch_new_tensor_handle(
    AtenTensorHandle handle, AtenTensorHandle* result) {
  NEXT(aoti_torch_new_tensor_handle);
  return fails(kNewTensorHandle) ? TORCH_FAILURE : next(handle, result);
}
AOTITorchError torch_new_string_handle(
    const char* data, size_t size, StringHandle* result) {
  NEXT(torch_new_string_handle);
  return fails(kNewStringHandle) ? TORCH_FAILURE : next(data, size, result);
}
AOTITorchError torch_string_c_str(StringHandle handle, const char** data) {
  NEXT(torch_string_c_str);
  return fails(kStringCStr) ? TORCH_FAILURE : next(handle, data);
}

#define CODE(name)               \
  int32_t name() {               \
    NEXT(name);                  \
    return next() + code_offset; \
  }
CODE(aoti_torch_dtype_uint8)
CODE(aoti_torch_dtype_float32)
CODE(aoti_torch_dtype_bfloat16)
CODE(aoti_torch_dtype_float8_e4m3fnuz)
CODE(aoti_torch_layout_strided)
CODE(aoti_torch_layout_sparse_csr)
CODE(aoti_torch_memory_format_contiguous_format)
CODE(aoti_torch_memory_format_channels_last)
CODE(aoti_torch_device_type_cpu)
CODE(aoti_torch_device_type_cuda)

} // extern "C"

namespace {

// --- Calling the library under test ------------------------------------------

StableIValue call(const std::string& name, StableIValue slot) {
  call_op("wb02::" + name, "", &slot);
  return slot;
}

template <class T>
StableIValue bits(T value) {
  return theirs::from(value);
}

// Slots and strings as a failed check shows them: all 64 bits, each byte.
std::string hex(StableIValue slot) {
  char text[19];
  std::snprintf(text, sizeof(text), "0x%016" PRIx64, slot);
  return text;
}
std::string escaped(const std::string& value) {
  std::string text = "\"";
  for (const char c : value.substr(0, 100)) {
    text += c == '\0' ? "\\0" : std::string(1, c);
  }
  return text + (value.size() > 100 ? "\"..." : "\"") + ", " +
      std::to_string(value.size()) + " bytes";
}
// The blocks that every call of `body` leaves behind, after the first ones,
// which fill libtorch's caches. A call that fails leaves its message, once.
template <class Body>
double leaked(const Body& body) {
  body();
  const Ledger ledger;
  body();
  const auto once = static_cast<double>(Ledger::alive());
  body();
  body();
  return (static_cast<double>(Ledger::alive()) - once) / 2;
}

// "" if nothing is left behind.
template <class Body>
std::string left_behind(const char* by, const Body& body) {
  const double blocks = leaked(body);
  return blocks == 0 ? ""
                     : std::to_string(std::lround(blocks)) +
          " block(s) are left behind in memory by each conversion of " + by;
}

template <class T>
T* pointer(StableIValue slot) {
  return theirs::to<T*>(slot);
}
int deletions(StableIValue slot) {
  return Ledger::deletions(pointer<void>(slot));
}

// --- Slots made and read by C shims and nothing else -------------------------

using rows::from_string;
using rows::to_string;
using Slots = std::vector<StableIValue>;

StableIValue from_tensor(const Tensor& x) {
  return theirs::from(x);
}
StableIValue from_slot(StableIValue inner) {
  return theirs::from(new StableIValue(inner));
}
StableIValue from_slots(const Slots& elements) {
  StableListHandle list = nullptr;
  torch_new_list_reserve_size(elements.size(), &list);
  for (const StableIValue element : elements) {
    torch_list_push_back(list, element);
  }
  return theirs::from(list);
}
// The elements, which are the caller's now; the list is deleted.
Slots to_slots(StableIValue slot) {
  const auto list = theirs::to<StableListHandle>(slot);
  size_t size = 0;
  torch_list_size(list, &size);
  Slots elements(size);
  for (size_t i = 0; i < size; ++i) {
    torch_list_get_item(list, i, &elements[i]);
  }
  torch_delete_list(list);
  return elements;
}

Tensor tensor(float value) {
  return torch::stable::full({2, 3}, value);
}
float first(const Tensor& x) {
  return *x.const_data_ptr<float>();
}

// Sends `slot` through `name` as raw bits. The slot must come back as another
// one, and the old one must have been emptied once.
StableIValue exchange(const std::string& name, StableIValue slot) {
  const StableIValue result = call(name, slot);
  REQUIRE_MESSAGE(deletions(slot) != 0, "the slot was not emptied: it leaks");
  REQUIRE_MESSAGE(deletions(slot) == 1, "the slot was emptied twice");
  REQUIRE_MESSAGE(deletions(result) == 0, "the new slot owns nothing");
  return result;
}

// A call in which the n-th call of a shim fails must fail, too.
void check_shim_fails(Shim shim, const char* op, StableIValue slot, int n = 1) {
  constexpr const char* kNames[] = {
      "aoti_torch_new_tensor_handle",
      "torch_new_string_handle",
      "torch_string_c_str"};
  const Failing failing(shim, n);
  const doctest::String text = refusal([&] { call(op, slot); });
  CHECK_MESSAGE(
      text != kNothingThrown,
      kNames[shim],
      " was made to fail, and nobody looked at its code");
}

// Lets every allocation of a call fail in turn. However far the call comes,
// nothing may be left behind; a kernel that was not reached took nothing.
template <class Make, class Release>
void check_every_allocation(
    const char* name, const Make& make, const Release& release) {
  bool succeeds = false;
  for (int n = 0; !succeeds; ++n) {
    const Ledger ledger;
    size_t alive[3];
    for (size_t& blocks : alive) {
      StableIValue slot = make();
      Ledger::fail_after(n);
      try {
        slot = call(name, slot);
        succeeds = true;
      } catch (const std::exception&) {
        // std::bad_alloc, or what libtorch made of it.
      }
      Ledger::fail_after(-1);
      if (deletions(slot) == 0) {
        release(slot);
      }
      blocks = Ledger::alive();
    }
    INFO("allocation ", n, " of ", name, " was made to fail: blocks alive");
    REQUIRE(alive[2] == alive[1]); // the first time, caches are filled
    REQUIRE(n < 1000);
  }
}

bool libtorch_at_least(uint64_t minor) {
  return aoti_torch_abi_version() >= (uint64_t{2} << 56 | minor << 48);
}

// Every enumerator: ours converts what PyTorch's own conversions do, to and
// from the same code, and refuses what they refuse. Gives how many convert.
template <class E>
int check_enum(const std::string& name, E end) {
  int converted = 0;
  for (int i = 0; i < static_cast<int>(end); ++i) {
    CAPTURE(name);
    CAPTURE(i);
    const auto value = static_cast<StableIValue>(i);
    StableIValue code = 0;
    try {
      code = theirs::from(static_cast<E>(i));
    } catch (const std::exception&) {
      INFO("libtorch has no code for this value, so it must be refused");
      REQUIRE(refusal([&] { call("from_" + name, value); }) != kNothingThrown);
      continue;
    }
    REQUIRE(hex(call("from_" + name, value)) == hex(code));
    REQUIRE(hex(call("to_" + name, code)) == hex(value));
    // A code is 32 bits; what is behind them means nothing.
    REQUIRE(hex(call("to_" + name, code | ~uint64_t{0} << 32)) == hex(value));
    REQUIRE(hex(call("echo_" + name, code)) == hex(code));
    ++converted;
  }
  return converted;
}
void check_enums() {
  CHECK(check_enum("dtype", ScalarType::NumOptions) == 20);
  CHECK(check_enum("layout", Layout::NumOptions) == 8);
  CHECK(check_enum("memory_format", MemoryFormat::NumOptions) == 4);
}

} // namespace

// --- The steps ---------------------------------------------------------------

TEST_CASE("02.1 a number is its bytes") {
  Random random;
  const auto check = [](const char* type, StableIValue expected) {
    CAPTURE(type);
    for (const char* direction : {"from_", "to_", "echo_"}) {
      CAPTURE(direction);
      const std::string op = std::string(direction) + type;
      REQUIRE(hex(call(op, expected)) == hex(expected));
    }
  };
  for (const bool value : {true, false}) {
    check("bool", bits(value));
    // What is behind the byte of a bool means nothing.
    const StableIValue slot = bits(value) | 0xfedcba9876543200;
    CHECK(hex(call("to_bool", slot)) == hex(bits(value)));
  }
  for (const int64_t value :
       {int64_t{0}, int64_t{1}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    check("int", bits(value));
  }
  for (const double value :
       {0.0, -0.0, 0.1, -1e308, double{INFINITY}, 5e-324, std::nan("1")}) {
    check("float", bits(value));
  }
  for (int i = 0; i < 100; ++i) {
    check("int", bits(random.integer(INT64_MIN, INT64_MAX)));
    check("float", bits(double{random.normal(1e6)}));
  }
}

TEST_CASE("02.2 an enum is the code that libtorch gives for it") {
  check_enums();

  // An index of -1 fills the lower half with ones, and only that.
  const auto check_device = [](DeviceType type, int32_t index) {
    CAPTURE(static_cast<int>(type));
    CAPTURE(index);
    const StableIValue number =
        static_cast<StableIValue>(type) << 32 | static_cast<uint32_t>(index);
    const StableIValue slot = bits(Device(type, index));
    REQUIRE(hex(call("from_device", number)) == hex(slot));
    REQUIRE(hex(call("to_device", slot)) == hex(number));
  };
  for (const DeviceType type :
       {DeviceType::CUDA,
        DeviceType::Meta,
        DeviceType::XPU,
        DeviceType::MPS,
        DeviceType::PrivateUse1}) {
    for (const int32_t index : {-1, 0, 1, 7, 127}) {
      check_device(type, index);
      const StableIValue slot = bits(Device(type, index));
      REQUIRE(hex(call("echo_device", slot)) == hex(slot));
    }
  }
  check_device(DeviceType::CPU, -1);
  check_device(DeviceType::CPU, 0);

  {
    INFO("the numbers of the enums are not libtorch's codes");
    const Renumbered renumbered;
    check_enums();
    check_device(DeviceType::CPU, -1);
    check_device(DeviceType::CUDA, 2);
  }

  // What neither side has a code for is refused, and named.
  const auto refused = [](const char* name, StableIValue slot) {
    return refusal([&] { call(name, slot); });
  };
  const auto from_qint8 =
      refused("from_dtype", static_cast<StableIValue>(ScalarType::QInt8));
  CHECK(from_qint8 == Contains("ScalarType"));
  CHECK((from_qint8 == Contains("12") || from_qint8 == Contains("QInt8")));
  const auto to_dtype = refused("to_dtype", 999);
  CHECK(to_dtype == Contains("ScalarType"));
  CHECK(to_dtype == Contains("999"));
  CHECK(refused("to_layout", 999) == Contains("Layout"));
  CHECK(refused("to_memory_format", 999) == Contains("MemoryFormat"));
  CHECK(refused("to_device", uint64_t{99} << 32) == Contains("DeviceType"));
}

TEST_CASE("02.3 a tensor is a new handle in, and a stolen one out") {
  const Tensor x = tensor(5);
  {
    const Ledger ledger;
    const StableIValue slot = exchange("raw_tensor", from_tensor(x));
    const auto y = theirs::to<Tensor>(slot);
    CHECK(y.data_ptr() == x.data_ptr());
  }
  {
    const auto y = theirs::to<Tensor>(call("echo_tensor", from_tensor(x)));
    CHECK(y.data_ptr() == x.data_ptr());
    CHECK(y.size(1) == 3);
  }
  {
    const Tensor undefined;
    const auto y =
        theirs::to<Tensor>(call("raw_tensor", from_tensor(undefined)));
    CHECK(!y.defined());
  }
  REQUIRE_CLEAN(left_behind("a tensor", [&] {
    theirs::to<Tensor>(call("echo_tensor", from_tensor(x)));
    theirs::to<Tensor>(call("raw_tensor", from_tensor(tensor(1))));
  }));
  CHECK(first(x) == 5);

  // A handle that cannot be made: nothing is left behind.
  REQUIRE_CLEAN(left_behind("a tensor, when no new handle can be made", [&] {
    const StableIValue slot = from_tensor(x);
    check_shim_fails(kNewTensorHandle, "raw_tensor", slot);
  }));
}

TEST_CASE("02.4 a string is created, copied out and deleted") {
  const std::string text = "sigma";
  for (const std::string& value :
       {std::string(),
        text,
        std::string("a\0b\0", 4),
        std::string(10000, 'x'),
        std::string("gr\u00fc\u00df dich")}) {
    {
      const Ledger ledger;
      CHECK(
          escaped(to_string(exchange("raw_str", from_string(value)))) ==
          escaped(value));
    }
    REQUIRE_CLEAN(left_behind(
        "a string", [&] { to_string(call("raw_str", from_string(value))); }));
    CHECK(
        escaped(to_string(call("echo_str", from_string(value)))) ==
        escaped(value));
  }
  // When the text cannot be had, the string is deleted all the same.
  REQUIRE_CLEAN(left_behind("a string, when its text cannot be had", [&] {
    const StableIValue slot = from_string(text);
    check_shim_fails(kStringCStr, "raw_str", slot);
  }));
  REQUIRE_CLEAN(left_behind("a string, when no new one can be made", [&] {
    const StableIValue slot = from_string(text);
    check_shim_fails(kNewStringHandle, "raw_str", slot);
  }));
}

TEST_CASE("02.5 an optional is null, or a slot on the heap") {
  for (const char* name : {"maybe_int", "maybe_dtype", "maybe_tensor"}) {
    CAPTURE(name);
    CHECK(call(std::string("raw_") + name, 0) == 0);
    CHECK(call(std::string("echo_") + name, 0) == 0);
  }

  // Zero is a value. Ours and PyTorch's are made and read alike.
  using Maybe = std::optional<int64_t>;
  for (const int64_t value : {0LL, -7LL}) {
    const Ledger ledger;
    const StableIValue slot = exchange("raw_maybe_int", bits(Maybe(value)));
    CHECK(*pointer<StableIValue>(slot) == bits(value));
    CHECK(theirs::to<Maybe>(slot) == value);
    CHECK(
        theirs::to<Maybe>(call("echo_maybe_int", bits(Maybe(value)))) == value);
  }

  // The slot on the heap and what is in it have each an owner of their own.
  const Tensor x = tensor(5);
  {
    const Ledger ledger;
    const StableIValue inner = from_tensor(x);
    const StableIValue slot = exchange("raw_maybe_tensor", from_slot(inner));
    CHECK(deletions(inner) == 1);
    CHECK(deletions(*pointer<StableIValue>(slot)) == 0);
    const auto y = theirs::to<std::optional<Tensor>>(slot);
    REQUIRE(y.has_value());
    CHECK(y->data_ptr() == x.data_ptr());
  }
  REQUIRE_CLEAN(left_behind("an optional", [&] {
    theirs::to<Maybe>(call("raw_maybe_int", bits(Maybe(3))));
    theirs::to<Maybe>(call("echo_maybe_int", bits(Maybe(3))));
    theirs::to<std::optional<Tensor>>(
        call("raw_maybe_tensor", from_slot(from_tensor(x))));
    theirs::to<std::optional<Tensor>>(
        call("echo_maybe_tensor", from_slot(from_tensor(x))));
    call("raw_maybe_tensor", 0);
  }));

  // A value that cannot be converted leaves no slot behind, either way.
  REQUIRE_CLEAN(
      left_behind("an optional, when its value cannot be converted", [&] {
        const StableIValue slot = from_slot(999);
        CHECK(refusal([&] {
                call("raw_maybe_dtype", slot);
              }) == Contains("ScalarType"));
        const StableIValue good = from_slot(from_tensor(x));
        check_shim_fails(kNewTensorHandle, "raw_maybe_tensor", good);
      }));
}

TEST_CASE("02.6 a list owns its elements, and itself") {
  // Through the dispatcher; made and read by PyTorch's own conversions.
  using Ints = std::vector<int64_t>;
  Random random;
  std::vector<Ints> lists{{}, {-1}, {3, 1, 2}};
  Ints& random_ints = lists.emplace_back();
  for (int i = 0; i < 1000; ++i) {
    random_ints.push_back(random.integer(INT64_MIN, INT64_MAX));
  }
  for (const Ints& ints : lists) {
    CHECK(theirs::to<Ints>(call("echo_ints", bits(ints))) == ints);
    CHECK(theirs::to<Ints>(call("raw_ints", bits(ints))) == ints);
    using Maybe = std::optional<Ints>;
    CHECK(
        theirs::to<Maybe>(call("echo_maybe_ints", bits(Maybe(ints)))) == ints);
  }
  using Dtypes = std::vector<std::vector<ScalarType>>;
  const Dtypes dtypes{
      {ScalarType::Half, ScalarType::Long}, {}, {ScalarType::Bool}};
  CHECK(theirs::to<Dtypes>(call("echo_nested_dtypes", bits(dtypes))) == dtypes);
  CHECK(call("echo_maybe_ints", 0) == 0);

  const Tensor x = tensor(5);
  const std::vector<Tensor> tensors{tensor(0), x, tensor(2), x};
  const auto echoed =
      theirs::to<std::vector<Tensor>>(call("echo_tensors", bits(tensors)));
  REQUIRE(echoed.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(echoed[i].data_ptr() == tensors[i].data_ptr());
  }

  // Each handle that went in is released once; each that came out is new.
  {
    const Ledger ledger;
    const Slots in{from_tensor(x), from_tensor(tensor(1)), from_tensor(x)};
    const Slots out = to_slots(exchange("raw_tensors", from_slots(in)));
    REQUIRE(out.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      CHECK(deletions(in[i]) == 1);
      REQUIRE(deletions(out[i]) == 0);
      CHECK(first(theirs::to<Tensor>(out[i])) == (i == 1 ? 1 : 5));
    }
  }
  {
    const Ledger ledger;
    const StableIValue code = bits(ScalarType::Half);
    const Slots in{
        from_slots({code, code}), from_slots({}), from_slots({code})};
    const Slots out = to_slots(exchange("raw_nested_dtypes", from_slots(in)));
    REQUIRE(out.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      CHECK(deletions(in[i]) == 1);
      REQUIRE(deletions(out[i]) == 0);
    }
    CHECK(to_slots(out[0]) == Slots{code, code});
    CHECK(to_slots(out[1]).empty());
    CHECK(to_slots(out[2]) == Slots{code});
  }
  {
    const auto maybe = theirs::to<std::vector<std::optional<Tensor>>>(
        call("echo_maybe_tensors", from_slots({from_slot(from_tensor(x)), 0})));
    REQUIRE(maybe.size() == 2);
    REQUIRE(maybe[0].has_value());
    CHECK(maybe[0]->data_ptr() == x.data_ptr());
    CHECK(!maybe[1].has_value());
  }
  REQUIRE_CLEAN(left_behind("a list", [&] {
    theirs::to<std::vector<Tensor>>(call("echo_tensors", bits(tensors)));
    theirs::to<std::vector<Tensor>>(call("raw_tensors", bits(tensors)));
    theirs::to<Dtypes>(call("raw_nested_dtypes", bits(dtypes)));
    theirs::to<Dtypes>(call("echo_nested_dtypes", bits(dtypes)));
    theirs::to<Ints>(call("echo_ints", bits(lists[2])));
    theirs::to<std::vector<std::optional<Tensor>>>(
        call("raw_maybe_tensors", from_slots({from_slot(from_tensor(x)), 0})));
  }));
}

TEST_CASE("02.7 when the third element throws, nothing is left behind") {
  const Tensor x = tensor(5);
  const auto refused = [](const char* name, StableIValue slot) {
    return refusal([&] { call(name, slot); });
  };

  // A list is released unread, with all that its elements point to.
  {
    const Ledger ledger;
    const Slots in{from_tensor(x), from_tensor(tensor(1))};
    const StableIValue slot = from_slots(in);
    call("release_tensors", slot);
    CHECK(deletions(slot) == 1);
    CHECK(deletions(in[0]) == 1);
    CHECK(deletions(in[1]) == 1);
  }
  REQUIRE_CLEAN(left_behind("release", [&] {
    call("release_ints", from_slots({1, 0, 2}));
    call("release_ints", from_slots({}));
    call(
        "release_nested_dtypes", from_slots({from_slots({9}), from_slots({})}));
    call("release_maybe_tensors", from_slots({from_slot(from_tensor(x)), 0}));
  }));

  // Out of its slot: the elements after the third one are released too, and
  // one of them cannot be converted either. The text is the first one's.
  const auto dtypes = [](int32_t code) { return from_slots({uint64_t(code)}); };
  const int32_t good = aoti_torch_dtype_float32();
  {
    const Ledger ledger;
    const Slots in{
        dtypes(good), dtypes(good), dtypes(999), dtypes(888), dtypes(good)};
    const StableIValue slot = from_slots(in);
    const auto text = refused("raw_nested_dtypes", slot);
    CHECK(text == Contains("ScalarType"));
    CHECK(text == Contains("999"));
    CHECK(deletions(slot) == 1);
    for (size_t i = 0; i < in.size(); ++i) {
      CAPTURE(i);
      CHECK(deletions(in[i]) == 1);
    }
  }

  // Into a slot: the first two are released, and the list.
  const std::vector<Tensor> tensors{x, x, x, x};
  REQUIRE_CLEAN(left_behind(
      "a list, when the handle of its third tensor cannot be made", [&] {
        const StableIValue slot = bits(tensors);
        check_shim_fails(kNewTensorHandle, "raw_tensors", slot, 3);
      }));
  REQUIRE_CLEAN(left_behind(
      "a list, when the handle of its third tensor cannot be made", [&] {
        const StableIValue slot = from_slots(
            {from_slot(from_tensor(x)),
             0,
             from_slot(from_tensor(x)),
             from_slot(from_tensor(x))});
        check_shim_fails(kNewTensorHandle, "raw_maybe_tensors", slot, 3);
      }));

  // Without memory, anywhere.
  using Tensors = std::vector<Tensor>;
  check_every_allocation(
      "raw_tensors",
      [&] { return bits(tensors); },
      [](StableIValue slot) { theirs::to<Tensors>(slot); });
  check_every_allocation(
      "raw_maybe_tensor",
      [&] { return from_slot(from_tensor(x)); },
      [](StableIValue slot) { theirs::to<std::optional<Tensor>>(slot); });
  check_every_allocation(
      "raw_str",
      [&] { return from_string(std::string(100, 'x')); },
      [](StableIValue slot) { to_string(slot); });
  check_every_allocation(
      "raw_nested_dtypes",
      [&] {
        return from_slots({dtypes(good), dtypes(good), dtypes(good)});
      },
      [](StableIValue slot) {
        theirs::to<std::vector<std::vector<ScalarType>>>(slot);
      });
  check_every_allocation(
      "raw_maybe_tensors",
      [&] {
        return from_slots(
            {from_slot(from_tensor(x)), 0, from_slot(from_tensor(x))});
      },
      [](StableIValue slot) {
        theirs::to<std::vector<std::optional<Tensor>>>(slot);
      });

  // Through the dispatcher: a dtype that libtorch has since 2.11, and an
  // extension for 2.10 has not.
  if (libtorch_at_least(11)) {
    const auto new_dtype = reinterpret_cast<int32_t (*)()>(
        dlsym(RTLD_DEFAULT, "torch_dtype_float8_e8m0fnu"));
    REQUIRE((new_dtype != nullptr));
    REQUIRE_CLEAN(
        left_behind("a list with a dtype that is newer than the headers", [&] {
          const Slots in{
              dtypes(good), dtypes(good), dtypes(new_dtype()), dtypes(good)};
          const auto text = refused("echo_nested_dtypes", from_slots(in));
          CHECK(text == Contains("ScalarType"));
        }));
  }

  // The same conversions work as before.
  const auto echoed =
      theirs::to<std::vector<Tensor>>(call("echo_tensors", bits(tensors)));
  CHECK(echoed.size() == 4);
}

// --- The rows of the conversion table ----------------------------------------
// Each in a child process, through the real dispatcher: to libtorch by a call,
// and from libtorch by a kernel's argument or an op's return.

namespace {

const rows::Row& row(const std::string& schema, const std::string& extension) {
  for (const rows::Row& candidate : rows::table()) {
    if (candidate.schema == schema && candidate.extension == extension) {
      return candidate;
    }
  }
  throw std::out_of_range("no row " + schema);
}

// `blocks` are what libtorch itself is known to lose each time.
void check_converts(const rows::Row& row, double blocks = 0) {
  const Verdict verdict = rows::run([&] {
    const double left = leaked(row.there_and_back);
    if (left != blocks) {
      throw std::logic_error(std::to_string(left) + " blocks were lost");
    }
  });
  CAPTURE(row.schema);
  CAPTURE(verdict.text);
  CHECK(verdict.kind == Verdict::kConverts);
}

const std::string kTo =
    "conversion from StableIValue to IValue for schema type: ";
const std::string kFrom =
    "conversion from IValue to StableIValue for schema type: ";

void check_refuses(
    const std::function<void()>& experiment, const std::string& reason) {
  const Verdict verdict = rows::run(experiment);
  CHECK(verdict.kind == Verdict::kRefused);
  CHECK(verdict.text.c_str() == Contains(reason.c_str()));
}

// libtorch takes no such slot, and gives none; `type` is how it calls it. What
// only Python can hand to libtorch is tested from Python.
void check_refuses(const std::string& schema, const std::string& type) {
  const rows::Row& refused = row(schema, "");
  check_refuses(refused.there_and_back, kTo + type);
  if (refused.back != nullptr) {
    check_refuses(refused.back, kFrom + type);
  }
}

} // namespace

TEST_CASE("02 rows that convert") {
  // Up to 2.13 libtorch loses each string that it reads: one that it is given
  // as an argument, and one that the kernel returns.
  const double strings = libtorch_at_least(14) ? 0 : 2;
  const struct {
    const char* schema;
    const char* extension;
    double lost;
  } expected[] = {
      {"Type?", "std::optional<S>", 0},
      {"Tensor", "torch::stable::Tensor", 0},
      {"Tensor", "AtenTensorHandle of a RAII class", 0},
      {"ScalarType", "torch::headeronly::ScalarType", 0},
      {"Layout", "torch::headeronly::Layout", 0},
      {"MemoryFormat", "torch::headeronly::MemoryFormat", 0},
      {"bool", "bool", 0},
      {"int", "int64_t", 0},
      {"float", "double", 0},
      {"Device", "torch::stable::Device", 0},
      {"str", "std::string", strings},
      {"Type[]", "std::vector<T>, HeaderOnlyArrayRef<T>", 0},
      {"SymInt", "int64_t", 0}};
  for (const auto& [schema, extension, lost] : expected) {
    SUBCASE((std::string(schema) + ": " + extension).c_str()) {
      check_converts(row(schema, extension), lost);
    }
  }
}
TEST_CASE("02 rows that are refused") {
  const struct {
    const char* schema;
    const char* type; // as libtorch calls it
  } expected[] = {
      {"Stream", "Stream"},
      {"complex", "complex"},
      {"Scalar", "Scalar"},
      {"Storage", "Storage"},
      {"(Type, ...)", "(int, int)"},
      {"SymBool", "SymBool"},
      {"QScheme", "QScheme"}};
  for (const auto& [schema, type] : expected) {
    SUBCASE(schema) {
      check_refuses(schema, type);
    }
  }
  SUBCASE("SymFloat: it cannot be named in a schema") {
    const rows::Row& symfloat = row("SymFloat", "");
    check_refuses(symfloat.there_and_back, "unknown type specifier");
    check_refuses(symfloat.back, "unknown type specifier");
  }
  SUBCASE("Scalar, so an op that has one, its default included") {
    const auto add = [] {
      StableIValue stack[] = {
          bits(tensor(1)), bits(tensor(2)), bits(int64_t{1})};
      call_op("aten::add", "Tensor", stack);
    };
    check_refuses(add, kTo + "Scalar");
  }
}
TEST_CASE("02 row Generator: passes unopened from 2.13, and not before") {
  const rows::Row& generator =
      row("Generator", "torch::stable::Generator, from 2.13");
  if (libtorch_at_least(13)) {
    check_converts(generator);
    // libtorch opens it all the same: a slot without a generator is a crash.
    const Verdict null = rows::run([] { rows::send("Generator", 0); });
    CHECK(null.kind == Verdict::kCrashes);
  } else {
    check_refuses(generator.there_and_back, kTo + "Generator");
  }
}
TEST_CASE("02 the table has its 22 rows") {
  CHECK(rows::table().size() == 22);
}

TEST_CASE("02 None of any optional and an empty list of any type convert") {
  for (const rows::Op& op : rows::kOps) {
    CAPTURE(op.type);
    CHECK(refusal([&] { rows::none(op); }) == kNothingThrown);
    CHECK(refusal([&] { rows::empty_list(op); }) == kNothingThrown);
  }
}

TEST_CASE("02 libtorch refuses an unknown code, but for 2.10 and devices") {
  for (const char* name : {"ScalarType", "Layout", "MemoryFormat"}) {
    CAPTURE(name);
    const auto send = [&] { rows::send(name, 999); };
    if (libtorch_at_least(11)) {
      check_refuses(send, std::string("Not yet supported ") + name + " 999");
    } else {
      CHECK(rows::run(send).kind == Verdict::kConverts);
    }
  }
  const auto device = [](StableIValue slot) {
    return [slot] { rows::send("Device", slot); };
  };
  CHECK(rows::run(device(uint64_t{99} << 32)).kind == Verdict::kConverts);
  check_refuses(device(uint64_t{1} << 32 | 300), "out of range for int8_t");
}

// --- What libtorch and its headers get wrong ---------------------------------
// Each in a child process, so that what is lost there is lost there.

namespace {

// The blocks that a call of `body` leaves behind.
double lost(const std::function<void()>& body) {
  const Verdict verdict = rows::run(
      [&] { throw std::runtime_error(std::to_string(leaked(body))); });
  return std::stod(verdict.text);
}

} // namespace

TEST_CASE("02 the headers up to 2.13 lose each string that they read") {
  const double strings =
      lost([] { theirs::to<std::string>(from_string("text")); });
  CHECK(strings == (TORCH_ABI_VERSION < 0x020e000000000000 ? 1 : 0));
}

TEST_CASE("02 the headers lose what they hold when an element throws") {
  const double slot_of_optional = lost([] {
    refusal([] { theirs::to<std::optional<ScalarType>>(from_slot(999)); });
  });
  CHECK(slot_of_optional == 1);

  const Tensor x = tensor(5);
  const double handles_before_the_third = lost([&] {
    const Failing failing(kNewTensorHandle, 3);
    refusal([&] { theirs::from(std::vector<Tensor>{x, x, x, x}); });
  });
  CHECK(handles_before_the_third == 2);

  const double slots_from_the_third = lost([] {
    const StableIValue good = bits(ScalarType::Float);
    Slots in;
    for (const StableIValue code : {good, good, StableIValue{999}, good}) {
      in.push_back(from_slot(code));
    }
    const StableIValue slot = from_slots(in);
    using Dtypes = std::vector<std::optional<ScalarType>>;
    refusal([&] { theirs::to<Dtypes>(slot); });
  });
  CHECK(slots_from_the_third == 2);
}

TEST_CASE("02 the headers do not widen a float or an int") {
  // The upper half of the slot stays zero: another double, another integer.
  const StableIValue tenth = rows::send("float", theirs::from(0.1f));
  CHECK(theirs::to<double>(tenth) < 1e-300);
  const StableIValue minus_one = rows::send("int", theirs::from(-1));
  CHECK(theirs::to<int64_t>(minus_one) == 4294967295);
}

TEST_CASE("02 both allocators of an optional's slot are operator new") {
  // An extension for 2.10 to 2.12 makes and deletes slots by its own operators
  // new and delete; one for 2.13 asks libtorch for both. An optional crosses
  // from one to the other only because they are the same in this process.
  using Create = AOTITorchError (*)(StableIValue**);
  const auto create =
      reinterpret_cast<Create>(dlsym(RTLD_DEFAULT, "torch_new_stable_ivalue"));
  CHECK((create != nullptr) == libtorch_at_least(13));

  const Ledger ledger; // which sees operator new, wherever it is called
  const StableIValue slot = rows::send("int_maybe", from_slot(7));
  CHECK(deletions(slot) == 0);
  CHECK(*pointer<StableIValue>(slot) == 7);
  delete pointer<StableIValue>(slot); // made by libtorch
  if (create != nullptr) {
    StableIValue* made = nullptr;
    CHECK(create(&made) == TORCH_SUCCESS);
    CHECK(deletions(theirs::from(made)) == 0);
    *made = 8;
    const StableIValue back = rows::send("int_maybe", theirs::from(made));
    CHECK(deletions(theirs::from(made)) == 1);
    delete pointer<StableIValue>(back);
  }
}
