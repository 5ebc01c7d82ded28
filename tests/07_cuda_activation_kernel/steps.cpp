// Tests of chapter 07: each step has its cases. The kernels run on the host,
// over the threads of a real launch. The launch itself goes to a pretended GPU:
// it is compiled and looked at, not run.
#include "fake_gpu.h"
#include "inputs.h"
#include "kernel_results.h"
#include "launch.h"
#include "model.h"
#include "op_launches.h"
#include "ops.h"
#include "probe.h"
#include "testing/aten.h"
#include "testing/checks.h"
#include "testing/compare.h"
#include "testing/dispatcher.h"
#include "testing/library.h"
#include "testing/random.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace workbook;
using namespace workbook::chapter_07;
using doctest::Contains;
using pretend::sigmoid;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

TEST_CASE(
    "07.1 each element is written once, by a thread with its operands" *
    doctest::description("A thread reads or writes another element than its "
                         "own, or rounds twice.")) {
  SUBCASE("each element is computed once, from its operands") {
    REQUIRE_TRACED(traced(4, 0, 16, 2, 10)); // with 12 threads to spare
    for (const int size : {2, 4}) {
      for (const uint32_t threads : {1u, 2u, 32u, 256u}) {
        for (int i = 0; i < 20; ++i) {
          Trace t = traced(size, 0, threads, random(1, 9), random(1, 70));
          t.row_stride += random(0, 3) * 5;
          REQUIRE_TRACED(t);
        }
      }
    }
  }
  SUBCASE("the last block is full, or has a thread to spare, or one too few") {
    for (const int64_t d : {1, 255, 256, 257, 511, 512, 513}) {
      REQUIRE_TRACED(traced(4, 0, 256, 1, d));
      REQUIRE_TRACED(traced(4, 0, 256, 3, d));
    }
  }
  SUBCASE("columns that are not side by side") {
    Trace every_third = traced(4, 0, 32, 7, 10);
    every_third.column_stride = 3;
    every_third.row_stride = 60;
    every_third.up = 30;
    REQUIRE_TRACED(every_third);
    Trace transposed = traced(2, 0, 32, 7, 10);
    transposed.column_stride = 7;
    transposed.row_stride = 1;
    transposed.up = 70;
    REQUIRE_TRACED(transposed);
    Trace expanded = traced(4, 0, 32, 7, 10);
    expanded.column_stride = 0;
    expanded.row_stride = 2;
    expanded.up = 1;
    REQUIRE_TRACED(expanded);
  }
  SUBCASE("more elements than 32 bits can count") {
    for (const int64_t row_stride : {131074, 400000}) {
      Trace t = traced(2, 0, 256, 70000, 65537);
      t.row_stride = row_stride;
      t.ends = 2;
      REQUIRE_TRACED(t);
    }
    // Elements, rows or columns alone.
    for (const auto& [rows, d] :
         {std::pair{int64_t{3}, kMany / 3},
          {3, kMany / 4}, // only their offsets
          {kMany, 1},
          {1, kMany}}) {
      Trace t = traced(4, 0, 256, rows, d);
      t.ends = 2;
      REQUIRE_TRACED(t);
    }
    Trace transposed = traced(2, 0, 256, 70000, 65537);
    transposed.column_stride = 70000;
    transposed.row_stride = 1;
    transposed.up = 70000 * transposed.d;
    transposed.ends = 2;
    REQUIRE_TRACED(transposed);
  }
  SUBCASE("few elements, farther apart than 32 bits can count") {
    for (const int64_t far : kFar) {
      Trace slice = traced(4, 0, 32, 7, 10);
      slice.row_stride = far;
      REQUIRE_TRACED(slice);
      Trace transposed = traced(2, 0, 32, 7, 10);
      transposed.column_stride = far;
      transposed.row_stride = 1;
      transposed.up = 10 * far;
      REQUIRE_TRACED(transposed);
      Trace expanded = traced(4, 0, 32, 7, 10);
      expanded.column_stride = 0;
      expanded.row_stride = far;
      expanded.up = 1;
      REQUIRE_TRACED(expanded);
    }
  }
  SUBCASE("as many, in the kernel of the gradient") {
    LOOK_AT("backward.h", "plain_backward");
    for (const auto& [rows, d] :
         {std::pair{int64_t{5}, int64_t{70}},
          {3, kMany / 8}, // only their offsets
          {3, kMany / 4},
          {kMany, 1},
          {1, kMany},
          {int64_t{1} << 31, 1}, // the last that 32 bits number
          {2, int64_t{1} << 30}}) {
      Trace t = traced(2, 0, 256, rows, d);
      t.ends = 2;
      REQUIRE_CLEAN(first_mistake_of_gradient(t));
    }
  }
  SUBCASE("float, half and bfloat16 are rounded once") {
    for (int i = 0; i < 30; ++i) {
      const int64_t rows = random(1, 5), d = random(1, 60);
      const auto numbers = normal(rows * 2 * d);
      const Case c{0, rows, d, 2 * d};
      REQUIRE_CLEAN(check_kernel<float>(numbers, c));
      REQUIRE_CLEAN(check_kernel<c10::Half>(numbers, c));
      REQUIRE_CLEAN(check_kernel<c10::BFloat16>(numbers, c));
    }
  }
}

