// The activation ops of chapters 03 to 05, 07 and 08: each is f(x, y) of two
// elements of a row, or of one.
#pragma once

#include "case.h"

namespace stress {

enum class Layout { kHalves, kInTurns, kAlone };

struct Gated {
  std::string name;
  std::string overload;
  Layout layout;
  bool out; // (Tensor! out, Tensor input, ...) -> (), else -> Tensor
  std::function<Exact(Exact, Exact, const std::vector<double>&)> f;
  double tolerance = 8; // of float, in ulp
  double of_16_bits = 1;
  // What is beside the tensors, drawn anew for each case.
  std::function<std::vector<double>(Random&)> numbers = nullptr;
  bool doubles = false;     // takes them as well
  bool any_out = false;     // `out` need not be contiguous
  bool rounds_silu = false; // to the dtype, before it multiplies
  bool unchecked = false;   // leaves the checks to the ops that it calls
};

inline Exact silu(Exact x) {
  return x / (1 + std::exp(-x));
}
// 1 + erf and 1 + tanh would cancel for negative x.
inline Exact gelu(Exact x) {
  return x / 2 * std::erfc(-x * Exact(M_SQRT1_2));
}
inline Exact gelu_tanh(Exact x) {
  return x /
      (1 +
       std::exp(
           Exact(-M_SQRT2 * M_2_SQRTPI) * (x + Exact(0.044715) * x * x * x)));
}

inline ScalarType random_dtype(Random& random, bool doubles = false) {
  constexpr ScalarType kTypes[] = {
      ScalarType::Float,
      ScalarType::Half,
      ScalarType::BFloat16,
      ScalarType::Double};
  return kTypes[random.integer(0, doubles ? 3 : 2)];
}

inline double tolerance_of(const Gated& op, ScalarType dtype) {
  return dtype == ScalarType::Float || dtype == ScalarType::Double
      ? op.tolerance
      : op.of_16_bits;
}

// f(x, y), and how far from it arithmetic of the dtype may be: silu(x) is zero
// below 3e-37 in float (1e-305 in double), whatever it is multiplied by then.
inline Value value_of(
    const Gated& op,
    Exact x,
    Exact y,
    const std::vector<double>& numbers,
    ScalarType dtype) {
  const Exact lost = dtype == ScalarType::Double ? 1e-305L : 3e-37L;
  const bool alone = op.layout == Layout::kAlone;
  Value value{
      op.f(x, y, numbers),
      lost * std::max({Exact(1), std::abs(x), std::abs(y)})};
  const auto other = std::isinf(y) ? op.f(x, 1, numbers)
      : std::isinf(x)              ? op.f(1, y, numbers)
                                   : 1;
  value.or_nan = !alone && std::abs(other) < lost; // 0 * inf
  if (op.rounds_silu) {
    as_type(dtype, [&](auto type) {
      using T = decltype(type);
      if constexpr (!std::is_same_v<T, int64_t>) {
        const auto gate = static_cast<double>(silu(x));
        const Exact ulp = workbook::ulp(workbook::kFormat<T>, gate);
        value.slack += std::isfinite(gate) ? 0.6L * ulp * std::abs(y) : 0;
        value.or_nan = value.or_nan || (std::isinf(y) && std::abs(gate) < ulp);
      }
    });
  }
  return value;
}

inline std::vector<Value> values_of(
    const Gated& op, const Tensor& input, const std::vector<double>& numbers) {
  const std::vector<Exact> x = read(input);
  const ScalarType dtype = input.scalar_type();
  const auto wide = static_cast<size_t>(input.size(-1));
  const size_t d = op.layout == Layout::kAlone ? wide : wide / 2;
  std::vector<Value> values;
  for (size_t row = 0; wide > 0 && row < x.size() / wide; ++row) {
    for (size_t i = 0; i < d; ++i) {
      const Exact* from = &x[row * wide];
      const size_t first = op.layout == Layout::kInTurns ? 2 * i : i;
      const size_t second = op.layout == Layout::kInTurns ? 2 * i + 1
          : op.layout == Layout::kHalves                  ? d + i
                                                          : i;
      values.push_back(value_of(op, from[first], from[second], numbers, dtype));
    }
  }
  return values;
}

// Calls the op of this name with out (if it has one), input and numbers.
inline std::vector<Tensor> call_gated(
    const std::string& name,
    const std::string& overload,
    const std::optional<Tensor>& out,
    const Tensor& input,
    const std::vector<double>& numbers) {
  StableIValue stack[4] = {};
  size_t next = 0;
  if (out) {
    stack[next++] = detail::from(*out);
  }
  stack[next++] = detail::from(input);
  for (const double number : numbers) {
    stack[next++] = detail::from(number);
  }
  workbook::call_op(name, overload, stack);
  return {out ? *out : detail::to<Tensor>(stack[0])};
}

// One in 50 is to be refused: makes input or out wrong, and says how.
inline std::string spoil(
    const Gated& op,
    Tensor& input,
    std::optional<Tensor>& out,
    Random& random) {
  const ScalarType dtype = input.scalar_type();
  const Sizes sizes = input.sizes().vec();
  Sizes wrong = sizes;
  switch (random.integer(0, out ? 3 : 1)) {
    case 0: // a dtype that it does not take
      input = torch::stable::empty(sizes, ScalarType::Long);
      if (out) {
        out = torch::stable::empty(out->sizes(), ScalarType::Long);
      }
      return "Long";
    case 1: // an odd last size; or none
      if (op.layout == Layout::kAlone) {
        return ""; // any will do
      }
      wrong.back() += 1 - wrong.back() % 2;
      input = torch::stable::empty(random.once_in(4) ? Sizes{} : wrong, dtype);
      return "even size";
    case 2: // out of another shape
      wrong = out->sizes().vec();
      wrong[static_cast<size_t>(
          random.integer(0, static_cast<int64_t>(wrong.size()) - 1))] += 1;
      out = torch::stable::empty(wrong, dtype);
      return "out must be";
    default: // out of another dtype
      out = torch::stable::empty(
          out->sizes(),
          dtype == ScalarType::Half ? ScalarType::Float : ScalarType::Half);
      return "out must have input's dtype";
  }
}

inline Case make_gated(const Gated& op, Random& random) {
  Case one;
  const Sizes sizes = random_sizes(random);
  const ScalarType dtype = random_dtype(random, op.doubles);
  Sizes wide = sizes;
  wide.back() *= op.layout == Layout::kAlone ? 1 : 2;
  const auto numbers = op.numbers ? op.numbers(random) : std::vector<double>();
  const bool meta = one.meta = random.once_in(10);
  Tensor input = filled(wide, dtype, random);
  std::optional<Tensor> out;
  if (op.out) {
    out = op.any_out && random.once_in(4)
        ? inside_another(sizes, dtype, random, true)
        : torch::stable::empty(sizes, dtype);
  }
  Want want{sizes, dtype, {}, tolerance_of(op, dtype)};
  one.text = to_text(wide) + " of dtype " +
      std::to_string(static_cast<int>(dtype)) + (meta ? " on meta" : "");
  if (meta) {
    input = on_meta(input);
    out = out ? std::optional(on_meta(*out)) : out;
  } else if (!op.unchecked && random.once_in(50)) {
    one.refusal = spoil(op, input, out, random);
    one.text += " spoilt";
  }
  if (!meta && one.refusal.empty()) {
    want.values = values_of(op, input, numbers);
  }
  one.call = [name = op.name, overload = op.overload, out, input, numbers] {
    return call_gated(name, overload, out, input, numbers);
  };
  one.want.push_back(std::move(want));
  return one;
}

inline Op as_op(const Gated& op) {
  return {
      op.name + (op.overload.empty() ? "" : "." + op.overload),
      [op](Random& random) { return make_gated(op, random); }};
}

} // namespace stress
