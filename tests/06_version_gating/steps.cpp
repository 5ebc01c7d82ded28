// Tests of chapter 06: each step has its cases, and they test both libraries.
// An older libtorch may refuse the library that targets its headers' version.
#include "abi/torch_stable_abi/trace/slots.h"
#include "compiler.h"
#include "libraries.h"
#include "other_headers.h"
#include "replaced_functions.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/child.h"
#include "testing/dispatcher.h"
#include "testing/replaced.h"
#include "testing/symbols.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace workbook;
using namespace workbook::chapter_06;
using doctest::Contains;
using doctest::String;
using torch::stable::Tensor;
namespace conversions = torch::stable::detail;

TEST_CASE(
    "06.1 a target that cannot be is refused" *
    doctest::description(
        "The guard does not stop at each target that cannot be, with a "
        "sentence of its own, or it stops at one that can be.")) {
  const uint64_t here = header_version();
  const Versions versions(here);
  const std::string whole =
      "-fsyntax-only -Wfatal-errors -isystem" + quote(versions.path);
  // The #error comes first in the whole of compat.h.
  constexpr char kNewer[] = "0x0210000000000000"; // 2.16
  constexpr char kOlder[] = "0x0209000000000000";
  Compiler newer(
      whole + " -DTORCH_TARGET_VERSION=" + kNewer + quote(compat_path()));
  Compiler none(whole + quote(compat_path()));

  const std::vector<std::string> wrong = {
      kNewer,
      "0x020a00000000", // a byte short
      kOlder,
      "0x0209ffffffffffff",
      "0x010f000000000000",                      // 1.15
      slots::hex(here + pack_version(0, 1)),     // a minor above the headers
      slots::hex(here + pack_version(0, 0, 1))}; // and a patch
  const std::vector<std::string> right = {
      "0x020a000000000000", "TORCH_ABI_VERSION"};
  const std::string patch = slots::hex(pack_version(2, 16, 1));
  const std::vector<std::string> wrong_in_2_16_1 = {
      slots::hex(pack_version(2, 16, 2)), "0x0211000000000000"};
  const std::vector<std::string> right_in_2_16_1 = {
      kNewer, patch, "TORCH_ABI_VERSION"};
  Beginning today(here), of_2_16_1(pack_version(2, 16, 1));
  for (const auto* targets : {&wrong, &right}) {
    for (const std::string& target : *targets) {
      today.add(target);
    }
  }
  today.add("");
  for (const auto* targets : {&wrong_in_2_16_1, &right_in_2_16_1}) {
    for (const std::string& target : *targets) {
      of_2_16_1.add(target);
    }
  }
  today.compile();
  of_2_16_1.compile();
  REQUIRE_CLEAN(check_refused(newer.text(), kNewer));
  const std::string of_none = none.text();
  REQUIRE_CLEAN(check_refused(of_none, ""));
  REQUIRE_CLEAN(check_advice(of_none));
  REQUIRE_CLEAN(check_message(of_none, today.errors(kOlder)));
  for (const std::string& target : wrong) {
    REQUIRE_CLEAN(today.check_refused(target));
  }
  for (const std::string& target : right) {
    REQUIRE_CLEAN(today.check_accepted(target));
  }
  {
    INFO("TORCH_STABLE_ONLY, which says no target, is defined");
    REQUIRE_CLEAN(today.check_refused(""));
  }
  INFO("the headers of 2.16.1");
  for (const std::string& target : wrong_in_2_16_1) {
    REQUIRE_CLEAN(of_2_16_1.check_refused(target));
  }
  for (const std::string& target : right_in_2_16_1) {
    REQUIRE_CLEAN(of_2_16_1.check_accepted(target));
  }
}

TEST_CASE(
    "06.1 versions compare as numbers, in an #if and in C++" *
    doctest::description("A macro of compat.h compares versions wrongly, or "
                         "the guard does.")) {
  constexpr char k2_10[] = "0x020a000000000000", k2_11[] = "0x020b000000000000",
                 k3_0[] = "0x0300000000000000";
  Beginning later(pack_version(3, 0));
  later.add(k2_10);
  later.add(k2_11);
  later.expect("COMPAT_VERSION(2, 10)", k2_10);
  later.expect("COMPAT_VERSION(3, 255)", "0x03ff000000000000");
  later.expect("COMPAT_TARGET(2, 10)", "true");
  later.expect("COMPAT_TARGET(2, 11)", "true"); // from this version on
  later.expect("COMPAT_TARGET(2, 12)", "false");
  later.expect("COMPAT_TARGET(1, 13)", "true");
  later.expect("COMPAT_TARGET(3, 0)", "false");
  later.add(k3_0);
  later.expect("COMPAT_TARGET(2, 11)", "true");
  later.expect("COMPAT_TARGET(3, 0)", "true");
  later.expect("COMPAT_HEADERS(2, 14)", "true");
  later.expect("COMPAT_HEADERS(3, 0)", "true");
  later.expect("COMPAT_HEADERS(3, 1)", "false");
  later.compile();
  INFO("the headers of 3.0");
  for (const char* target : {k2_10, k2_11, k3_0}) {
    REQUIRE_CLEAN(later.check_accepted(target));
  }
}