TEST_CASE(
    "07.2 the launch follows the input's device, and its current stream" *
    doctest::description("The launch has the wrong device, stream or size, or "
                         "its error is mishandled.")) {
  const Tensor input = tensor(normal(30), {3, 10});
  const Tensor out = tensor(std::vector<float>(15), {3, 5});
  load_ops();
  // On meta there is nothing to launch, and two handles to release.
  call_out(on_meta({3, 5}), on_meta({3, 10}));
  auto& state = pretend::state();
  if (!state.seen && state.kernels.count("CUDA silu_and_mul.out")) {
    // Built with the real CUDA run time. Without a driver it refuses, which is
    // a failed launch; with one it must not be given the address of the host's.
    if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) {
      const pretend::Pretend gpu;
      CHECK(refusal([&] { call_cuda_out(out, input); }) == Contains("CUDA"));
    }
    return;
  }
  const pretend::Pretend gpu;
  SUBCASE("device, stream, and a thread for each element") {
    REQUIRE_LAUNCHED(out, input);
    REQUIRE(state.launches.size() == 1);
    const pretend::Launch launched = state.launches[0];
    {
      LOOK_AT("cuda_ops.cpp", "launch_silu_and_mul(");
      REQUIRE_CLEAN(check_device(launched.device, "silu_and_mul.out"));
      REQUIRE_CLEAN(
          state.device == 0 ? ""
                            : "cuda:0 was current before the call, and after "
                              "it another device is");
    }
    {
      LOOK_AT("cuda_ops.cpp", "launch_silu_and_mul(");
      REQUIRE_CLEAN(check_stream(launched.stream));
      REQUIRE_CLEAN(
          state.forbidden == 0
              ? ""
              : "the op waits for the GPU, or allocates: a launch only queues");
    }
    LOOK_AT("core/launch.h", "LaunchConfig");
    CHECK(launched.threads % 32 == 0);
    if (launched.threads > 128) {
      FAIL(
          "a block has ",
          launched.threads,
          " threads, and __launch_bounds__(kThreads) promises the compiler 128 "
          "at most: a GPU refuses the launch");
    }
    CAPTURE(launched.blocks);
    CAPTURE(launched.threads);
    REQUIRE_CLEAN(
        launched.blocks * launched.threads >= 8
            ? ""
            : "those are too few threads for 15 elements");
    MESSAGE("the launch was compiled and looked at, not run: no GPU");
  }
  SUBCASE("a launch that fails says why, and takes its error with it") {
    state.fail_next = 719;
    {
      LOOK_AT("core/launch.h", "text_of");
      LOOK_AT("cuda_ops.cpp", "launch_silu_and_mul(");
      const doctest::String said = refusal([&] { call_cuda_out(out, input); });
      REQUIRE_CLEAN(
          said == kNothingThrown
              ? "the launch failed, and the op returned as if it had not"
              : "");
      CHECK(said == Contains("unspecified launch failure"));
    }
    {
      LOOK_AT("core/launch.h", "text_of");
      REQUIRE_CLEAN(
          state.error == 0
              ? ""
              : "the error is still with CUDA, and whoever asks next gets it");
    }
    LOOK_AT("cuda_ops.cpp", "launch_silu_and_mul(");
    REQUIRE_CLEAN(
        state.device == 0 ? ""
                          : "cuda:0 was current before the call, and after "
                            "it, as it throws, another device is");
    REQUIRE_LAUNCHED(out, input);
    CHECK(state.launches.size() == 1);
  }
  SUBCASE("an error that someone else has left stays there") {
    LOOK_AT("core/launch.h", "text_of");
    state.error = 719;
    REQUIRE_LAUNCHED(out, input);
    CHECK(state.launches.size() == 1);
    REQUIRE_CLEAN(
        state.error == 719 ? ""
                           : "an error that someone else has left was taken");
  }
  SUBCASE("the first launch of a kernel, while a graph is captured") {
    state.loaded.clear();
    state.capturing = true;
    REQUIRE_LAUNCHED(out, input);
    CHECK(state.launches.size() == 1);
    CHECK_MESSAGE(
        state.mode == pretend::kGlobal,
        "the thread's mode of capture is another than before");
  }
  SUBCASE("nothing to do is no launch") {
    const auto none = [](std::vector<int64_t> sizes) {
      return tensor(std::vector<float>(), sizes);
    };
    call_cuda_out(none({0, 5}), none({0, 10}));
    call_cuda_out(none({3, 0}), none({3, 0}));
    CHECK(state.launches.empty());
  }
  SUBCASE("each dtype has the kernel of its type") {
    for (const auto& [dtype, name] :
         {std::pair{ScalarType::Float, "If"},
          {ScalarType::Half, "4Half"},
          {ScalarType::BFloat16, "8BFloat16"}}) {
      launch_untouched(2, 3, dtype);
      REQUIRE(!state.launches.empty());
      CHECK(said(state.names[state.launches.back().kernel]) == Contains(name));
    }
  }
  SUBCASE("more elements than 32 bits can count") {
    for (const int64_t rows : {3, 5}) {
      const int64_t d = (int64_t{1} << 30) + 1, n = rows * d;
      const pretend::Pretend another;
      launch_untouched(rows, d, ScalarType::Float);
      uint64_t threads = 0;
      for (const auto& launched : state.launches) {
        threads += launched.blocks * launched.threads;
      }
      LOOK_AT("core/launch.h", "LaunchConfig");
      CAPTURE(threads);
      REQUIRE_CLEAN(
          threads >= static_cast<uint64_t>(n)
              ? ""
              : "those are too few threads for " + std::to_string(n) +
                  " elements");
    }
  }
}

