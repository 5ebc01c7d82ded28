// What the test of chapter 07 asks of the headers in the folder under test. It
// runs their kernels on the host, on memory or only traced: the addresses that
// a launch reads and writes, in their order.
#include "probe.h"
#include "on_host.h"

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

const Trace* trace = nullptr; // while one is made

struct Tracing {
  explicit Tracing(const Trace& t) {
    trace = &t;
  }
  ~Tracing() {
    trace = nullptr;
  }
};

uint64_t self() {
  return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x + 1;
}

void note(bool write, const void* address) {
  const auto at = reinterpret_cast<uint64_t>(address);
  if (at < kInput / 2 || at >= 2 * kOut) {
    return; // a copy of the kernel's own
  }
  trace->note(trace->to, {at, self(), write, false});
}

// `load` and `store` assert that the address is a multiple of a vector.
void check_assertion(bool holds, const char* condition) {
  const bool of_vector = std::string_view(condition).find("Vector<T, N>") !=
      std::string_view::npos;
  if (!holds) {
    throw std::runtime_error(
        of_vector
            ? "misaligned address: thread " + std::to_string(threadIdx.x) +
                " of block " + std::to_string(blockIdx.x) +
                " reads or writes a vector where none begins"
            : std::string("failed: ") + condition);
  }
  if (trace && of_vector) {
    trace->note(trace->to, {0, self(), false, true});
  }
}

} // namespace

#undef KERNEL_ASSERT
#define KERNEL_ASSERT(condition) check_assertion(condition, #condition)

#include "backward.h"
#include "cuda_inputs.h"
#include "functors.h"
#include "kernels.h"
#include "plan.h"

namespace {

// An element that says where it is copied from and assigned to. It holds
// nothing, so that it may lie at an address where there is no memory.
template <int Size>
struct alignas(Size) Element {
  Element() {}
  explicit Element(float) {}
  Element(const Element& from) {
    note(false, &from);
  }
  Element& operator=(const Element& from) {
    note(false, &from);
    note(true, this);
    return *this;
  }
  explicit operator float() const {
    note(false, this);
    return 1;
  }
  char bytes[Size];
};

// The op's functor. By Precise, so that what a later step chooses is not seen
// before it; or by what it chooses.
struct Silu {
  template <typename Math>
  float operator()(Math math, float gate, float up) const {
    return chosen ? wb::cuda::SiluAndMul()(math, gate, up)
                  : wb::cuda::SiluAndMul()(wb::cuda::Precise(), gate, up);
  }
  bool chosen;
};

// Of the gradient, only where its kernel reads and writes.
struct Untouched {
  template <typename Math>
  wb::cuda::Gradients operator()(Math, float grad, float gate, float up) const {
    return {grad * gate, up};
  }
};

template <typename Kernel, typename... Arguments>
void run_blocks(
    const Launch& t,
    int64_t in_block,
    int64_t n,
    uint64_t ends,
    Kernel kernel,
    const Arguments&... arguments) {
  const auto blocks = static_cast<uint64_t>((n + in_block - 1) / in_block);
  if (ends == 0 || blocks <= 2 * ends) {
    return on_host::run(0, blocks, t.threads, kernel, arguments...);
  }
  on_host::run_part(0, ends, blocks, t.threads, kernel, arguments...);
  on_host::run(blocks - ends, blocks, t.threads, kernel, arguments...);
}

template <typename T, int N>
void run_vectorized(const Launch& t, uint64_t ends) {
  const auto* const input = reinterpret_cast<const T*>(t.input);
  const int64_t vectors = t.rows * t.d / N;
  run_blocks(
      t,
      t.threads,
      vectors,
      ends,
      wb::cuda::vectorized<T, N, wb::cuda::Split, Silu>,
      wb::cuda::Params<T>{
          input + t.gate,
          input + t.up,
          reinterpret_cast<T*>(t.out),
          t.row_stride,
          static_cast<uint32_t>(vectors),
          wb::cuda::FastDivmod(static_cast<uint32_t>(t.d / N))},
      Silu{t.chosen});
}

template <typename T>
void run(const Launch& t, uint64_t ends = 0) {
  switch (t.width) {
    case 1:
      return run_vectorized<T, 1>(t, ends);
    case 2:
      return run_vectorized<T, 2>(t, ends);
    case 4:
      return run_vectorized<T, 4>(t, ends);
    case 8:
      return run_vectorized<T, 8>(t, ends);
    case 0: {
      const auto* const input = reinterpret_cast<const T*>(t.input);
      return run_blocks(
          t,
          t.threads,
          t.rows * t.d,
          ends,
          wb::cuda::plain<T, Silu>,
          input + t.gate,
          input + t.up,
          reinterpret_cast<T*>(t.out),
          t.row_stride,
          t.column_stride,
          t.d,
          t.rows * t.d,
          Silu{t.chosen});
    }
    default:
      throw std::invalid_argument("the probe has no such launch");
  }
}

} // namespace

