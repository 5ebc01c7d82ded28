// silu_and_mul of chapter 01 against the XOR of its two halves, which has the
// same memory traffic, and against the loop that one writes first and ATen.
#include "bench/bench.h"
#include "testing/aten.h"
#include "testing/compare.h"
#include "testing/library.h"

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

// As in the solution: the floor may use the vectors that the subject uses.
#if defined(__x86_64__) && defined(__GLIBC__) && __GNUC__ >= 12
#define X86_64_LEVELS \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define X86_64_LEVELS
#endif

using c10::ScalarType;
using torch::stable::Tensor;

namespace workbook {
namespace {

using Byte = unsigned char; // may alias any element type

X86_64_LEVELS void exclusive_or(
    Byte* __restrict out,
    const Byte* __restrict gate,
    const Byte* __restrict up,
    int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = gate[i] ^ up[i];
  }
}

// Past the cache, as the subject does with large outputs: a plain store would
// first read the line. `out` is aligned to 16 bytes and `n` is divisible by 16.
void exclusive_or_non_temporal(
    Byte* out, const Byte* gate, const Byte* up, int64_t n) {
#if defined(__x86_64__)
  const auto load = [](const Byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  for (int64_t i = 0; i < n; i += 16) {
    const __m128i value = _mm_xor_si128(load(gate + i), load(up + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), value);
  }
  _mm_sfence();
#else
  exclusive_or(out, gate, up, n);
#endif
}

// The buffers of one group, and its members as functions on them.
template <class T>
class SiluAndMul {
 public:
  SiluAndMul(int64_t rows, int64_t d, bool parallel)
      : rows_(rows),
        d_(d),
        parallel_(parallel),
        input_(empty(2 * d)), //                          [rows, 2d]
        gate_(torch::stable::narrow(input_, 1, 0, d)), // [rows, d], a view
        up_(torch::stable::narrow(input_, 1, d, d)),   //   [rows, d], a view
        out_(empty(d)),  //                                [rows, d]
        silu_(empty(d)), //                               [rows, d]
        input_data_(input_.mutable_data_ptr<T>()),
        out_data_(out_.mutable_data_ptr<T>()) {
    // Magnitudes that keep every product clear of Half's limits; silu_and_mul
    // itself takes the same time for all of them.
    std::mt19937 engine(1);
    std::uniform_real_distribution<float> value(0x1p-6f, 8);
    std::vector<T> period(65521); // a prime, so that rows differ
    for (T& element : period) {
      const float magnitude = value(engine);
      element = T(engine() % 2 == 0 ? magnitude : -magnitude);
    }
    for_rows([&](int64_t begin, int64_t end) {
      for (int64_t i = begin * 2 * d; i < end * 2 * d; ++i) {
        input_data_[i] = period[static_cast<size_t>(i) % period.size()];
      }
    });
    for (int64_t i = 0; i < kChecked; ++i) {
      const int64_t row = i * (rows - 1) / (kChecked - 1);
      if (checked_.empty() || row != checked_.back().row) {
        checked_.push_back({row, exact(row)});
      }
    }
  }

  void solution() const {
    for_rows([&](int64_t begin, int64_t end) {
      const int64_t sizes[] = {end - begin, 2 * d_};
      const int64_t strides[] = {2 * d_, 1};
      solution_(kDtype, out(begin), input(begin), sizes, strides, 2);
    });
  }

  void floor() const {
    const auto row_xor = parallel_ ? exclusive_or_non_temporal : exclusive_or;
    for_rows([&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        row_xor(
            reinterpret_cast<Byte*>(out(row)),
            reinterpret_cast<const Byte*>(input(row)),
            reinterpret_cast<const Byte*>(input(row) + d_),
            d_ * int64_t{sizeof(T)});
      }
    });
  }

  // The call of std::exp keeps the compiler from vectorising it.
  void scalar() const {
    for_rows([&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate = input(row);
        for (int64_t i = 0; i < d_; ++i) {
          const float x = gate[i];
          const float up = gate[d_ + i];
          out(row)[i] = T(x / (1 + std::exp(-x)) * up);
        }
      }
    });
  }

  // Without allocation: silu into a temporary that is there, then the product.
  void aten() const {
    workbook::aten("aten::silu", "out", gate_, silu_);
    workbook::aten("aten::mul", "out", silu_, up_, out_);
  }

  void poison() const { // with NaN
    for (const Row& row : checked_) {
      std::memset(out(row.row), 0xff, static_cast<size_t>(d_) * sizeof(T));
    }
  }

  std::string check(double tolerance) const {
    for (const Row& row : checked_) {
      const std::span<const T> got(out(row.row), static_cast<size_t>(d_));
      const auto difference = first_difference<T>(got, row.exact, tolerance);
      if (!difference.empty()) {
        return "row " + std::to_string(row.row) + ", " + difference;
      }
    }
    return "";
  }