TEST_CASE(
    "07.2 each op follows device and stream, however they change" *
    doctest::description("An op is launched on another device or stream than "
                         "its input's, or does not say that it failed.")) {
  load_ops();
  auto& state = pretend::state();
  if (!state.seen) {
    return; // the launch is not run
  }
  const Tensor input = tensor(normal(30), {3, 10});
  const Tensor out = tensor(std::vector<float>(15), {3, 5});
  for (const Op& op : ops_of(out, input)) {
    INFO("op: ", op.name);
    LOOK_AT(
        "cuda_ops.cpp",
        op.name == "silu_and_mul_backward" ? "launch_silu_and_mul_backward("
                                           : "launch_silu_and_mul(");
    for (const int home : {1, 0}) {
      for (const int current : {0, 1}) {
        const pretend::Pretend gpu(home, current);
        for (state.turn = 0; state.turn < 4; ++state.turn) {
          state.default_stream = state.turn == 2;
          op.call();
          REQUIRE(state.launches.size() == size_t(state.turn) + 1);
          REQUIRE_CLEAN(check_stream(state.launches.back().stream));
          INFO("input on cuda:", home);
          REQUIRE_CLEAN(check_device(state.launches.back().device, op.name));
          CHECK_MESSAGE(state.device == current, "another device is current");
        }
      }
    }
    const pretend::Pretend gpu;
    const auto check_text = [&](int code) {
      state.fail_next = code;
      const doctest::String said = refusal(op.call);
      REQUIRE_CLEAN(
          said == kNothingThrown
              ? "the launch failed, and the op returned as if it had not"
              : "");
      CHECK(said == Contains(cudaGetErrorString(code)));
      CHECK_MESSAGE(state.error == 0, "the error is still with CUDA");
    };
    check_text(719);
    {
      LOOK_AT("core/launch.h", "text_of");
      check_text(98); // each failure says its own reason
      check_text(2);
    }
    state.no_stream = true;
    const doctest::String said = refusal(op.call);
    CHECK_MESSAGE(
        said != kNothingThrown, "libtorch could not say which stream it is");
    CHECK(state.launches.empty());
    CHECK_MESSAGE(
        state.device == 0, "after an exception another device is current");
  }
}

// Given: tensors on two devices, and a gradient of any strides.
TEST_CASE(
    "07.2 what is refused names the argument and both devices" *
    doctest::description("Tensors that do not fit to each other are not "
                         "refused, or by another text.")) {
  load_ops();
  if (pretend::state().kernels.count("CUDA silu_and_mul.out") == 0) {
    return;
  }
  const auto empty = [](std::vector<int64_t> sizes,
                        ScalarType dtype = ScalarType::Float) {
    return torch::stable::empty(sizes, dtype);
  };
  const Tensor out = empty({2, 2}), input = empty({2, 4});
  const pretend::Pretend gpu;
  const auto refused = [](const Tensor& out, const Tensor& input) {
    return refusal([&] { call_cuda_out(out, input); });
  };
  Tensor square = empty({2, 2});
  CHECK(refused(out, empty({2, 5})) == Contains("even size, got [2, 5]"));
  CHECK(refused(out, empty({})) == Contains("even size, got []"));
  CHECK(
      refused(empty({2, 3}), input) ==
      Contains(
          "out must be input's [2, 4] with 2 as the last size, got [2, 3]"));
  CHECK(
      refused(empty({2, 2}, ScalarType::Half), input) ==
      Contains("dtype Float, got Half"));
  CHECK(
      refused(torch::stable::transpose(square, 0, 1), input) ==
      Contains("contiguous, got strides [1, 2]"));
  // The output, or the gradient.
  const auto ops = ops_of(out, input);
  for (const auto& [device, name] : {std::pair{-1, "cpu"}, {0, "cuda:0"}}) {
    pretend::state().elsewhere[out.const_data_ptr()] = device;
    const std::string text =
        std::string(" must be on input's device cuda:1, got ") + name;
    CHECK(refusal(ops[0].call) == Contains(("out" + text).c_str()));
    CHECK(refusal(ops[2].call) == Contains(("grad" + text).c_str()));
  }
  CHECK(pretend::state().launches.empty());
}

TEST_CASE(
    "07.2 the gradient's kernel is given rows without gaps" *
    doctest::description("The kernel reads a gradient or an input of other "
                         "strides than it takes.")) {
  load_ops();
  if (!pretend::state().seen) {
    return; // the launch is not run
  }
  // As it is, that of a sum, and transposed; of an input, and of a slice.
  using Strides = std::vector<int64_t>;
  for (const auto& strides : {Strides{5, 1}, Strides{0, 0}, Strides{1, 3}}) {
    for (const int64_t row_stride : {10, 15}) {
      CAPTURE(strides);
      CAPTURE(row_stride);
      REQUIRE_CLEAN(check_gradient_launch<float>(strides, row_stride));
      REQUIRE_CLEAN(check_gradient_launch<c10::Half>(strides, row_stride));
      REQUIRE_CLEAN(check_gradient_launch<c10::BFloat16>(strides, row_stride));
    }
  }
}