TEST_CASE(
    "06.2 which two of the three versions must agree" *
    doctest::description("is_supported is true below the target, or false from "
                         "it on.")) {
  for_each_library([](const Library& library) {
    const uint64_t targeted = target_version(library);
    const std::vector<uint64_t> versions = {
        aoti_torch_abi_version(),
        pack_version(2, 16, 3),
        pack_version(3, 0),
        targeted, // older than the headers or not; and before
        targeted - pack_version(0, 1) + pack_version(0, 0, 9),
        targeted - pack_version(0, 0, 1),
        pack_version(2, 10),
        pack_version(2, 9, 1),
        pack_version(1, 13)};
    std::vector<bool> answers;
    {
      const Replaced other(
          library.inside, "aoti_torch_abi_version", get_running_version);
      for (const uint64_t version : versions) {
        running = version;
        answers.push_back(library.is_supported());
      }
    }
    if (std::count(answers.begin(), answers.end(), answers[0]) ==
        static_cast<int64_t>(answers.size())) {
      FAIL(
          "is_supported is ",
          std::string(answers[0] ? "true" : "false"),
          " on libtorch 1.13 and on 3.0: does it ask in each call?");
    }
    for (size_t i = 0; i < versions.size(); ++i) {
      INFO("on libtorch ", format_version(versions[i]));
      const bool is_supported = answers[i];
      const bool expected = versions[i] >= targeted;
      CHECK(is_supported == expected);
    }
    // Another one in the same process has another target.
    REQUIRE_CLEAN(not_hidden(library.inside));
  });
  const Elsewhere& other = Elsewhere::get();
  if (other.trouble.empty()) { // else step 06.4 shows it
    const Replaced replaced(
        other.inside(), "aoti_torch_abi_version", get_running_version);
    auto* const supported = other.function<bool()>("elsewhere_supported");
    for (const uint64_t patch : {2, 3, 4}) {
      running = pack_version(2, 10, patch);
      INFO(
          "a library that targets 2.10.3, on libtorch ",
          format_version(running));
      const bool is_supported = supported();
      const bool expected = patch >= 3;
      CHECK(is_supported == expected);
    }
  }
}

TEST_CASE(
    "06.2 the report has all three versions" *
    doctest::description("abi_report does not say each of the three versions "
                         "in its place.")) {
  for_each_library([](const Library& library) {
    const std::string built = "built with " + format_version(header_version()) +
        ", targets " + format_version(target_version(library)) + ", runs on ";
    {
      const std::string report = library.abi_report();
      CHECK(report == built + format_version(aoti_torch_abi_version()));
    }
    // On one that is_supported refuses too: that is when it is asked for.
    const Replaced other(
        library.inside, "aoti_torch_abi_version", get_running_version);
    running = pack_version(3, 0);
    if (library.abi_report() ==
        built + format_version(aoti_torch_abi_version())) {
      FAIL(
          "on libtorch 3.0.0 abi_report says \"runs on ",
          format_version(aoti_torch_abi_version()),
          "\": does it ask in each call?");
    }
    for (const uint64_t version :
         {pack_version(2, 16, 3),
          pack_version(3, 0, 17),
          pack_version(16, 255, 255) | 255,
          pack_version(2, 9, 1),
          pack_version(1, 13)}) {
      running = version;
      INFO("on libtorch ", format_version(version));
      std::string report;
      const String thrown = refusal([&] { report = library.abi_report(); });
      CHECK(thrown == kNothingThrown);
      CHECK(report == built + format_version(version));
    }
  });
}