EXPORT void wb07_probe_trace(const Trace& t) {
  const Tracing tracing(t);
  t.size == 2 ? run<Element<2>>(t, t.ends) : run<Element<4>>(t, t.ends);
}

// Calls f(d, n) with numbers of as many bits as the launcher takes.
template <typename F>
void with_index(int64_t d, int64_t n, const F& f) {
  n <= wb::cuda::kMaxVectors
      ? f(static_cast<uint32_t>(d), static_cast<uint32_t>(n))
      : f(d, n);
}

// Gradient and input lie one behind the other.
EXPORT void wb07_probe_trace_backward(const Trace& t) {
  using T = Element<2>;
  const Tracing tracing(t);
  const auto* const grad = reinterpret_cast<const T*>(t.input);
  with_index(t.d, t.rows * t.d, [&](auto d, auto n) {
    run_blocks(
        t,
        t.threads,
        n,
        t.ends,
        wb::cuda::plain_backward<T, decltype(n), Untouched>,
        grad,
        grad + n,
        reinterpret_cast<T*>(t.out),
        d,
        n,
        Untouched());
  });
}

EXPORT void wb07_probe_compute(c10::ScalarType dtype, const Launch& t) {
  dtype == c10::ScalarType::Float      ? run<float>(t)
      : dtype == c10::ScalarType::Half ? run<c10::Half>(t)
                                       : run<c10::BFloat16>(t);
}

EXPORT void wb07_probe_backward(
    bool bfloat16,
    const void* grad,
    const void* input,
    void* result,
    int64_t rows,
    int64_t d) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    with_index(d, rows * d, [&](auto row, auto n) {
      on_host::run(
          0,
          n,
          1,
          wb::cuda::
              plain_backward<T, decltype(n), wb::cuda::SiluAndMulBackward>,
          static_cast<const T*>(grad),
          static_cast<const T*>(input),
          static_cast<T*>(result),
          row,
          n,
          wb::cuda::SiluAndMulBackward());
    });
  };
  bfloat16 ? run(c10::BFloat16()) : run(float());
}

EXPORT uint64_t wb07_probe_divmod(uint32_t n, uint32_t divisor) {
  const auto [quotient, remainder] = wb::cuda::FastDivmod(divisor)(n);
  return uint64_t{quotient} << 32 | remainder;
}

// -1 if there is none.
EXPORT int64_t wb07_probe_row_stride(const torch::stable::Tensor& tensor) {
  return wb::row_stride(tensor).value_or(-1);
}

EXPORT int wb07_probe_width(const Launch& t, int size) {
  const auto at = [&](int64_t element) {
    return reinterpret_cast<const char*>(t.input) + element * size;
  };
  const wb::Rows rows{
      at(t.gate),
      at(t.up),
      reinterpret_cast<void*>(t.out),
      t.rows,
      t.d,
      t.row_stride,
      t.column_stride};
  return wb::cuda::vector_width(rows, size);
}

EXPORT float wb07_probe_fast_sigmoid(float x) {
  return wb::cuda::Fast::sigmoid(x);
}

EXPORT int wb07_probe_approximations() {
  return wb::cuda::approximations;
}

EXPORT bool wb07_probe_is_fast(int size) {
  using wb::cuda::Fast;
  using wb::cuda::math_for;
  return size == 2 ? std::is_same_v<math_for<uint16_t>, Fast> &&
          std::is_same_v<math_for<c10::Half>, Fast> &&
          std::is_same_v<math_for<c10::BFloat16>, Fast>
                   : std::is_same_v<math_for<float>, Fast>;
}
