// Tests of chapter 07: a case a step. The kernel's functions run on the host,
// over the threads of a real launch; the launch itself goes to a GPU that is
// pretended: it is compiled and looked at, not run.
#include "07_launch.h"
#include "07_pretend_gpu.h"
#include "07_probe.h"
#include "testing/aten.h"
#include "testing/compare.h"
#include "testing/dispatcher.h"
#include "testing/fact.h"
#include "testing/library.h"
#include "testing/print.h"
#include "testing/random.h"
#include "testing/refusal.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace workbook;
using doctest::Contains;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

namespace {

// The ops are in the chapter's own library, which lies beside the probe's.
void load_ops() {
  static void* const loaded = [] {
    Dl_info info;
    dladdr(library_symbol("wb07_probe_trace"), &info);
    const auto beside = std::filesystem::path(info.dli_fname)
                            .replace_filename("libcuda_activation_kernel.so");
    void* const handle = dlopen(beside.c_str(), RTLD_LAZY);
    return handle ? handle : throw std::runtime_error(dlerror());
  }();
  (void)loaded;
}

void call(const std::string& op, const Tensor& out, const Tensor& input) {
  load_ops();
  StableIValue stack[] = {
      torch::stable::detail::from(out), torch::stable::detail::from(input)};
  call_op("wb07::" + op, "", stack);
}

Tensor on_meta(const std::vector<int64_t>& sizes) {
  return torch::stable::empty(
      sizes,
      ScalarType::Float,
      std::nullopt,
      torch::stable::Device(torch::headeronly::DeviceType::Meta),
      std::nullopt,
      std::nullopt);
}

// The kernel that is registered for CUDA, called as libtorch would.
void call_cuda(const std::string& op, const Tensor& out, const Tensor& input) {
  load_ops();
  const auto found = pretend::state().kernels.find("CUDA " + op);
  if (found == pretend::state().kernels.end()) {
    throw std::runtime_error(
        "no kernel for CUDA: without nvcc the folder is built for CPU only; "
        "python3 common/cuda/nvcc.py fetches one");
  }
  StableIValue stack[] = {
      torch::stable::detail::from(out), torch::stable::detail::from(input)};
  found->second(stack, 2, 0);
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
// f(gate) in double, without the cancellation of 1 + erf and 1 + tanh.
double exact(const std::string& op, double x) {
  if (op == "gelu_and_mul") {
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  }
  if (op == "gelu_tanh_and_mul") {
    const double u =
        std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    return x * sigmoid(2 * u);
  }
  return x * sigmoid(x);
}

constexpr const char* kOps[] = {
    "silu_and_mul", "mul_and_silu", "gelu_and_mul", "gelu_tanh_and_mul"};

// How much arithmetic in float adds to the half ulp of the last rounding.
template <class T>
constexpr double kTolerance = sizeof(T) == 2 ? 0.51 : 64;

// "" if `op` is right on `input`, of [rows, 2d] with the row stride given.
template <class T>
std::string wrong(
    const std::string& op,
    const std::vector<float>& numbers,
    int64_t rows,
    int64_t d,
    int64_t stride,
    int64_t offset = 0) {
  std::vector<T> data(static_cast<size_t>(offset + rows * stride), T(0.0f));
  std::vector<double> expected;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < 2 * d; ++c) {
      data[static_cast<size_t>(offset + r * stride + c)] =
          T(numbers[static_cast<size_t>(r * 2 * d + c)]);
    }
    const T* row = data.data() + offset + r * stride;
    for (int64_t c = 0; c < d; ++c) {
      const double left = static_cast<float>(row[c]);
      const double right = static_cast<float>(row[c + d]);
      expected.push_back(
          op == "mul_and_silu" ? left * exact(op, right)
                               : exact(op, left) * right);
    }
  }
  const Tensor input = torch::stable::from_blob(
      data.data() + offset,
      {rows, 2 * d},
      {stride, 1},
      torch::stable::Device(torch::headeronly::DeviceType::CPU),
      c10::CppTypeToScalarType<T>::value);
  const Tensor out = tensor(
      std::vector<T>(static_cast<size_t>(rows * d), T(-77.0f)), {rows, d});
  call(op, out, input);
  return first_difference<T>(values<T>(out), expected, kTolerance<T>);
}