TEST_CASE(
    "06.3 a tensor owns the data that it is given" *
    doctest::description("The tensor loses its data, or the deleter does not "
                         "run exactly once.")) {
  for_each_library([](const Library& library) {
    const bool copies = target_version(library) < pack_version(2, 11);
    const Replaced made(library.inside, "_Znam", count_allocation);
    const Replaced counted(library.inside, "_ZdaPv", count_deletion);
    deleted = 0;
    const auto ran = [](int wanted, const std::string& when) {
      if (deleted != wanted) {
        FAIL(
            "the deleter has run ",
            deleted,
            " time(s) ",
            when,
            ", not ",
            wanted);
      }
    };
    const int at_once = copies ? 1 : 0; // a copy needs the buffer no longer
    {
      Tensor tensor = library.count({5});
      const auto data = values<int64_t>(tensor);
      if (data[4] == kDeleted) {
        FAIL("the buffer is read after the deleter has run");
      }
      CHECK(data == std::vector<int64_t>{0, 1, 2, 3, 4});
      ran(at_once, "when the tensor is made");
      const Tensor part = torch::stable::narrow(tensor, 0, 3, 2);
      tensor = part;
      ran(at_once, "while a view of the tensor lives");
      const auto rest = values<int64_t>(tensor);
      CHECK(rest == std::vector<int64_t>{3, 4});
    }
    ran(1, "when the tensor and its view are gone");
    CHECK(library.count({0}).numel() == 0);
    ran(2, "for two tensors, of which one is empty");
    const Tensor cube = library.count({4, 3, 2});
    const auto strides = cube.strides().vec();
    CHECK(strides == std::vector<int64_t>{6, 2, 1});
    CHECK(cube.const_data_ptr<int64_t>()[23] == 23);
    const auto strides_of_empty = library.count({3, 0, 2}).strides().vec();
    CHECK(strides_of_empty == std::vector<int64_t>{2, 2, 1});
    const Tensor number = library.count({}); // no dimension, one element
    CHECK(number.dim() == 0);
    CHECK(values<int64_t>(number) == std::vector<int64_t>{0});
  });
}

TEST_CASE(
    "06.3 if it throws, the data is still the caller's" *
    doctest::description("from_blob throws, and has run the deleter: the "
                         "caller deletes the data a second time.")) {
  for_each_library([](const Library& library) {
    const Replaced made(library.inside, "_Znam", count_allocation);
    const Replaced counted(library.inside, "_ZdaPv", count_deletion);
    const auto run = [&library](const std::string& what) {
      allocated = deleted = 0;
      {
        const CapturedStderr quiet;
        refusal([&library] { library.count({5}); });
      }
      if (deleted != allocated) {
        FAIL(
            what,
            " fails, and the data is deleted ",
            deleted,
            " time(s): if from_blob throws, it is the caller who deletes it");
      }
    };
    for (const std::string name :
         {"aoti_torch_create_tensor_from_blob",
          "aoti_torch_create_tensor_from_blob_v2",
          "torch_from_blob",
          "aoti_torch_aten_new_empty",
          "aoti_torch_empty_strided",
          "aoti_torch_copy_",
          "aoti_torch_clone"}) {
      const Replaced failing(library.inside, name.c_str(), fail);
      run(name);
    }
    const Replaced failing(library.inside, "torch_call_dispatcher", fail_in_op);
    run("torch_call_dispatcher");
  });
}

namespace {

int64_t blobs_deleted = 0;

// Requires that from_blob at target 2.10 copies the numbers 1, 2, 3, ...
template <typename T>
void expect_copied(const std::vector<int64_t>& sizes, size_t count) {
  std::vector<T> data(count);
  for (size_t i = 0; i < count; ++i) {
    data[i] = static_cast<T>(i + 1);
  }
  const std::vector<T> expected = data;
  blobs_deleted = 0;
  const auto dtype = c10::CppTypeToScalarType<T>::value;
  const Tensor tensor = elsewhere_from_blob(
      Elsewhere::places()[0], data.data(), sizes, dtype, [](void*) {
        ++blobs_deleted;
      });
  data.assign(count, T{}); // the memory may be used for something else
  const std::string name = torch::headeronly::toString(dtype);
  INFO("at target 2.10, from sizes ", sizes, " and the dtype ", name);
  if (tensor.scalar_type() != dtype) {
    FAIL("the tensor has another dtype");
  }
  const auto copied = values<T>(tensor);
  const auto copied_sizes = tensor.sizes().vec();
  CHECK(copied_sizes == sizes);
  CHECK(copied == expected);
  CHECK(blobs_deleted == 1);
}

} // namespace