TEST_CASE(
    "07.3 quotient and remainder are right, up to 2^31" *
    doctest::description("Quotient or remainder is wrong for some numbers.")) {
  const auto divmod =
      function<uint64_t(uint32_t, uint32_t)>("wb07_probe_divmod");
  const auto check = [&](uint64_t n, uint32_t divisor) {
    const auto number = static_cast<uint32_t>(n);
    const uint64_t got = divmod(number, divisor);
    const uint64_t quotient = got >> 32, remainder = got & 0xffffffff;
    const uint64_t right = number / divisor;
    if (quotient != right || remainder != number % divisor) {
      const std::string why = quotient + 1 == right
          ? ": the quotient is 1 too small"
          : quotient == right ? ": the quotient is right, the remainder not"
                              : "";
      FAIL(
          "FastDivmod(" << divisor << ")(" << number << ") is {" << quotient
                        << ", " << remainder << "}, and should be {" << right
                        << ", " << number % divisor << "}" << why);
    }
  };
  constexpr uint64_t kMost = uint64_t{1} << 31;
  SUBCASE("small numbers") {
    check(1000, 7); // first what tells one mistake from another
    check(994, 7);
    for (uint32_t divisor = 1; divisor < 200; ++divisor) {
      for (uint64_t n = 0; n < 1000; ++n) {
        check(n, divisor);
      }
    }
  }
  SUBCASE("powers of two, and what is next to them") {
    for (int power = 0; power < 32; ++power) {
      for (int beside = -1; beside <= 1; ++beside) {
        const uint64_t divisor = (uint64_t{1} << power) + uint64_t(beside);
        for (uint64_t below = 0; below < 4; ++below) {
          if (divisor >= 1 && divisor <= kMost) {
            check(kMost - below, static_cast<uint32_t>(divisor));
            check(divisor - below % divisor, static_cast<uint32_t>(divisor));
          }
        }
      }
    }
  }
  SUBCASE("multiples, and what is just below, up to 2^31") {
    for (int i = 0; i < 20000; ++i) {
      const auto divisor = static_cast<uint32_t>(
          random(1, i % 2 == 0 ? 5000 : static_cast<int64_t>(kMost)));
      const uint64_t multiple = static_cast<uint64_t>(random(
                                    0, static_cast<int64_t>(kMost / divisor))) *
          divisor;
      check(multiple, divisor);
      check(multiple == 0 ? 0 : multiple - 1, divisor);
      check(kMost - 1, divisor);
    }
  }
}

TEST_CASE(
    "07.4 rows that are evenly apart are read where they lie" *
    doctest::description("row_stride is wrong about how far some rows lie "
                         "apart.")) {
  const auto stride_of =
      function<int64_t(const Tensor&)>("wb07_probe_row_stride");
  constexpr int64_t kNone = -1;
  const auto check = [&](const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& strides,
                         int64_t wanted) {
    const int64_t got =
        stride_of(untouched(sizes, strides, ScalarType::Float, kInput));
    const auto in_words = [](int64_t stride) {
      return stride == kNone ? "std::nullopt" : std::to_string(stride);
    };
    if (got != wanted) {
      FAIL(
          "row_stride of sizes " << doctest::toString(sizes) << ", strides "
                                 << doctest::toString(strides) << " is "
                                 << in_words(got) << ", and should be "
                                 << in_words(wanted) << ": "
                                 << list_rows(sizes, strides));
    }
  };
  SUBCASE("contiguous") {
    check({3, 10}, {10, 1}, 10);
    check({2, 3, 10}, {30, 10, 1}, 10);
    check({2, 3, 4, 10}, {120, 40, 10, 1}, 10);
    check({2, 1, 3, 4}, {12, 12, 4, 1}, 4);
  }
  SUBCASE("a single row") {
    check({1, 10}, {64, 1}, 10);
    check({10}, {1}, 10);
    check({1, 1, 10}, {5, 0, 3}, 10);
  }
  SUBCASE("a slice of wider rows") {
    check({3, 10}, {64, 1}, 64);
    check({2, 3, 10}, {192, 64, 1}, 64);
    check({5, 2, 3, 10}, {384, 192, 64, 1}, 64);
  }
  SUBCASE("expanded rows, and every other one") {
    check({3, 10}, {0, 1}, 0);
    check({3, 10}, {20, 1}, 20);
    check({2, 3, 10}, {60, 20, 1}, 20);
  }
  SUBCASE("columns that are not side by side are no matter of the rows") {
    check({3, 10}, {1, 3}, 1);
    check({3, 10}, {30, 3}, 30);
  }
  SUBCASE("rows that are not evenly apart have none") {
    check({2, 3, 10}, {40, 10, 1}, kNone);
    check({3, 4, 20}, {20, 60, 1}, kNone); // transposed
    check({2, 3, 10}, {0, 10, 1}, kNone);
    check({2, 3, 4, 10}, {120, 50, 10, 1}, kNone);
    check({2, 3, 10}, {30, 0, 1}, kNone); // expanded in between
  }
  SUBCASE("more rows, and farther apart, than 32 bits can count") {
    const int64_t half = 65536;
    check({3, 10}, {kMany, 1}, kMany);
    check({2, half, half, 2}, {half * half * 2, half * 2, 2, 1}, 2);
    check({2, half, half, 2}, {0, half * 2, 2, 1}, kNone);
    check({2, 3, 2}, {3 * kMany, kMany, 1}, kMany);
    check({2, 3, 2}, {3 * kMany - (int64_t{1} << 32), kMany, 1}, kNone);
  }
  SUBCASE("whatever sizes and strides") {
    for (int i = 0; i < 2000; ++i) {
      std::vector<int64_t> sizes, strides, rows{0}; // where rows begin
      const auto dimensions = random(0, 3);
      for (int64_t k = 0; k < dimensions; ++k) {
        sizes.push_back(random(1, 3));
        strides.push_back(10 * random(0, 3) * (k == 0 ? random(1, 3) : 1));
        std::vector<int64_t> all;
        for (const int64_t row : rows) {
          for (int64_t at = 0; at < sizes.back(); ++at) {
            all.push_back(row + at * strides.back());
          }
        }
        rows = all;
      }
      sizes.push_back(10);
      strides.push_back(1);
      int64_t wanted = rows.size() == 1 ? 10 : rows[1] - rows[0];
      for (size_t k = 1; k < rows.size(); ++k) {
        wanted = rows[k] - rows[k - 1] == wanted ? wanted : kNone;
      }
      check(sizes, strides, wanted);
    }
  }
  SUBCASE("the stride of a dimension of size 1 says nothing") {
    check({2, 1, 10}, {64, 7, 1}, 64);
    check({1, 3, 10}, {999, 64, 1}, 64);
    check({3, 1, 2, 10}, {128, 5, 64, 1}, 64);
  }
}