std::vector<float> normal(int64_t n) {
  static std::mt19937_64 engine(seed());
  std::normal_distribution<float> numbers(0, 2);
  std::vector<float> result(static_cast<size_t>(n));
  for (float& number : result) {
    number = numbers(engine);
  }
  return result;
}

int64_t random(int64_t low, int64_t high) {
  static std::mt19937_64 engine(seed());
  return std::uniform_int_distribution<int64_t>(low, high)(engine);
}

// A tensor whose memory is never touched.
Tensor untouched(
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& strides,
    ScalarType dtype,
    uint64_t address) {
  return torch::stable::from_blob(
      reinterpret_cast<void*>(address),
      sizes,
      strides,
      torch::stable::Device(torch::headeronly::DeviceType::CPU),
      dtype);
}

} // namespace

TEST_CASE("07.1 each thread has its element") {
  // With one vector a thread and with several: a block's are one piece, and the
  // next of a thread is one block of threads further on.
  auto* const vector_of =
      function<uint32_t(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t)>(
          "wb07_probe_vector_of");
  for (const uint32_t in_flight : {1u, 2u, 3u}) {
    uint32_t number = 0;
    for (const uint32_t block : {0u, 1u, 2u}) {
      for (uint32_t k = 0; k < in_flight; ++k) {
        for (uint32_t thread = 0; thread < 32; ++thread) {
          CAPTURE(in_flight);
          CAPTURE(block);
          CAPTURE(k);
          CAPTURE(thread);
          REQUIRE(vector_of(block, thread, 32, k, in_flight) == number++);
        }
      }
    }
  }
  for (const int size : {2, 4}) {
    for (const uint32_t threads : {1u, 2u, 32u, 64u, 256u}) {
      for (int i = 0; i < 20; ++i) {
        Trace t = launch(size, 1, 1, threads, random(1, 9), random(1, 70));
        t.stride += random(0, 3) * 5;
        if (i % 3 == 0) {
          std::swap(t.gate, t.up);
        }
        REQUIRE(first_mistake(t) == "");
      }
    }
  }
  // The last block is full, or has one thread to spare, or one too few.
  for (const int64_t d : {1, 255, 256, 257, 511, 512, 513}) {
    CHECK(first_mistake(launch(4, 1, 1, 256, 1, d)) == "");
    CHECK(first_mistake(launch(4, 1, 1, 256, 3, d)) == "");
  }
  // More elements than 32 bits can count, in both sizes.
  for (const int64_t stride : {131074, 400000}) {
    Trace t = launch(2, 1, 1, 256, 70000, 65537);
    t.stride = stride;
    t.ends = 2;
    CHECK(first_mistake(t) == "");
  }
  // One row, wider than a launch, in pieces.
  Trace t = launch(4, 1, 1, 32, 3, 1000);
  t.most = 300;
  CHECK(first_mistake(t) == "");
}