TEST_CASE(
    "06.3 the copy is of any dtype and any sizes" *
    doctest::description("What from_blob copies at target 2.10 is not a tensor "
                         "of the dtype and the sizes that it is given.")) {
  if (Elsewhere::get().trouble.empty()) { // else step 06.4 shows it
    expect_copied<float>({2, 3}, 6);
    expect_copied<double>({}, 1);
    expect_copied<int32_t>({3, 1, 2}, 6);
    expect_copied<uint8_t>({5}, 5);
  }
}

TEST_CASE(
    "06.3 the gate opens at target 2.11, and not before" *
    doctest::description("The gate opens at another target than 2.11.")) {
  for (const Elsewhere::Place& place : runnable_places()) {
    int64_t number = 7;
    blobs_deleted = 0;
    const Tensor tensor = elsewhere_from_blob(
        place, &number, {}, c10::ScalarType::Long, [](void*) {
          ++blobs_deleted;
        });
    const bool copies = blobs_deleted != 0;
    if (copies != (place.minor < 11)) {
      FAIL(
          "from_blob ",
          std::string(copies ? "copies" : "does not copy"),
          " at target 2.",
          place.minor);
    }
  }
}

namespace {

// The numbers that each of two deleters was called with.
std::vector<int64_t> by_the_first, by_the_second;

} // namespace

TEST_CASE(
    "06.3 each tensor has its own deleter" *
    doctest::description("from_blob hands a tensor's data to the deleter of "
                         "another one.")) {
  for (const Elsewhere::Place& place : runnable_places()) {
    INFO("two tensors with two deleters, at target 2.", place.minor);
    int64_t first = 1, second = 2;
    by_the_first.clear(), by_the_second.clear();
    constexpr auto kLong = c10::ScalarType::Long;
    Tensor one = elsewhere_from_blob(place, &first, {1}, kLong, [](void* data) {
      by_the_first.push_back(*static_cast<int64_t*>(data));
    });
    Tensor other =
        elsewhere_from_blob(place, &second, {1}, kLong, [](void* data) {
          by_the_second.push_back(*static_cast<int64_t*>(data));
        });
    one = other = Tensor();
    CHECK(by_the_first == std::vector<int64_t>{1});
    CHECK(by_the_second == std::vector<int64_t>{2});
  }
}

TEST_CASE(
    "06.3 two threads copy at the same time" *
    doctest::description("from_blob is called in two threads at the same time, "
                         "and they share what one of them owns.")) {
  REQUIRE_CLEAN(
      check_threads([](const Library& library) { library.count({5}); }));
}

TEST_CASE(
    "06.3 the data stays on its device" *
    doctest::description("from_blob takes the data for another device's.")) {
  const void* inside = Elsewhere::get().inside();
  for (const Elsewhere::Place& place : runnable_places()) {
    for (const auto& [type, index] :
         {std::pair(c10::DeviceType::CUDA, int8_t{1}),
          std::pair(c10::DeviceType::XPU, int8_t{0}),
          std::pair(c10::DeviceType::PrivateUse1, int8_t{3})}) {
      const Replaced old(inside, "aoti_torch_create_tensor_from_blob", blob_of);
      const Replaced plain(
          inside, "aoti_torch_create_tensor_from_blob_v2", blob_of);
      const Replaced with_deleter(inside, "torch_from_blob", blob_of);
      blob_device = "none";
      int64_t number = 7;
      elsewhere_from_blob(
          place,
          &number,
          {1},
          c10::ScalarType::Long,
          [](void*) {},
          type,
          index);
      INFO("at target 2.", place.minor);
      const std::string device = blob_device;
      CHECK(device == device_text(static_cast<int64_t>(type), index));
    }
  }
}