TEST_CASE(
    "07.4 the op reads a slice without a copy, and uneven rows by one" *
    doctest::description("The op copies rows that are evenly apart, or reads "
                         "others than the input's.")) {
  load_ops();
  if (!pretend::state().seen) {
    return; // the launch is not run
  }
  LOOK_AT("core/cuda_inputs.h", "row_stride");
  using Numbers = std::vector<int64_t>;
  const auto check = [](const Numbers& sizes,
                        const Numbers& strides,
                        int64_t offset = 0,
                        bool copied = false) {
    const auto of = [&](auto numbers) {
      using T = typename decltype(numbers)::value_type;
      const Tensor input = strided(numbers, sizes, strides, offset);
      return check_launch<T>(input, copied, strides.back() != 1);
    };
    CAPTURE(sizes);
    CAPTURE(strides);
    REQUIRE_CLEAN(of(normal_of<float>(1000)));
    REQUIRE_CLEAN(of(normal_of<c10::Half>(1000)));
    REQUIRE_CLEAN(of(normal_of<c10::BFloat16>(1000)));
  };
  check({3, 10}, {10, 1});
  check({10}, {1});
  check({1, 10}, {64, 1}, 3);
  check({3, 10}, {64, 1}, 7);
  check({2, 3, 10}, {192, 64, 1}, 5);
  check({4, 10}, {0, 1});                  // expanded
  check({3, 10}, {1, 3});                  // transposed
  check({3, 10}, {40, 2});                 // every other column
  check({3, 4, 10}, {10, 30, 1}, 0, true); // transposed batches
  check({2, 2, 10}, {192, 64, 1}, 0, true);
  // Rows, columns, or the operands of a row, of which nothing is read.
  for (const auto& [size, strides] :
       {std::pair{int64_t{10}, Numbers{kMany, 1}},
        {10, {1, kMany}},
        {kMany, {kMany, 1}}}) {
    const pretend::Pretend gpu;
    const pretend::Model model(false);
    const int64_t d = size / 2;
    call_cuda_out(
        untouched({3, d}, {d, 1}, ScalarType::Half, kOut),
        untouched({3, size}, strides, ScalarType::Half, kInput));
    REQUIRE(model.launches.size() == 1);
    const pretend::Given given = model.launches[0];
    CHECK(given.row_stride == strides[0]);
    CHECK(reinterpret_cast<uint64_t>(given.first) == kInput);
    const auto from_gate_to_up =
        static_cast<int64_t>(reinterpret_cast<uint64_t>(given.second) - kInput);
    CHECK(from_gate_to_up == 2 * d * strides[1]); // bytes
  }
}

TEST_CASE(
    "07.4 other dtypes have no kernel on CUDA" *
    doctest::description("The bytes of another dtype are read as those of "
                         "float, half or bfloat16.")) {
  load_ops();
  if (pretend::state().kernels.count("CUDA silu_and_mul.out") == 0) {
    return;
  }
  const pretend::Pretend gpu;
  for (const ScalarType dtype :
       {ScalarType::Double,
        ScalarType::Int,
        ScalarType::Short,
        ScalarType::Long,
        ScalarType::Bool,
        ScalarType::ComplexFloat}) {
    const std::vector<int64_t> sizes{2, 2}, twice{2, 4};
    const Tensor out = torch::stable::empty(sizes, dtype);
    const Tensor input = torch::stable::empty(twice, dtype);
    for (const Op& op : ops_of(out, input)) {
      INFO("op: ", op.name);
      CHECK(refusal(op.call) == Contains("Float, Half or BFloat16 on CUDA"));
    }
  }
  CHECK(pretend::state().launches.empty());
}

