// The activation ops, by the namespace of their chapter.
#pragma once

#include "gated.h"

namespace stress {

using Numbers = std::vector<double>;

inline Exact silu_and_mul(Exact x, Exact y, const Numbers&) {
  return silu(x) * y;
}
inline Exact mul_and_silu(Exact x, Exact y, const Numbers&) {
  return x * silu(y);
}
// In the tail of gelu e^(-x * x / 2) makes some x * x of an error of one.
inline Exact gelu_and_mul(Exact x, Exact y, const Numbers&) {
  return gelu(x) * y;
}
inline Exact gelu_tanh_and_mul(Exact x, Exact y, const Numbers&) {
  return gelu_tanh(x) * y;
}
inline Exact at_most(Exact x, Exact most) {
  return x > most ? most : x; // a NaN stays one
}

// All thirteen, each with an `out` and with a result of its own.
inline std::vector<Op> activation_08(const std::string& ns) {
  const auto numbers = [](std::initializer_list<int64_t> most) {
    return [most = std::vector<int64_t>(most)](Random& random) {
      Numbers eighths; // which no dtype rounds
      for (const int64_t n : most) {
        eighths.push_back(static_cast<double>(random.integer(1, 8 * n)) / 8);
      }
      return eighths;
    };
  };
  const auto alone = [](auto f) {
    return [f](Exact x, Exact, const Numbers&) { return f(x); };
  };
  std::vector<Op> ops;
  const auto add = [&](const char* name,
                       Layout layout,
                       auto f,
                       double ulp = 4,
                       std::function<Numbers(Random&)> drawn = nullptr) {
    for (const bool out : {true, false}) {
      const std::string whole = ns + "::" + name + (out ? "" : "_functional");
      Gated op{whole, "", layout, out, f, ulp, 0.65};
      op.numbers = drawn;
      op.any_out = true;
      ops.push_back(as_op(op));
    }
  };
  add("silu_and_mul", Layout::kHalves, silu_and_mul);
  add("mul_and_silu", Layout::kHalves, mul_and_silu);
  add("gelu_and_mul", Layout::kHalves, gelu_and_mul, 8);
  add("gelu_tanh_and_mul", Layout::kHalves, gelu_tanh_and_mul);
  add(
      "fatrelu_and_mul",
      Layout::kHalves,
      [](Exact x, Exact y, const Numbers& n) { return (x > n[0] ? x : 0) * y; },
      4,
      numbers({3}));
  add(
      "silu_and_mul_with_clamp",
      Layout::kHalves,
      [](Exact x, Exact y, const Numbers& n) {
        return silu(at_most(x, n[0])) * -at_most(-at_most(y, n[0]), n[0]);
      },
      4,
      numbers({9}));
  add(
      "swigluoai_and_mul",
      Layout::kInTurns,
      [](Exact x, Exact y, const Numbers& n) {
        x = at_most(x, n[1]);
        return x / (1 + std::exp(-n[0] * x)) *
            (1 - at_most(-at_most(y, n[1]), n[1]));
      },
      4,
      numbers({2, 9}));
  add("silu", Layout::kAlone, alone(silu));
  add("gelu", Layout::kAlone, alone(gelu), 8);
  add("gelu_tanh", Layout::kAlone, alone(gelu_tanh));
  add("gelu_new", Layout::kAlone, alone(gelu_tanh));
  add("gelu_fast", Layout::kAlone, alone(gelu_tanh));
  add("gelu_quick", Layout::kAlone, alone([](Exact x) {
        return x / (1 + std::exp(-1.702L * x));
      }));
  return ops;
}

} // namespace stress
