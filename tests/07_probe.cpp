// What the test of chapter 07 asks of the headers in the folder under test: the
// addresses that a launch reads and writes, in their order, without touching
// memory; the plan; the arithmetic.
#include "gated.h"
#include "plan.h"

#include "07_probe.h"

#include <cstdint>
#include <type_traits>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

const Trace* trace = nullptr;
uint64_t self = 0; // the thread that is running

void note(bool write, const void* address) {
  trace->note(trace->to, {reinterpret_cast<uint64_t>(address), self, write});
}

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
    return 1;
  }
  char bytes[Size];
};

template <int Size, int N, uint32_t K>
void run(const Trace& t) {
  using activation::Problem;
  const activation::Tensors tensors{
      reinterpret_cast<const void*>(t.input),
      reinterpret_cast<void*>(t.out),
      t.rows,
      t.d,
      t.stride,
      Size};
  activation::for_each_piece(tensors, N, t.most, [&](const Problem& problem) {
    const uint64_t in_block = uint64_t{t.threads} * K;
    const uint64_t blocks = (problem.vectors + in_block - 1) / in_block;
    for (uint64_t b = 0; b < blocks; ++b) {
      if (t.ends != 0 && b == t.ends && blocks > 2 * t.ends) {
        b = blocks - t.ends; // only the first and the last blocks
      }
      for (uint32_t i = 0; i < t.threads; ++i) {
        ++self;
        activation::run_thread<Element<Size>, N, K>(
            problem,
            activation::Halves{t.gate, t.up},
            activation::SiluAndMul(),
            {static_cast<uint32_t>(b), i, t.threads});
      }
    }
  });
}

template <int Size>
void run_width(const Trace& t) {
  constexpr int kWide = 16 / Size;
  switch (t.width * 10 + t.in_flight) {
    case 11:
      return run<Size, 1, 1>(t);
    case 12:
      return run<Size, 1, 2>(t);
    case kWide * 10 + 1:
      return run<Size, kWide, 1>(t);
    case kWide * 10 + 2:
      return run<Size, kWide, 2>(t);
    case kWide * 10 + 4:
      return run<Size, kWide, 4>(t);
    default:
      throw std::invalid_argument("the probe has no such launch");
  }
}

} // namespace

EXPORT uint32_t wb07_probe_vector_of(
    uint32_t block,
    uint32_t thread,
    uint32_t threads,
    uint32_t k,
    uint32_t in_flight) {
  return activation::vector_of({block, thread, threads}, k, in_flight);
}
EXPORT void wb07_probe_trace(const Trace& t) {
  trace = &t;
  self = 0;
  t.size == 2 ? run_width<2>(t) : run_width<4>(t);
}

EXPORT int wb07_probe_width(
    uint64_t input, uint64_t out, int64_t d, int64_t stride, int size) {
  return activation::vector_width(
      {reinterpret_cast<const void*>(input),
       reinterpret_cast<void*>(out),
       4,
       d,
       stride,
       size});
}

EXPORT Shape wb07_probe_plan(uint32_t vectors, int width) {
  const activation::Plan plan = activation::plan_for(vectors, width);
  return {
      plan.blocks(vectors),
      plan.threads,
      static_cast<int>(activation::kInFlight)};
}

EXPORT float wb07_probe_fast_sigmoid(float x) {
  return activation::Fast::sigmoid(x);
}

EXPORT bool wb07_probe_is_fast(int size) {
  using activation::Fast;
  using activation::math_for;
  return size == 2 ? std::is_same_v<math_for<uint16_t>, Fast>
                   : std::is_same_v<math_for<float>, Fast>;
}