TEST_CASE(
    "07.5 each vector is computed once, by a thread with its operands" *
    doctest::description("A thread takes another vector than its own, or "
                         "computes some element of it wrong.")) {
  LOOK_AT("core/kernels.h", "vectorized");
  SUBCASE("each vector is written once, from its operands") {
    for (const int size : {2, 4}) {
      for (int width = 16 / size; width >= 1; width /= 2) {
        for (const int64_t n : {1, 31, 32, 33, 63, 64, 65, 300}) {
          REQUIRE_TRACED(traced(size, width, 32, 1, n * width));
          REQUIRE_TRACED(traced(size, width, 64, 3, n * width));
        }
        for (int i = 0; i < 20; ++i) {
          Trace t =
              traced(size, width, 32, random(1, 6), random(1, 40) * width);
          t.row_stride += random(0, 3) * 16;
          REQUIRE_TRACED(t);
        }
      }
    }
  }
  SUBCASE("vectors are counted in 32 bits, elements in 64") {
    for (const int width : {1, 8}) {
      Trace t = traced(2, width, 256, 70000, 8192 * width);
      t.row_stride = 400000;
      t.ends = 2;
      REQUIRE_TRACED(t);
      for (const int64_t far : kFar) {
        Trace apart = traced(2, width, 32, 7, 10 * width);
        apart.row_stride = far;
        REQUIRE_TRACED(apart);
      }
      // A launch may have so many vectors: in one row, or one in each.
      const int64_t most = int64_t{1} << 31;
      for (const auto& [rows, vectors] :
           {std::pair{int64_t{1}, most},
            {1, most - 257},
            {most, 1},
            {most / 5, 5}}) {
        t = traced(2, width, 32, rows, vectors * width);
        t.ends = 2;
        REQUIRE_TRACED(t);
      }
    }
  }
  SUBCASE("values, at any width") {
    for (const int64_t d : {8, 64, 4096}) {
      REQUIRE_CLEAN(
          check_kernel<c10::BFloat16>(normal(4 * d), {8, 2, d, 2 * d + 8}));
      REQUIRE_CLEAN(
          check_kernel<c10::BFloat16>(normal(4 * d), {4, 2, d, 2 * d + 4}));
      REQUIRE_CLEAN(
          check_kernel<c10::Half>(normal(4 * d), {2, 2, d, 2 * d + 2}));
      REQUIRE_CLEAN(
          check_kernel<c10::Half>(normal(4 * d), {1, 2, d, 2 * d + 1}));
      REQUIRE_CLEAN(check_kernel<float>(normal(6 * d), {4, 3, d, 2 * d}));
      REQUIRE_CLEAN(check_kernel<float>(normal(6 * d), {2, 3, d, 2 * d + 2}));
    }
    for (const int width : {1, 2, 4}) {
      REQUIRE_CLEAN(check_edges<float>(width));
      REQUIRE_CLEAN(check_edges<c10::Half>(2 * width));
      REQUIRE_CLEAN(check_edges<c10::BFloat16>(2 * width));
    }
  }
}

TEST_CASE(
    "07.6 as many bytes at once as every row allows" *
    doctest::description("A vector is wider than some row allows, or narrower "
                         "than all allow.")) {
  for (const int size : {2, 4}) {
    const int wide = 16 / size;
    const auto check = [&](const Trace& t, int wanted, const std::string& why) {
      const int got = width_of(t);
      INFO("element_size = ", size, ", r.rows = ", t.rows, ", r.d = ", t.d);
      INFO(
          "r.row_stride = ",
          t.row_stride,
          ", r.column_stride = ",
          t.column_stride);
      if (got != wanted) {
        FAIL(
            "vector_width is " << got << ", and should be " << wanted
                               << " element(s) of " << size
                               << " bytes: " << why);
      }
    };
    const auto rows = [&](int64_t d, int64_t row_stride, int64_t offset = 0) {
      Trace t = traced(size, 0, 256, 4, d);
      t.row_stride = row_stride;
      t.gate = offset;
      t.up = offset + d;
      return t;
    };
    const std::string fits = "every row begins at a multiple of 16 bytes";
    check(rows(4096, 8192), wide, fits);
    check(rows(wide, 2 * wide), wide, fits);
    check(rows(4096, 3 * 4096), wide, fits);
    check(rows(4096, 0), wide, fits); // expanded
    for (int i = 1; i < 2 * wide; ++i) {
      const int some = i & -i; // a power of two, of which i is a multiple
      const int fit = std::min(some, wide);
      const std::string bytes = std::to_string(fit * size) + " bytes";
      const auto begins = [&](const std::string& what) {
        return what +
            (fit == wide ? " begins at a multiple of 16 bytes"
                         : " begins at a multiple of " + bytes + ", not more");
      };
      check(rows(4096, 8192 + 2 * wide, i), fit, begins("each of gate and up"));
      check(rows(4096 + i, 8192 + 2 * wide), fit, begins("up"));
      Trace t = rows(4096 - i, 3 * 4096);
      t.up = 4096;
      check(t, fit, begins("the second row of out"));
      check(rows(4096, 8192 + i), fit, begins("the second row of gate and up"));
      t = traced(size, 0, 256, 4, 4096);
      t.out += static_cast<uint64_t>(i * size);
      check(t, fit, begins("out"));
      t = rows(4096, 3 * 4096);
      t.gate += i;
      check(t, fit, begins("gate"));
      t = rows(4096, 3 * 4096);
      t.up += i;
      check(t, fit, begins("up"));
      t = rows(4096 + i, 8192 + 2 * wide);
      t.rows = 1;
      t.up = 8192;
      check(t, fit, "a row of d elements must be whole vectors");
    }
    Trace t = traced(size, 0, 256, 4, 4096);
    for (const int64_t column_stride : {2, 0, 4096}) {
      t.column_stride = column_stride;
      check(t, 0, "the columns are not side by side");
    }
    const int64_t most = int64_t{1} << 31;
    t = traced(size, 0, 256, most / 1024, 1024);
    t.out += static_cast<uint64_t>(size);
    check(t, 1, "2^31 vectors of one element are not more than kMaxVectors");
    t = traced(size, 0, 256, most / 1024, 1024 * wide);
    check(t, wide, "2^31 vectors are not more than kMaxVectors");
    ++t.rows;
    check(t, 0, "more than kMaxVectors vectors");
    t = traced(size, 0, 256, most / 1024 + 1, 1024);
    check(t, wide, "more than kMaxVectors elements, in fewer vectors");
    ++t.row_stride;
    check(t, 0, "more than kMaxVectors vectors of one element");
    // Numbers of which 32 bits have only zeros, or few.
    for (const auto& [rows, vectors] :
         {std::pair{int64_t{1}, 2 * most},
          {2 * most, 1},
          {65536, 65536},
          {1, 2 * most + 1},
          {2 * most + 1, 1},
          {most, 4}}) {
      t = traced(size, 0, 256, rows, vectors * wide);
      check(t, 0, "more than kMaxVectors vectors");
      t = traced(size, 0, 256, rows, vectors);
      t.out += static_cast<uint64_t>(size);
      check(t, 0, "more than kMaxVectors vectors of one element");
    }
  }
  // Whatever width is chosen, the launch is right.
  for (int i = 0; i < 300; ++i) {
    Trace t = any_launch(i);
    REQUIRE_TRACED(t);
  }
  load_ops();
  if (!pretend::state().seen) {
    return; // the launch is not run
  }
  LOOK_AT("core/plan.h", "vector_width");
  SUBCASE("the launch follows") {
    for (const auto& [rows, blocks] :
         {std::pair{int64_t{1}, uint64_t{14}},
          {16, 224},
          {4096, 57344},
          {65536, 917504}}) {
      const pretend::Pretend gpu;
      launch_untouched(rows, 14336);
      REQUIRE(pretend::state().launches.size() == 1);
      CHECK(pretend::state().launches[0].blocks == blocks);
      CHECK(pretend::state().launches[0].threads == 128);
    }
  }
  SUBCASE("the launch computes every element, at any width") {
    auto bfloat16 = normal_of<c10::BFloat16>(20000);
    auto single = normal_of<float>(20000);
    for (const int64_t column_stride : {0, 5, 8}) { // [5, 16]
      const std::vector<int64_t> strides{1, column_stride};
      REQUIRE_CLEAN(check_launch<float>(strided(single, {5, 16}, strides)));
    }
    for (const int64_t d : {1, 5, 8, 12, 24, 1016, 1017, 1018}) {
      for (const int64_t offset : {0, 1, 2, 4}) {
        const std::vector<int64_t> sizes{5, 2 * d}, strides{2 * d + 8, 1};
        REQUIRE_CLEAN(check_launch<c10::BFloat16>(
            strided(bfloat16, sizes, strides, offset)));
        REQUIRE_CLEAN(
            check_launch<float>(strided(single, sizes, strides, offset)));
      }
    }
  }
}

