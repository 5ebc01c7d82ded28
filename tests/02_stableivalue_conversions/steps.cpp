// Tests of chapter 02: each step has a case.
#include "replaced_shims.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"
#include "testing/ledger.h"
#include "testing/library.h"
#include "testing/random.h"
#include "testing/shim_slots.h"
#include "types.h"
#include "watched_calls.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace workbook;
using namespace workbook::chapter_02;
using c10::DeviceType;
using c10::Layout;
using c10::MemoryFormat;
using c10::ScalarType;
using doctest::Contains;
using torch::stable::Device;
using torch::stable::Tensor;
namespace theirs = torch::stable::detail; // PyTorch's own conversions

TEST_CASE(
    "02.1 a number is its bytes" *
    doctest::description("A number does not lie in its slot, or is not read "
                         "there, as its bytes and zeros.")) {
  Random random;
  const auto check = [](const Type& type, StableIValue slot) {
    check_from(type, slot, slot);
    check_to(type, slot, slot);
    check_echo(type, slot);
  };
  for (const bool value : {true, false}) {
    check(kBool, bits(value));
    // What is behind the byte of a bool means nothing.
    check_to(kBool, bits(value), bits(value) | 0xfedcba9876543200);
  }
  for (const int64_t value :
       {int64_t{1}, int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    check(kInt, bits(value));
  }
  for (const double value :
       {0.1, 0.0, -0.0, -1e308, double{INFINITY}, 5e-324, std::nan("1")}) {
    check(kFloat, bits(value));
  }
  for (int i = 0; i < 100; ++i) {
    check(kInt, bits(random.integer(INT64_MIN, INT64_MAX)));
    check(kFloat, bits(random.normal<double>(1e6)));
  }
  // A code, as the enums of the next step have them.
  for (const int32_t value : {7, 0, -2, INT32_MIN, INT32_MAX}) {
    const StableIValue slot = static_cast<uint32_t>(value);
    const std::string number = std::to_string(value);
    require_same(
        kFromBits,
        "from_bits<int32_t>(" + number + ")",
        hex(call("from_bits", slot)),
        hex(slot));
    for (const StableIValue behind : {uint64_t{0}, ~uint64_t{0} << 32}) {
      require_same(
          kToBits,
          "to_bits<int32_t>(" + hex(slot | behind) + ")",
          std::to_string(static_cast<int64_t>(call("to_bits", slot | behind))),
          number);
    }
  }
}

namespace {

// Returns the names of the functions of namespace wb that the library under
// test exports to other libraries, without those of the probe.
std::string list_exported() {
  Dl_info info;
  link_map* map = nullptr;
  dladdr1(
      reinterpret_cast<const void*>(kernel_of("raw_tensor")),
      &info,
      reinterpret_cast<void**>(&map),
      RTLD_DL_LINKMAP);
  const char* names = nullptr;
  size_t size = 0;
  for (const ElfW(Dyn)* at = map->l_ld; at->d_tag != DT_NULL; ++at) {
    if (at->d_tag == DT_STRTAB) {
      names = reinterpret_cast<const char*>(at->d_un.d_ptr);
    } else if (at->d_tag == DT_STRSZ) {
      size = at->d_un.d_val;
    }
  }
  std::string found;
  for (size_t i = 0; i < size; i += std::string(names + i).size() + 1) {
    const std::string name = names + i;
    if (name.rfind("_ZN2wb", 0) == 0 && name.rfind("_ZN2wb5probe", 0) != 0) {
      found += (found.empty() ? "" : ", ") + name;
    }
  }
  return found;
}

} // namespace

TEST_CASE(
    "02.2 an enum is the code that libtorch gives for it" *
    doctest::description("An enum or a device passes as another number than "
                         "libtorch's code for it.")) {
  check_enums();
  // An index of -1 fills the lower half with ones, and only that.
  for (const DeviceType type :
       {DeviceType::CUDA,
        DeviceType::Meta,
        DeviceType::XPU,
        DeviceType::MPS,
        DeviceType::PrivateUse1}) {
    for (const int32_t index : {1, 0, 7, 127, -1}) {
      check_device(type, index);
      check_echo(kDevice, bits(Device(type, index)));
    }
  }
  // libtorch has no such devices yet; a slot has room for them.
  for (const int32_t index : {128, 300, INT32_MAX}) {
    check_device(DeviceType::CUDA, index);
  }
  check_device(DeviceType::CPU, 0);
  check_device(DeviceType::CPU, -1);

  const auto refused = [](const char* name, StableIValue slot) {
    return refusal([&] { call(name, slot); });
  };
  for (const int32_t offset : {100, 1000, -1000}) { // a code has 32 bits
    const std::string name = "another libtorch, in which each code is " +
        std::to_string(std::abs(offset)) + (offset < 0 ? " less" : " more");
    SUBCASE(name.c_str()) {
      const auto half = bits(ScalarType::Half);
      CHECK(call("to_dtype", half) == static_cast<uint64_t>(ScalarType::Half));
      const Renumbered renumbered(offset);
      {
        INFO("what was a code before is none there");
        CHECK(refused("to_dtype", half) == Contains("ScalarType"));
      }
      check_enums();
      check_device(DeviceType::CPU, -1);
      check_device(DeviceType::CUDA, 2);
    }
  }
  SUBCASE("the functions are hidden: extensions have each their own") {
    if (const std::string names = list_exported(); !names.empty()) {
      FAIL("other libraries see ", names.substr(0, 200));
    }
  }
  SUBCASE("what has no code is refused, and its type is named") {
    check_refused(kDtype, ScalarType::NumOptions);
    check_refused(kLayout, Layout::NumOptions);
    check_refused(kMemoryFormat, MemoryFormat::NumOptions);
    const auto qint8 = static_cast<StableIValue>(ScalarType::QInt8);
    const auto from_qint8 = refused("from_dtype", qint8);
    CHECK((from_qint8 == Contains("12") || from_qint8 == Contains("QInt8")));
    const auto to_dtype = refused("to_dtype", 999);
    CHECK(to_dtype == Contains("ScalarType"));
    CHECK(to_dtype == Contains("999"));
    CHECK(refused("to_layout", 999) == Contains("Layout"));
    CHECK(refused("to_memory_format", 999) == Contains("MemoryFormat"));
    CHECK(refused("to_device", uint64_t{99} << 32) == Contains("DeviceType"));
    for (const uint64_t more : {256, 65536}) { // all 32 bits of a code count
      CHECK(
          refused("to_dtype", more + bits(ScalarType::Half)) ==
          Contains("ScalarType"));
      CHECK(
          refused("to_layout", more + bits(Layout::Strided)) ==
          Contains("Layout"));
      CHECK(
          refused("to_memory_format", more + bits(MemoryFormat::Contiguous)) ==
          Contains("MemoryFormat"));
      CHECK(refused("to_device", more << 32) == Contains("DeviceType"));
    }
    const auto xla = static_cast<StableIValue>(DeviceType::XLA);
    CHECK(refused("from_device", xla << 32) == Contains("DeviceType"));
  }
}

TEST_CASE(
    "02.3 a tensor is a new handle in, and a stolen one out" *
    doctest::description("A tensor's handle has two owners or none, or one "
                         "that could not be made is used all the same.")) {
  const Tensor x = tensor(5);
  const Named names{{x, "x"}};
  const auto make = [&] { return from_tensor(x); };
  check_echoed(kTensor, make);
  const auto y = theirs::to<Tensor>(call("echo_tensor", make()));
  CHECK(y.data_ptr() == x.data_ptr());
  CHECK(y.size(1) == 3);
  CHECK(first(x) == 5);
  const Tensor undefined;
  CHECK(!theirs::to<Tensor>(call("raw_tensor", from_tensor(undefined)))
             .defined());
  REQUIRE_CLEAN(find_leaks("a tensor", [&] {
    theirs::to<Tensor>(call("echo_tensor", make()));
    theirs::to<Tensor>(call("raw_tensor", from_tensor(tensor(1))));
  }));
  const Kernel released = release_kernel("release_tensor", "Tensor", "Tensor");
  check_released(released, make);
  SUBCASE("no new handle can be made") {
    check_failure(kNewTensorHandle, kTensor, make);
  }
  SUBCASE("memory runs out, at each allocation in turn") {
    check_without_memory(kTensor, make);
    check_without_memory(released, make, false); // as while bad_alloc passes
  }
}

TEST_CASE(
    "02.4 a string is created, copied out and deleted" *
    doctest::description("A text does not come out whole, or its handle is not "
                         "deleted exactly once, after the copy.")) {
  const std::string text = "sigma";
  for (const std::string& value :
       {text,
        std::string(),
        std::string("a\0b\0", 4),
        std::string(10000, 'x'),
        std::string("gr\u00fc\u00df dich")}) {
    check_echoed(kString, [&] { return from_string(value); });
    // What is watched is kept; this finds what is read after it was deleted.
    CHECK(to_string(call("echo_str", from_string(value))) == value);
    REQUIRE_CLEAN(find_leaks(
        "a string", [&] { to_string(call("raw_str", from_string(value))); }));
  }
  const std::string longer(70000, 'x'); // than 16 bits count
  CHECK(to_string(call("echo_str", from_string(longer))) == longer);
  const auto make = [&] { return from_string(text); };
  const auto empty = [] { return from_string(""); };
  const Kernel released = release_kernel("release_str", "str", "std::string");
  check_released(released, make);
  check_released(
      release_kernel("release_by_owner", "str", "std::string"), make);
  check_echoed(
      {"hand_over", "str", "hand_over()", kString.from, kString.to}, make);
  SUBCASE("the text cannot be had") {
    check_failures(1, kStringCStr, kString, make);
    check_failures(1, kStringCStr, kString, empty);
  }
  SUBCASE("the length cannot be had") {
    check_failures(1, kStringLength, kString, make);
    check_failures(1, kStringLength, kString, empty);
  }
  SUBCASE("the length needs 64 bits") {
    check_not_cut(kStringLonger, kString, make);
  }
  SUBCASE("no new string can be made") {
    check_failure(kNewStringHandle, kString, make);
  }
  SUBCASE("memory runs out, at each allocation in turn") {
    check_without_memory(
        kString, [] { return from_string(std::string(100, 'x')); });
    check_without_memory(released, make, false);
  }
  SUBCASE("while another exception unwinds the stack") {
    check_echoed_while_unwinding(kString, make);
  }
}

TEST_CASE(
    "02.5 an optional is null, or a slot on the heap" *
    doctest::description("An optional is not a slot on the heap, or something "
                         "in it has two owners or none.")) {
  const Tensor x = tensor(5);
  const Named names{{x, "x"}};
  using Maybe = std::optional<int64_t>;
  const auto make = [&] { return from_slot(from_tensor(x)); };
  const auto none = [] { return StableIValue{0}; };
  for (const Kernel* kernel : {&kMaybeInt, &kMaybeDtype, &kMaybeTensor}) {
    check_echoed(*kernel, none);
  }
  CHECK(call("echo_maybe_int", 0) == 0);
  CHECK(call("echo_maybe_tensor", 0) == 0);

  // Zero is a value. Ours and PyTorch's are made and read alike.
  for (const int64_t value : {int64_t{-7}, int64_t{0}}) {
    const StableIValue in = bits(value);
    {
      const Ledger ledger;
      const StableIValue slot = call("raw_maybe_int", from_slot(in));
      if (deletions(slot) == Ledger::kUnknown) {
        require_same(
            kMaybeInt.from,
            "Slot<std::optional<int64_t>>::from(" + write_int(in) + ")",
            hex(slot),
            "the address of a slot on the heap, with " + hex(in) + " in it");
      }
      delete pointer<StableIValue>(slot);
    }
    check_echoed(kMaybeInt, [&] { return from_slot(in); });
    CHECK(
        theirs::to<Maybe>(call("echo_maybe_int", bits(Maybe(value)))) == value);
  }
  check_echoed(kMaybeTensor, make);
  REQUIRE_CLEAN(find_leaks("an optional", [&] {
    theirs::to<Maybe>(call("echo_maybe_int", bits(Maybe(3))));
    theirs::to<std::optional<Tensor>>(call("echo_maybe_tensor", make()));
  }));

  SUBCASE("it is released unread") {
    check_released(
        release_kernel("release_maybe_int", "int?", "optional<int64_t>"),
        [] { return from_slot(0); });
    const Kernel kernel =
        release_kernel("release_maybe_tensor", "Tensor?", "optional<Tensor>");
    check_released(kernel, make);
    check_released(kernel, none);
  }
  SUBCASE("the value cannot be converted from its slot") {
    const std::string text =
        check_refused_value(kMaybeDtype, [] { return from_slot(999); });
    CHECK(said_error(text) == Contains("ScalarType"));
  }
  SUBCASE("the value cannot be converted to a slot") {
    check_failure(kNewTensorHandle, kMaybeTensor, make);
  }
  SUBCASE("memory runs out, at each allocation in turn") {
    check_without_memory(kMaybeTensor, make);
  }
  SUBCASE("while another exception unwinds the stack") {
    check_echoed_while_unwinding(kMaybeTensor, make);
  }
}

TEST_CASE(
    "02.6 a list owns its elements, and itself" *
    doctest::description("A list does not arrive whole and in order, or "
                         "something in it has two owners or none.")) {
  const Tensor x = tensor(5);
  const Tensor y = tensor(1);
  const Named names{{x, "x"}, {y, "y"}};
  const auto ints = [](const Slots& values) {
    return [values] { return from_slots(values); };
  };
  const StableIValue code = bits(ScalarType::Half);
  check_echoed(kInts, ints({3, 1, 2}));
  check_echoed(kInts, ints({}));
  check_echoed(
      echo_kernel("raw_bools", "bool[]", "vector<bool>"), ints({1, 0, 1}));
  check_echoed(kTensors, [&] {
    return from_slots({from_tensor(x), from_tensor(y), from_tensor(x)});
  });
  check_echoed(kNestedDtypes, [&] {
    return from_slots(
        {from_slots({code, code}), from_slots({}), from_slots({code})});
  });
  check_echoed(kMaybeTensors, [&] {
    return from_slots({from_slot(from_tensor(x)), 0});
  });

  // Through the dispatcher; made and read by PyTorch's own conversions.
  using Ints = std::vector<int64_t>;
  using Maybe = std::optional<Ints>;
  Random random;
  std::vector<Ints> lists{{}, {-1}, {3, 1, 2}};
  Ints& random_ints = lists.emplace_back();
  for (int i = 0; i < 1000; ++i) {
    random_ints.push_back(random.integer(INT64_MIN, INT64_MAX));
  }
  for (const Ints& ints : lists) {
    const auto echoed = theirs::to<Ints>(call("echo_ints", bits(ints)));
    CHECK(echoed == ints);
    CHECK(
        theirs::to<Maybe>(call("echo_maybe_ints", bits(Maybe(ints)))) == ints);
  }
  using Dtypes = std::vector<std::vector<ScalarType>>;
  const Dtypes dtypes{
      {ScalarType::Half, ScalarType::Long}, {}, {ScalarType::Bool}};
  CHECK(theirs::to<Dtypes>(call("echo_nested_dtypes", bits(dtypes))) == dtypes);
  CHECK(call("echo_maybe_ints", 0) == 0);

  const std::vector<Tensor> tensors{tensor(0), x, y, x};
  const auto echoed =
      theirs::to<std::vector<Tensor>>(call("echo_tensors", bits(tensors)));
  REQUIRE(echoed.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(echoed[i].data_ptr() == tensors[i].data_ptr());
  }
  {
    const auto maybe = theirs::to<std::vector<std::optional<Tensor>>>(
        call("echo_maybe_tensors", from_slots({from_slot(from_tensor(x)), 0})));
    REQUIRE(maybe.size() == 2);
    REQUIRE(maybe[0].has_value());
    CHECK(maybe[0]->data_ptr() == x.data_ptr());
    CHECK(!maybe[1].has_value());
  }
  SUBCASE("more elements than 16 bits count") {
    const Ints many(70000, 1);
    const auto echoed = theirs::to<Ints>(call("echo_ints", bits(many)));
    CHECK(echoed.size() == many.size());
  }
  SUBCASE("the size of the list needs 64 bits") {
    check_not_cut(kListLonger, kInts, ints({0, 0, 0}));
  }
  SUBCASE("a function of libtorch's fails") {
    const auto three = ints({0, 0, 0}); // none is left to be released
    check_failures(1, kNewList, kInts, three);
    check_failures(3, kListPushBack, kInts, three);
    check_failures(1, kListSize, kInts, three);
    check_failures(3, kListGetItem, kInts, three);
    check_failures(3, kListSetItem, kInts, three);
    check_failure(kNewTensorHandle, kTensors, [&] {
      return from_slots({from_tensor(x)});
    });
  }
  SUBCASE("an element is refused, and there is no other") {
    const std::string text = check_refused_value(
        kNestedDtypes, [] { return from_slots({from_slots({999})}); });
    CHECK(said_error(text) == Contains("ScalarType"));
  }
  SUBCASE("memory runs out, at each allocation in turn") {
    check_without_memory(kInts, ints({0, 0, 0}));
  }
  SUBCASE("while another exception unwinds the stack") {
    check_echoed_while_unwinding(kTensors, [&] {
      return from_slots({from_tensor(x), from_tensor(y)});
    });
  }
  REQUIRE_CLEAN(find_leaks("a list", [&] {
    theirs::to<std::vector<Tensor>>(call("echo_tensors", bits(tensors)));
    theirs::to<Dtypes>(call("echo_nested_dtypes", bits(dtypes)));
    theirs::to<Ints>(call("echo_ints", bits(lists[2])));
    theirs::to<std::vector<std::optional<Tensor>>>(
        call("raw_maybe_tensors", from_slots({from_slot(from_tensor(x)), 0})));
  }));
}

TEST_CASE(
    "02.7 when the third element throws, nothing is left behind" *
    doctest::description("When something throws, what is left in a list is not "
                         "released exactly once, or the error is lost.")) {
  const Tensor x = tensor(5);
  const Tensor y = tensor(1);
  const Named names{{x, "x"}, {y, "y"}};
  const auto dtypes = [](StableIValue code) { return from_slots({code}); };
  const auto good = bits(aoti_torch_dtype_float32());
  const auto four = [&] {
    return from_slots(
        {from_tensor(x), from_tensor(y), from_tensor(x), from_tensor(y)});
  };
  const auto maybe_four = [&] {
    return from_slots(
        {from_slot(from_tensor(x)),
         0,
         from_slot(from_tensor(y)),
         from_slot(from_tensor(x))});
  };

  SUBCASE("a list is released unread") {
    check_released(
        release_kernel("release_tensors", "Tensor[]", "vector<Tensor>"), [&] {
          return from_slots({from_tensor(x), from_tensor(y)});
        });
    check_released(kReleaseInts, [] { return from_slots({1, 0, 2}); });
    check_released(kReleaseInts, [] { return from_slots({}); });
    check_released(
        release_kernel(
            "release_nested_dtypes",
            "ScalarType[][]",
            "vector<vector<ScalarType>>"),
        [&] {
          return from_slots({dtypes(good), from_slots({})});
        });
    check_released(kReleaseMaybeTensors, [&] {
      return from_slots({from_slot(from_tensor(x)), 0});
    });
    check_released(kReleaseMaybeTensors, maybe_four);
    check_released(
        release_kernel(
            "release_maybe_int_list", "int?[]", "vector<optional<int64_t>>"),
        [] {
          return from_slots({from_slot(7), 0, from_slot(8)});
        });
    LOOK_AT("slot.h", "static std::vector<T> to(");
    if (!function<bool()>("wb02_release_is_noexcept")()) {
      FAIL("Slot<std::vector<T>>::release is not marked noexcept");
    }
  }
  // One that comes later cannot be converted either: the text is the first's.
  SUBCASE("element 2 of 5 is a list with the code 999, which no dtype has") {
    const std::string text = check_refused_value(kNestedDtypes, [&] {
      return from_slots(
          {dtypes(good), dtypes(good), dtypes(999), dtypes(888), dtypes(good)});
    });
    CHECK(said_error(text) == Contains("ScalarType"));
    CHECK(said_error(text) == Contains("999"));
  }
  SUBCASE("element 1 of 2 is a dtype without a code") {
    const auto qint8 = static_cast<StableIValue>(ScalarType::QInt8);
    REQUIRE_CLEAN(find_leaks("a list with a dtype without a code", [&] {
      CHECK(refusal([&] {
              call("from_dtypes", qint8);
            }) == Contains("ScalarType"));
    }));
  }
  // What cannot be had owns nothing here; all the rest is released.
  SUBCASE("release asks in vain") {
    const auto ints = [] { return from_slots({1, 0, 2}); };
    const auto none_first = [&] {
      return from_slots({0, from_slot(from_tensor(x)), 0});
    };
    const auto none_second = [&] {
      return from_slots(
          {from_slot(from_tensor(x)), 0, from_slot(from_tensor(y))});
    };
    check_failures_for_good(1, kListSize, kReleaseInts, ints);
    check_failures_for_good(3, kListGetItem, kReleaseInts, ints);
    check_failure(kListGetItem, kReleaseMaybeTensors, none_first);
    check_failure(kListGetItem, kReleaseMaybeTensors, none_second, 2);
  }
  SUBCASE("a function of libtorch's fails, and goes on failing") {
    const auto ints = [] { return from_slots({1, 0, 2}); };
    check_failures_for_good(1, kListSize, kInts, ints);
    check_failures_for_good(3, kListGetItem, kInts, ints);
    check_failures_for_good(3, kListSetItem, kInts, ints);
  }
  SUBCASE("a function of libtorch's fails, once") {
    const std::pair<Kernel, Make> lists[] = {
        {kTensors, four}, {kMaybeTensors, maybe_four}};
    for (const auto& [kernel, make] : lists) {
      check_failures(4, kNewTensorHandle, kernel, make);
      check_failures(1, kNewList, kernel, make);
      check_failures(1, kListSize, kernel, make);
      check_failures(4, kListGetItem, kernel, make);
      check_failures(4, kListSetItem, kernel, make);
    }
    const auto nested = [&] {
      return from_slots({dtypes(good), dtypes(good)});
    };
    check_failures(3, kNewList, kNestedDtypes, nested);
    check_failures(2, kListSetItem, kNestedDtypes, nested);
    // A `release` that zeroes what it releases may make the calls after these.
    check_failure(kListSetItem, kNestedDtypes, nested, 3, true);
    check_failure(kListSetItem, kNestedDtypes, nested, 4, true);
  }
  SUBCASE("no handle can be made for the third of four tensors") {
    check_failure(kNewTensorHandle, kTensors, four, 3);
  }
  SUBCASE("no handle can be made for the third of three tensors, and a None") {
    check_failure(kNewTensorHandle, kMaybeTensors, maybe_four, 3);
  }
  SUBCASE("memory runs out, at each allocation in turn") {
    check_without_memory(kTensors, four);
    check_without_memory(kNestedDtypes, [&] {
      return from_slots({dtypes(good), dtypes(good), dtypes(good)});
    });
    check_without_memory(kMaybeTensors, maybe_four);
    check_without_memory(kReleaseMaybeTensors, maybe_four, false);
    check_without_memory(
        kReleaseInts,
        [] {
          return from_slots({1, 0, 2});
        },
        false);
  }
  // Through the dispatcher: a dtype that libtorch has since 2.11, and an
  // extension for 2.10 has not.
  SUBCASE("a dtype that is newer than the headers") {
    if (libtorch_at_least(11)) {
      const auto new_dtype = reinterpret_cast<int32_t (*)()>(
          dlsym(RTLD_DEFAULT, "torch_dtype_float8_e8m0fnu"));
      REQUIRE((new_dtype != nullptr));
      REQUIRE_CLEAN(
          find_leaks("a list with a dtype that is newer than the headers", [&] {
            const Slots in{
                dtypes(good),
                dtypes(good),
                dtypes(bits(new_dtype())),
                dtypes(good)};
            CHECK(refusal([&] {
                    call("echo_nested_dtypes", from_slots(in));
                  }) == Contains("ScalarType"));
          }));
    }
  }

  // The same conversions work as before.
  const std::vector<Tensor> tensors{x, x, x, x};
  const auto echoed =
      theirs::to<std::vector<Tensor>>(call("echo_tensors", bits(tensors)));
  CHECK(echoed.size() == 4);
}