TEST_CASE("07.2 a launch on the current stream of the input's device") {
  const Tensor input = tensor(normal(30), {3, 10});
  const Tensor out = tensor(std::vector<float>(15), {3, 5});
  load_ops();
  // On meta there is nothing to launch, and two handles to release.
  call("silu_and_mul", on_meta({3, 5}), on_meta({3, 10}));
  fact("note", "the launch was compiled and looked at, not run: no GPU");
  if (!pretend::state().seen &&
      pretend::state().kernels.count("CUDA silu_and_mul")) {
    // Built with the real CUDA run time. Without a driver it refuses, which is
    // a failed launch; with one it must not be given the address of the host's.
    if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) {
      const pretend::Pretend gpu;
      CHECK(refusal([&] {
              call_cuda("silu_and_mul", out, input);
            }) == Contains("CUDA"));
    }
    return;
  }
  {
    const pretend::Pretend gpu;
    auto& state = pretend::state();
    call_cuda("silu_and_mul", out, input);
    REQUIRE(state.launches.size() == 1);
    const pretend::Launch launched = state.launches[0];
    CHECK_MESSAGE(launched.device == 1, "the input is on cuda:1");
    CHECK_MESSAGE(
        launched.stream == pretend::stream_of(1),
        "that is not the current stream of cuda:1");
    CHECK(launched.threads % 32 == 0);
    CHECK_MESSAGE(state.device == 0, "cuda:0 was current before");
    CHECK_MESSAGE(state.forbidden == 0, "a launch waits for nothing");
  }
  {
    const pretend::Pretend gpu;
    auto& state = pretend::state();
    state.fail_next = 719;
    CHECK(refusal([&] {
            call_cuda("silu_and_mul", out, input);
          }) == Contains("unspecified launch failure"));
    CHECK_MESSAGE(state.error == 0, "the error is left for the next to find");
    CHECK_MESSAGE(state.device == 0, "cuda:0 was current before");
    call_cuda("silu_and_mul", out, input);
    CHECK(state.launches.size() == 1);
  }
  {
    const pretend::Pretend gpu;
    call_cuda(
        "silu_and_mul",
        tensor(std::vector<float>(), {0, 5}),
        tensor(std::vector<float>(), {0, 10}));
    call_cuda(
        "silu_and_mul",
        tensor(std::vector<float>(), {3, 0}),
        tensor(std::vector<float>(), {3, 0}));
    CHECK_MESSAGE(pretend::state().launches.empty(), "nothing to do");
  }
  {
    // More vectors than one launch takes: 3 x 1073741825 of one element.
    const pretend::Pretend gpu;
    const int64_t d = (int64_t{1} << 30) + 1;
    call_cuda(
        "silu_and_mul",
        untouched({3, d}, {d, 1}, ScalarType::Float, kOut),
        untouched({3, 2 * d}, {2 * d, 1}, ScalarType::Float, kInput));
    uint64_t threads = 0;
    for (const auto& launched : pretend::state().launches) {
      threads += launched.blocks * launched.threads;
    }
    CHECK(pretend::state().launches.size() >= 2);
    CHECK(threads >= static_cast<uint64_t>(3 * d) / 8);
  }
}

TEST_CASE("07.3 float, half and bfloat16, rounded once") {
  for (int i = 0; i < 30; ++i) {
    const int64_t rows = random(1, 5), d = 2 * random(0, 60) + 1;
    const auto numbers = normal(rows * 2 * d);
    CHECK(wrong<float>("silu_and_mul", numbers, rows, d, 2 * d) == "");
    CHECK(wrong<c10::Half>("silu_and_mul", numbers, rows, d, 2 * d) == "");
    CHECK(wrong<c10::BFloat16>("silu_and_mul", numbers, rows, d, 2 * d) == "");
  }
  if (!pretend::state().seen) {
    return; // the launch is not run
  }
  const pretend::Pretend gpu;
  std::set<const void*> kernels;
  for (const ScalarType dtype :
       {ScalarType::Float, ScalarType::Half, ScalarType::BFloat16}) {
    call_cuda(
        "silu_and_mul",
        untouched({2, 3}, {3, 1}, dtype, kOut),
        untouched({2, 6}, {6, 1}, dtype, kInput));
    REQUIRE(!pretend::state().launches.empty());
    kernels.insert(pretend::state().launches.back().kernel);
  }
  CHECK_MESSAGE(kernels.size() == 3, "each dtype has a kernel of its own");
}