TEST_CASE(
    "06.4 permute is there with any headers" *
    doctest::description("The call by name gives another view, names another "
                         "version, or hides that it failed, or why.")) {
  for_each_library([](const Library& library) {
    std::vector<int64_t> data(24);
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<int64_t>(i);
    }
    const Tensor x = tensor<int64_t>(data, {2, 3, 4});
    const Replaced recorded(
        library.inside, "torch_call_dispatcher", record_call);
    {
      INFO("x is [2, 3, 4], permuted by [2, 0, 1]");
      const Tensor y = library.permute(x, {2, 0, 1});
      const auto sizes = y.sizes().vec();
      const auto strides = y.strides().vec();
      CHECK(sizes == std::vector<int64_t>{4, 2, 3});
      CHECK(strides == std::vector<int64_t>{1, 12, 4});
      if (y.data_ptr() != x.data_ptr()) {
        FAIL("the result is no view: it has other memory than x");
      }
      CHECK(library.permute(y, {1, 2, 0}).is_contiguous());
    }
    CHECK(library.permute(x, {-1, 1, 0}).size(0) == 4);
    CHECK(library.permute(tensor<int64_t>({7}, {}), {}).dim() == 0);
    running = pack_version(2, 16, 3);
    const Replaced newer(
        library.inside, "aoti_torch_abi_version", get_running_version);
    library.permute(x, {2, 0, 1});
    {
      INFO("built_with is the last argument of the call");
      const std::string built_with = format_version(given_to_call);
      CHECK(built_with == format_version(header_version()));
    }
    const std::string one =
        in_child([&] { library.permute(tensor<int64_t>({7}, {1}), {5}); });
    if (one.rfind("threw: ", 0) != 0) {
      FAIL("x is [1], permuted by [5], and nothing is thrown: ", one);
    }
    const std::string accepted = in_child([&] {
      const CapturedStderr quiet;
      for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{
               {}, {1, 0}, {0, 1, 2, 3}, {0, 1, (int64_t{1} << 32) + 2}}) {
        if (refusal([&] { library.permute(x, dims); }) == kNothingThrown) {
          return "by " + std::string(doctest::toString(dims).c_str());
        }
      }
      return std::string();
    });
    if (!accepted.empty()) {
      FAIL(
          "x has three dimensions, is permuted by others, and nothing is "
          "thrown: ",
          accepted);
    }
    INFO("permuted by [0, 0, 1], which libtorch refuses");
    // What the slot holds after a failed call is not a tensor.
    const std::string failed = in_child([&] { library.permute(x, {0, 0, 1}); });
    if (failed.rfind("threw: ", 0) != 0) {
      FAIL("the call fails, and nothing is thrown: ", failed);
    }
    if (aoti_torch_abi_version() >= pack_version(2, 13)) {
      CHECK(said(failed) == Contains("duplicate")); // libtorch's own reason
      INFO("and then by [0, 1, 7]: the reason is another");
      const std::string next = in_child([&] {
        refusal([&] { library.permute(x, {0, 0, 1}); });
        library.permute(x, {0, 1, 7});
      });
      CHECK(said(next) == Contains("out of range"));
    }
  });
}

TEST_CASE(
    "06.4 the gate opens with the headers of 2.14, whatever the target" *
    doctest::description("The gate does not open with the headers of 2.14, or "
                         "what it opens does not compile.")) {
  const Elsewhere& newer = Elsewhere::get();
  REQUIRE_CLEAN(newer.trouble);
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto permuted = [&](const std::string& place) {
    const int64_t dims[] = {1, 0};
    auto* const permute = newer.function<AtenTensorHandle(
        AtenTensorHandle, const int64_t*, size_t)>(
        (place + "_permute").c_str());
    return Tensor(permute(
        slots::pointer<AtenTensorHandle>(slots::make("Tensor", x.get())),
        dims,
        2));
  };
  auto* const wrapped = newer.function<int()>("elsewhere_permutes");
  permuted("before_2_14");
  if (wrapped() != 0) {
    FAIL(
        "with the headers of 2.13 permute calls torch::stable::permute, which "
        "they do not have");
  }
  const Tensor y = permuted("elsewhere");
  if (wrapped() != 1) {
    FAIL(
        "with the headers of 2.14 permute does not call "
        "torch::stable::permute, at target 2.10");
  }
  INFO("the headers of 2.14; x is [2, 3], permuted by [1, 0]");
  const auto sizes = y.sizes().vec();
  const auto strides = y.strides().vec();
  CHECK(sizes == std::vector<int64_t>{3, 2});
  CHECK(strides == std::vector<int64_t>{1, 3});
  if (y.data_ptr() != x.data_ptr()) {
    FAIL("the result is no view: it has other memory than x");
  }
}