TEST_CASE(
    "07.7 the hardware's arithmetic is right to 2^-16, from -103 up" *
    doctest::description("Fast::sigmoid is too far off somewhere, or used for "
                         "the wrong dtypes.")) {
  const auto sigmoid_of = function<float(float)>("wb07_probe_fast_sigmoid");
  // From 0 outwards: what fails first is where the trouble begins.
  for (float distance = 0; distance < 128; distance += 0.0078125f) {
    for (const float x : {distance, -distance}) {
      const double got = sigmoid_of(x);
      const double off = std::abs(got - sigmoid(x));
      if (x >= -103 && !(off <= std::max(0x1p-16 * sigmoid(x), 0x1p-148))) {
        FAIL(
            "sigmoid(" << x << ") is " << got << ", and should be "
                       << sigmoid(x) << ": off by " << off / sigmoid(x) * 100
                       << " % of its value");
      }
    }
  }
  REQUIRE_CLEAN(
      function<int()>("wb07_probe_approximations")() > 0
          ? ""
          : "Fast::sigmoid calls neither approx_exp2 nor approx_reciprocal");
  const auto is_fast = function<bool(int)>("wb07_probe_is_fast");
  LOOK_AT("core/arithmetic.h", "math_for");
  REQUIRE_CLEAN(
      is_fast(2) ? "" : "math_for of a type of two bytes is still Precise");
  REQUIRE_CLEAN(
      is_fast(4) ? "math_for of float is Fast, which is right to 22 bits only"
                 : "");
  // Every number that bfloat16 has, as the gate.
  std::vector<float> numbers;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto x = static_cast<float>(
        c10::BFloat16(static_cast<uint16_t>(bits), c10::BFloat16::from_bits()));
    numbers.push_back(std::isfinite(x) ? x : 0);
  }
  numbers.resize(0x20000, 1.0f);
  Case all{8, 1, 0x10000, 0x20000};
  all.chosen = true;
  REQUIRE_CLEAN(check_kernel<c10::BFloat16>(numbers, all));
}