TEST_CASE("07.4 sixteen bytes at once, where every row allows it") {
  const auto width = function<int(uint64_t, uint64_t, int64_t, int64_t, int)>(
      "wb07_probe_width");
  for (const int size : {2, 4}) {
    const int wide = 16 / size;
    CAPTURE(size);
    CHECK(width(kInput, kOut, 4096, 8192, size) == wide);
    CHECK(width(kInput, kOut, wide, 2 * wide, size) == wide);
    for (int i = 1; i < wide; ++i) {
      CAPTURE(i);
      const uint64_t bytes = static_cast<uint64_t>(i * size);
      CHECK_MESSAGE(
          width(kInput + bytes, kOut, 4096, 8192, size) == 1,
          "the input does not begin at a multiple of 16 bytes");
      CHECK_MESSAGE(
          width(kInput, kOut + bytes, 4096, 8192, size) == 1,
          "the output does not begin at a multiple of 16 bytes");
      CHECK_MESSAGE(
          width(kInput, kOut, 4096 + i, 8192 + 2 * i, size) == 1,
          "the second half does not begin at a multiple of 16 bytes");
      CHECK_MESSAGE(
          width(kInput, kOut, 4096, 8192 + i, size) == 1,
          "the second row does not begin at a multiple of 16 bytes");
    }
    // Whatever width is chosen, the launch is right.
    for (int i = 0; i < 300; ++i) {
      Trace t = launch(size, 1, 1, 32, random(1, 5), random(1, 6) * 4);
      t.d += i % 5 == 0 ? random(0, 3) : 0;
      t.stride = 2 * t.d + random(0, 2) * 8 + (i % 7 == 0 ? 1 : 0);
      t.input += static_cast<uint64_t>(i % 11 == 0 ? size : 0);
      t.gate = i % 2 == 0 ? 0 : t.d;
      t.up = t.d - t.gate;
      t.width = width(t.input, t.out, t.d, t.stride, size);
      if (t.input == kInput) {
        REQUIRE(first_mistake(t) == "");
      }
    }
  }
}

TEST_CASE("07.5 all reads of a thread are in flight before it writes") {
  for (const int size : {2, 4}) {
    const int wide = 16 / size;
    for (const int in_flight : {2, 4}) {
      for (const int64_t vectors : {1, 63, 64, 65, 127, 128, 129, 500}) {
        CHECK(
            first_mistake(
                launch(size, wide, in_flight, 32, 1, vectors * wide)) == "");
        CHECK(
            first_mistake(
                launch(size, wide, in_flight, 64, 3, vectors * wide)) == "");
      }
    }
    for (int i = 0; i < 40; ++i) {
      CHECK(
          first_mistake(launch(size, 1, 2, 32, random(1, 6), random(1, 90))) ==
          "");
    }
  }
  const auto plan = function<Shape(uint32_t, int)>("wb07_probe_plan");
  CHECK(plan(1000, 1).in_flight >= 2);
}

TEST_CASE("07.6 blocks for every multiprocessor") {
  const auto plan = function<Shape(uint32_t, int)>("wb07_probe_plan");
  for (const int width : {8, 4}) {
    for (uint32_t vectors = 1; vectors < (1u << 31);
         vectors += vectors / 9 + 1) {
      CAPTURE(vectors);
      const Shape shape = plan(vectors, width);
      const auto in_block =
          static_cast<uint64_t>(shape.threads) * unsigned(shape.in_flight);
      REQUIRE_MESSAGE(shape.blocks * in_block >= vectors, "too few blocks");
      REQUIRE_MESSAGE(
          (shape.blocks - 1) * in_block < vectors, "a block has nothing to do");
      REQUIRE(shape.threads % 32 == 0);
      REQUIRE(shape.threads <= 256);
      REQUIRE(shape.threads >= 64);
      if (vectors >= 132 * 64 * unsigned(shape.in_flight)) {
        REQUIRE_MESSAGE(
            shape.blocks >= 132, "there are more multiprocessors than blocks");
      }
      if (vectors >= 132 * 256 * unsigned(shape.in_flight)) {
        REQUIRE_MESSAGE(shape.threads == 256, "enough for full blocks");
      }
    }
  }
  // The op follows the plan, on the host and in its launches.
  for (const int64_t d : {8, 64, 4096, 14336}) {
    const auto numbers = normal(4 * d);
    CHECK(wrong<c10::BFloat16>("silu_and_mul", numbers, 2, d, 2 * d) == "");
    CHECK(wrong<float>("silu_and_mul", numbers, 2, d, 2 * d) == "");
    CHECK(wrong<float>("silu_and_mul", normal(6 * d), 3, d, 2 * d + 8) == "");
  }
  if (!pretend::state().seen) {
    return;
  }
  for (const int64_t rows : {1, 16, 64, 4096, 65536}) {
    const pretend::Pretend gpu;
    const int64_t d = 14336;
    call_cuda(
        "silu_and_mul",
        untouched({rows, d}, {d, 1}, ScalarType::BFloat16, kOut),
        untouched({rows, 2 * d}, {2 * d, 1}, ScalarType::BFloat16, kInput));
    REQUIRE(pretend::state().launches.size() == 1);
    const Shape shape = plan(static_cast<uint32_t>(rows * d / 8), 8);
    CHECK(pretend::state().launches[0].blocks == shape.blocks);
    CHECK(pretend::state().launches[0].threads == unsigned(shape.threads));
  }
}