TEST_CASE(
    "06.5 the gate opens at target 2.13, and not before" *
    doctest::description(
        "nativeHandle() is used below target 2.13, or not from "
        "it on.")) {
  const Elsewhere& elsewhere = Elsewhere::get();
  if (!elsewhere.trouble.empty()) {
    return; // step 06.4 shows it
  }
  const void* inside = elsewhere.inside();
  const Replaced cuda(
      inside, "aoti_torch_get_current_cuda_stream", get_other_cuda_stream);
  const Replaced current(
      inside, "aoti_torch_get_current_stream", get_current_stream);
  const Replaced native(
      inside, "torch_stream_native_handle", get_native_handle);
  const Replaced id(inside, "aoti_torch_stream_id", get_stream_id);
  const Replaced deleted(inside, "aoti_torch_delete_stream", delete_stream);
  for (const Elsewhere::Place& place : Elsewhere::places()) {
    auto* const current_stream = elsewhere.function<void*(int32_t)>(
        (place.name + "_current_stream").c_str());
    first_stream = 0x5eed0;
    const auto stream = reinterpret_cast<int64_t>(current_stream(3));
    const bool open = stream == 0x5eed3;
    if (open && place.minor < 13) {
      FAIL("current_stream uses nativeHandle() at target 2.", place.minor);
    }
    if (!open && place.minor >= 13) {
      FAIL(
          "current_stream ",
          std::string(
              stream == 3 ? "gives Stream::id(), a number of PyTorch's own,"
                  : stream == 0xc0da ? "asks CUDA's function alone"
                                     : "does not use nativeHandle()"),
          " at target 2.",
          place.minor);
    }
  }
}

TEST_CASE(
    "06.5 the current stream is the device's own" *
    doctest::description("current_stream does not give the device's own "
                         "handle, or does not say why it cannot.")) {
  constexpr char kName[] = "aoti_torch_get_current_cuda_stream";
  for_each_library([&](const Library& library) {
    const Replaced current(
        library.inside, "aoti_torch_get_current_stream", get_current_stream);
    const Replaced native(
        library.inside, "torch_stream_native_handle", get_native_handle);
    const Replaced id(library.inside, "aoti_torch_stream_id", get_stream_id);
    const Replaced deleted(
        library.inside, "aoti_torch_delete_stream", delete_stream);
    const auto refused = [&library](int64_t device) {
      return refusal([&] { library.current_stream(device); });
    };
    const bool old = target_version(library) < pack_version(2, 13);
    AOTITorchError (*const nowhere)(int32_t, void**) = nullptr;
    if (old) {
      INFO("a PyTorch without libtorch_cuda.so");
      const Replaced missing(library.inside, kName, nowhere);
      const std::string failed = in_child([&] { library.current_stream(0); });
      if (failed.rfind("threw: ", 0) != 0) {
        FAIL(
            kName,
            " is missing, its address null; nothing is thrown: ",
            failed);
      }
      CHECK(said(failed) == Contains(kName));
    }
    const Replaced found(
        library.inside, kName, old ? get_cuda_stream : get_other_cuda_stream);
    // Then it is another one, and then the default one, whose handle is null.
    for (const int64_t device : {0, 3, 0}) {
      INFO("of device ", device);
      int64_t before = -1;
      for (const int64_t first : {0x5eed0, 0xfeed0, 0}) {
        first_stream = first;
        const int64_t found = library.current_stream(device);
        if (found == before) {
          FAIL(
              "another stream is chosen, and current_stream gives the old one");
        }
        before = found;
        const auto stream = hex(found);
        CHECK(stream == hex(first + device));
      }
    }
    if (old) {
      INFO("of device 9, which is not there: the call fails");
      if (refused(9) == kNothingThrown) {
        FAIL(kName, " fails, and nothing is thrown");
      }
    } else {
      {
        INFO("an accelerator that is not CUDA, without libtorch_cuda.so");
        const Replaced missing(library.inside, kName, nowhere);
        first_stream = 0x5eed0;
        const std::string stream =
            in_child([&] { return hex(library.current_stream(3)); });
        CHECK(stream == hex(0x5eed3));
      }
      for (const std::string name :
           {"torch_stream_native_handle", "aoti_torch_get_current_stream"}) {
        const Replaced failing(library.inside, name.c_str(), fail);
        const CapturedStderr quiet;
        if (refused(0) == kNothingThrown) {
          FAIL(name, " fails, and nothing is thrown");
        }
      }
    }
    if (streams != 0) {
      FAIL(streams, " stream(s) were got, and not released");
    }
  });
}

TEST_CASE("06 a library for newer libtorch is refused, or works") {
  const Library& newest = libraries()[1];
  if (newest.inside == nullptr) {
    CHECK(header_version() > aoti_torch_abi_version());
    CHECK(said(newest.refusal) == Contains("undefined symbol: torch_"));
  }
}

TEST_CASE("06 sizes are checked before anything is allocated") {
  for_each_library([](const Library& library) {
    CHECK(refusal([&] { library.count({-1}); }) == Contains("got -1"));
  });
}