  std::string check_floor() const {
    for (const Row& row : checked_) {
      const auto* got = reinterpret_cast<const Byte*>(out(row.row));
      const auto* gate = reinterpret_cast<const Byte*>(input(row.row));
      const int64_t n = d_ * int64_t{sizeof(T)};
      for (int64_t i = 0; i < n; ++i) {
        if (got[i] != (gate[i] ^ gate[n + i])) {
          return "row " + std::to_string(row.row) + ", byte " +
              std::to_string(i) + " is not the exclusive or";
        }
      }
    }
    return "";
  }

 private:
  static constexpr ScalarType kDtype = c10::CppTypeToScalarType<T>::value;
  static constexpr int64_t kChecked = 8; // rows, the first and the last too

  struct Row {
    int64_t row;
    std::vector<double> exact;
  };

  Tensor empty(int64_t columns) const {
    return torch::stable::empty({rows_, columns}, kDtype);
  }
  T* input(int64_t row) const {
    return input_data_ + row * 2 * d_;
  }
  T* out(int64_t row) const {
    return out_data_ + row * d_;
  }

  std::vector<double> exact(int64_t row) const {
    std::vector<double> result;
    const T* gate = input(row);
    for (int64_t i = 0; i < d_; ++i) {
      const double x = static_cast<float>(gate[i]);
      const double up = static_cast<float>(gate[d_ + i]);
      result.push_back(x / (1 + std::exp(-x)) * up);
    }
    return result;
  }

  // All members that we thread use libtorch's pool, as ATen does.
  template <class F>
  void for_rows(const F& f) const {
    if (parallel_) {
      torch::stable::parallel_for(0, rows_, 1, f);
    } else {
      f(0, rows_);
    }
  }

  using Signature = void(
      ScalarType, void*, const void*, const int64_t*, const int64_t*, size_t);

  int64_t rows_, d_;
  bool parallel_;
  Tensor input_, gate_, up_, out_, silu_;
  T* input_data_; // asked for once: each question is a call into libtorch
  T* out_data_;
  Signature* solution_ = function<Signature>("wb01_silu_and_mul");
  std::vector<Row> checked_;
};

template <class T>
std::vector<Member> members(int64_t rows, int64_t d, bool parallel) {
  // Made when a member first runs: only for the groups that the filter leaves.
  const auto made = std::make_shared<std::unique_ptr<SiluAndMul<T>>>();
  const auto it = [=]() -> const SiluAndMul<T>& {
    if (*made == nullptr) {
      *made = std::make_unique<SiluAndMul<T>>(rows, d, parallel);
    }
    return **made;
  };
  // As in the tests: one rounding, after a few ulp of float.
  constexpr double kOnce = sizeof(T) == 2 ? 0.502 : 4;
  // ATen rounds silu before the product. That costs up to half an ulp of silu,
  // which is up to one of the product, and the product's own rounding half.
  constexpr double kTwice = sizeof(T) == 2 ? 1.502 : 5;
  const auto poison = [it] { it().poison(); };
  const auto once = [it] { return it().check(kOnce); };
  return {
      {"xor",
       Role::kFloor,
       [it] { it().floor(); },
       poison,
       [it] { return it().check_floor(); }},
      {"solution", Role::kSubject, [it] { it().solution(); }, poison, once},
      {"scalar loop", Role::kPeer, [it] { it().scalar(); }, poison, once, true},
      {"ATen",
       Role::kPeer,
       [it] { it().aten(); },
       poison,
       [it] { return it().check(kTwice); }},
  };
}

template <class T>
Group group(const std::string& kind, int64_t rows, int64_t d) {
  const bool large = kind == "dram";
  const std::string dtype = sizeof(T) == 4 ? "float"
      : std::is_same_v<T, c10::Half>       ? "half"
                                           : "bfloat16";
  return {
      kind + "/" + dtype,
      dtype,
      std::to_string(rows) + " x " + std::to_string(d),
      large ? "cold" : "warm",
      3 * rows * d * int64_t{sizeof(T)},
      large ? static_cast<int>(torch::stable::get_num_threads()) : 1,
      members<T>(rows, d, large)};
}

// Short ones first: a wrong result is found at once.
std::vector<Group> groups(bool quick) {
  if (quick) {
    return {
        group<c10::BFloat16>("small", 1, 4096),
        group<c10::BFloat16>("cache", 32, 1024),
        group<c10::BFloat16>("dram", 2048, 8192)};
  }
  std::vector<Group> result;
  const auto add = [&](const char* kind, int64_t rows, int64_t d) {
    result.push_back(group<float>(kind, rows, d));
    result.push_back(group<c10::Half>(kind, rows, d));
    result.push_back(group<c10::BFloat16>(kind, rows, d));
  };
  add("small", 1, 4096);
  add("cache", 32, 1024);
  add("dram", 4096, 8192); // cold by its size
  return result;
}

} // namespace
} // namespace workbook

int main(int argc, char** argv) {
  return workbook::run_benchmarks(workbook::groups, argc, argv);
}