TEST_CASE("07.7 the hardware's arithmetic, judged in double") {
  const auto sigmoid_of = function<float(float)>("wb07_probe_fast_sigmoid");
  for (float x = -103; x < 128; x += 0.0078125f) {
    const double got = sigmoid_of(x);
    const double off = std::abs(got - sigmoid(x));
    CAPTURE(x);
    REQUIRE_MESSAGE(
        off <= std::max(0x1p-16 * sigmoid(x), 0x1p-148),
        "sigmoid is off by " << off / sigmoid(x) << " of its value");
  }
  const auto is_fast = function<bool(int)>("wb07_probe_is_fast");
  CHECK_MESSAGE(is_fast(2), "two bytes are computed by Precise");
  CHECK_MESSAGE(!is_fast(4), "float is computed by Fast, to 22 bits");
  // Every number that bfloat16 has, as the gate.
  std::vector<float> numbers;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    numbers.push_back(static_cast<float>(c10::BFloat16(
        static_cast<uint16_t>(bits), c10::BFloat16::from_bits())));
  }
  numbers.resize(0x20000, 1.0f);
  for (const char* op : {"silu_and_mul", "gelu_tanh_and_mul"}) {
    std::vector<float> finite = numbers;
    for (float& x : finite) {
      x = std::isfinite(x) ? x : 0;
    }
    CHECK(wrong<c10::BFloat16>(op, finite, 1, 0x10000, 0x20000) == "");
  }
  // Infinities and NaN are what ATen makes of them.
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> edges{
      inf, -inf, std::nanf(""), 0, -0.0f, 3e38f, -3e38f, -88, -90};
  const auto n = static_cast<int64_t>(edges.size());
  std::vector<c10::BFloat16> row(edges.begin(), edges.end());
  const Tensor silu = aten("aten::silu", "", tensor(row, {1, n}));
  row.resize(row.size() * 2, c10::BFloat16(1.0f));
  const Tensor out = tensor(std::vector<c10::BFloat16>(edges.size()), {1, n});
  call("silu_and_mul", out, tensor(row, {1, 2 * n}));
  for (size_t i = 0; i < edges.size(); ++i) {
    const float got = values<c10::BFloat16>(out)[i];
    const float of_aten = values<c10::BFloat16>(silu)[i];
    CAPTURE(edges[i]);
    CHECK(std::isnan(got) == std::isnan(of_aten));
    CHECK(std::isinf(got) == std::isinf(of_aten));
  }
}