TEST_CASE(
    "07.7 infinities, NaN and zeros are ATen's" *
    doctest::description("An infinity, a NaN or a zero becomes another number "
                         "than with ATen's silu.")) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  for (const float edge :
       {inf,
        -inf,
        nan,
        -nan,
        0.0f,
        -0.0f,
        3e38f,
        -3e38f,
        6e4f,
        -6e4f,
        -88.0f,
        -90.0f}) {
    for (const auto& both :
         {silu_of<float>(edge),
          silu_of<c10::Half>(edge),
          silu_of<c10::BFloat16>(edge)}) {
      const float got = both.first, of_aten = both.second;
      CAPTURE(edge);
      CAPTURE(got);
      CAPTURE(of_aten);
      CHECK(std::isnan(got) == std::isnan(of_aten));
      CHECK(std::isinf(got) == std::isinf(of_aten));
      if (of_aten == 0 || std::isinf(of_aten)) {
        CHECK(std::signbit(got) == std::signbit(of_aten));
      }
    }
  }
  for (const int width : {0, 1, 8}) {
    REQUIRE_CLEAN(check_edges<c10::Half>(width, true));
    REQUIRE_CLEAN(check_edges<c10::BFloat16>(width, true));
  }
  REQUIRE_CLEAN(check_edges<float>(4, true));
}

TEST_CASE(
    "07.7 float is computed as before, also where exp is steep" *
    doctest::description("float is farther off than by Precise as it is "
                         "given.")) {
  LOOK_AT("core/arithmetic.h", "math_for");
  std::vector<float> gates;
  for (int i = 0; i < 0x4000; ++i) {
    gates.push_back(-120 + 220.0f * static_cast<float>(i) / 0x4000);
  }
  for (const float x : normal(0x3000)) {
    gates.push_back(2 * x);
  }
  for (const float x : {-3.39e38f, -1e20f, -208.0f, 3.39e38f, 0.0f, -1e-40f}) {
    gates.push_back(x);
  }
  const auto d = static_cast<int64_t>(gates.size());
  for (const bool ones : {true, false}) {
    std::vector<float> row = gates;
    const std::vector<float> ups =
        ones ? std::vector<float>(gates.size(), 1) : normal(d);
    row.insert(row.end(), ups.begin(), ups.end());
    Case all{0, 1, d, 2 * d};
    all.chosen = true;
    all.smallest = 0x1p-126;
    REQUIRE_CLEAN(check_kernel<float>(row, all));
  }
}

TEST_CASE(
    "07.7 the gradient is right by the same arithmetic" *
    doctest::description("The gradient of gate or up is too far off.")) {
  check_gradient<float>();
  check_gradient<c10::BFloat16>();
}

TEST_CASE("07 thousands of launches write each element once") {
  for (int i = 0; i < 3000; ++i) {
    REQUIRE_TRACED(any_launch(i));
  }
}

TEST_CASE("07 all shapes, strides and alignments") {
  for (int i = 0; i < 100; ++i) {
    const int64_t rows = random(1, 6);
    const int64_t d = i % 2 == 0 ? 8 * random(1, 20) : random(1, 99);
    const auto numbers = normal(rows * 2 * d);
    for (const int width : {0, 1}) {
      const Case c{width, rows, d, 2 * d + i % 3 * 4, 1, i % 9};
      REQUIRE_CLEAN(check_kernel<float>(numbers, c));
      REQUIRE_CLEAN(check_kernel<c10::Half>(numbers, c));
      REQUIRE_CLEAN(check_kernel<c10::BFloat16>(numbers, c));
    }
    REQUIRE_CLEAN(
        check_kernel<float>(numbers, {0, rows, d, 2 * d * (i + 1), i + 1}));
  }
}

TEST_CASE("07 on the CPU the op is chapter 04's") {
  const Tensor wide = tensor(normal(4 * 3 * 20), {4, 3, 20});
  Tensor input = wide;
  for (const Tensor& x :
       {wide,
        torch::stable::transpose(input, 0, 1),
        torch::stable::narrow(input, -1, 3, 14)}) {
    const int64_t d = x.size(-1) / 2;
    Tensor copy = torch::stable::contiguous(x);
    const Tensor gate =
        torch::stable::contiguous(torch::stable::narrow(copy, -1, 0, d));
    const Tensor up =
        torch::stable::contiguous(torch::stable::narrow(copy, -1, d, d));
    const Tensor wanted =
        aten("aten::mul", "Tensor", aten("aten::silu", "", gate), up);
    const auto got = values<float>(call("silu_and_mul", x));
    const auto exact = values<float>(wanted);
    CHECK(
        first_difference<float>(
            got, std::vector<double>(exact.begin(), exact.end()), 8) == "");
    const Tensor out = torch::stable::empty(gate.sizes());
    call_out(out, x);
    CHECK(values<float>(out) == got);
    const Tensor back = call("silu_and_mul_backward", out, x);
    CHECK(back.sizes().equals(x.sizes()));
  }
}

TEST_CASE("07 CUDA: what is new, and the gradient, are one launch each") {
  load_ops();
  if (!pretend::state().seen) {
    return;
  }
  const Tensor input = tensor(normal(30), {3, 10});
  const Tensor grad = tensor(normal(15), {3, 5});
  const pretend::Pretend gpu;
  StableIValue forward[] = {torch::stable::detail::from(input)};
  call_cuda("silu_and_mul", forward, 1);
  CHECK(torch::stable::detail::to<Tensor>(forward[0]).sizes().equals({3, 5}));
  StableIValue backward[] = {
      torch::stable::detail::from(grad), torch::stable::detail::from(input)};
  call_cuda("silu_and_mul_backward", backward, 1);
  CHECK(torch::stable::detail::to<Tensor>(backward[0]).sizes().equals({3, 10}));
  REQUIRE(pretend::state().launches.size() == 2);
  for (const auto& launched : pretend::state().launches) {
    CHECK(launched.stream == pretend::stream_of(1));
    CHECK(launched.device == 1);
  }
}