TEST_CASE("07 thousands of launches write each element once") {
  const auto width = function<int(uint64_t, uint64_t, int64_t, int64_t, int)>(
      "wb07_probe_width");
  for (int i = 0; i < 3000; ++i) {
    const int size = i % 2 == 0 ? 2 : 4;
    const auto threads = static_cast<uint32_t>(32 << i % 4);
    Trace t = launch(size, 1, 2, threads, random(1, 5), random(1, 12));
    t.d *= i % 3 == 0 ? 1 : 16 / size;
    t.stride = 2 * t.d + random(0, 2) * 8 + (i % 7 == 0 ? 1 : 0);
    t.gate = i % 5 == 0 ? t.d : 0;
    t.up = t.d - t.gate;
    t.width = width(t.input, t.out, t.d, t.stride, size);
    t.most = i % 13 == 0 ? random(1, 100) : kMost;
    REQUIRE(first_mistake(t) == "");
  }
}

TEST_CASE("07 all ops, shapes, strides and alignments") {
  for (const char* op : kOps) {
    CAPTURE(op);
    for (int i = 0; i < 25; ++i) {
      const int64_t rows = random(1, 6);
      const int64_t d = i % 2 == 0 ? 8 * random(1, 20) : random(1, 99);
      const int64_t stride = 2 * d + (i % 3) * 4;
      const auto numbers = normal(rows * 2 * d);
      CHECK(wrong<float>(op, numbers, rows, d, stride, i % 5) == "");
      CHECK(wrong<c10::Half>(op, numbers, rows, d, stride, i % 9) == "");
      CHECK(wrong<c10::BFloat16>(op, numbers, rows, d, stride, i % 7) == "");
    }
  }
}

TEST_CASE("07 rows that are not evenly apart, and none at all") {
  Tensor wide = tensor(normal(4 * 3 * 20), {4, 3, 20});
  const Tensor rows = torch::stable::transpose(wide, 0, 1); // [3, 4, 20]
  const Tensor out = tensor(std::vector<float>(120), {3, 4, 10});
  const Tensor again = tensor(std::vector<float>(120), {3, 4, 10});
  call("silu_and_mul", out, rows);
  call("silu_and_mul", again, torch::stable::contiguous(rows));
  CHECK(values<float>(out) == values<float>(again));
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{0, 8}, {3, 0}, {0}, {2, 0, 4}}) {
    std::vector<int64_t> half = sizes;
    half.back() /= 2;
    call(
        "silu_and_mul",
        torch::stable::empty(half),
        torch::stable::empty(sizes));
  }
}

TEST_CASE("07 what is refused, in words") {
  const auto refused = [](const Tensor& out, const Tensor& input) {
    return refusal([&] { call("silu_and_mul", out, input); });
  };
  const auto empty = [](std::vector<int64_t> sizes,
                        ScalarType dtype = ScalarType::Float) {
    return torch::stable::empty(sizes, dtype);
  };
  Tensor square = empty({2, 2});
  const Tensor turned = torch::stable::transpose(square, 0, 1);
  CHECK(
      refused(empty({2, 2}), empty({2, 5})) ==
      Contains("even size, got [2, 5]"));
  CHECK(refused(empty({}), empty({})) == Contains("even size, got []"));
  CHECK(
      refused(empty({2, 3}), empty({2, 4})) ==
      Contains("out must be [2, 2], got [2, 3]"));
  CHECK(
      refused(empty({2, 2}, ScalarType::Half), empty({2, 4})) ==
      Contains("dtype Float, got Half"));
  CHECK(
      refused(
          empty({2, 2}, ScalarType::Double),
          empty({2, 4}, ScalarType::Double)) ==
      Contains("Float, Half or BFloat16, got Double"));
  CHECK(
      refused(turned, empty({2, 4})) ==
      Contains("contiguous, got strides [1, 2]"));
  if (pretend::state().kernels.count("CUDA silu_and_mul") == 0) {
    return;
  }
  // An output on the CPU to an input on a GPU.
  const Tensor out = empty({2, 2});
  const pretend::Pretend gpu;
  pretend::state().on_cpu.insert(out.const_data_ptr());
  CHECK(refusal([&] {
          call_cuda("silu_and_mul", out, empty({2, 4}));
        }) == Contains("out must be on input's device cuda:1, got cpu"));
  CHECK(pretend::state().launches.empty());
}
