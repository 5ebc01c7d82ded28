// The ops of chapters 03, 04 and 05 that are not f(x, y): each with its own
// model in long double, and how far arithmetic of its dtype may be from it.
#pragma once

#include "ops_activation.h"

namespace stress {

// The relative error of one operation of the arithmetic of `dtype`.
inline Exact epsilon(ScalarType dtype) {
  return dtype == ScalarType::Double ? 0x1p-52L : 0x1p-23L;
}

// wb04::swiglu(Tensor input, Tensor? bias, *, float alpha, float? limit)
//     -> (Tensor out, Tensor amax)
// Here with all its options, and its first result.
inline Case make_swiglu(Random& random) {
  const Sizes sizes = random_sizes(random);
  const ScalarType dtype = random_dtype(random, true);
  Sizes wide = sizes;
  wide.back() *= 2;
  const Tensor input = filled(wide, dtype, random);
  std::optional<Tensor> bias;
  if (random.once_in(2)) {
    bias = filled({wide.back()}, dtype, random, true);
  }
  const double alpha = static_cast<double>(random.integer(4, 16)) / 8;
  std::optional<double> limit;
  if (random.once_in(2)) {
    limit = static_cast<double>(random.integer(1, 64)) / 8;
  }
  const Gated op{
      "wb04::swiglu",
      "",
      Layout::kHalves,
      false,
      [](Exact x, Exact y, const Numbers& n) {
        x = at_most(x, n[1]);
        return x / (1 + std::exp(-n[0] * x)) *
            -at_most(-at_most(y, n[1]), n[1]);
      }};
  const std::vector<Exact> x = read(input);
  const std::vector<Exact> b = bias ? read(*bias) : std::vector<Exact>();
  const auto d = static_cast<size_t>(sizes.back());
  Want want{sizes, dtype, {}, dtype == ScalarType::Half ? 1.0 : 8.0};
  const Numbers numbers{alpha, limit.value_or(INFINITY)};
  for (size_t i = 0; i < static_cast<size_t>(count(sizes)); ++i) {
    const size_t at = i / d * 2 * d + i % d;
    const Exact gate = x[at] + (bias ? b[i % d] : 0);
    const Exact up = x[at + d] + (bias ? b[i % d + d] : 0);
    Value value = value_of(op, gate, up, numbers, dtype);
    // alpha * gate is rounded before it is an exponent.
    const Exact error =
        epsilon(dtype) * (4 + 2 * std::abs(at_most(alpha * gate, 1000)));
    if (std::isfinite(value.exact) && std::isfinite(gate)) {
      value.slack += std::abs(value.exact) * error;
    }
    want.values.push_back(value);
  }
  return {
      to_text(wide) + (bias ? " with bias" : ""),
      [=]() -> std::vector<Tensor> {
        StableIValue stack[] = {
            detail::from(input),
            detail::from(bias),
            detail::from(alpha),
            detail::from(limit)};
        workbook::call_op("wb04::swiglu", "", stack);
        detail::to<Tensor>(stack[1]); // released
        return {detail::to<Tensor>(stack[0])};
      },
      {want},
      ""};
}

// wb04::silu_and_mul_backward(Tensor grad, Tensor input) -> Tensor
inline Case make_backward(Random& random) {
  const Sizes sizes = random_sizes(random);
  const ScalarType dtype = random_dtype(random, true);
  Sizes wide = sizes;
  wide.back() *= 2;
  const Tensor input = filled(wide, dtype, random, true);
  const Tensor grad = filled(sizes, dtype, random, true);
  const std::vector<Exact> x = read(input), dy = read(grad);
  const auto d = static_cast<size_t>(sizes.back());
  Want want{wide, dtype, {}, dtype == ScalarType::Float ? 8.0 : 2.0};
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i / (2 * d), column = i % (2 * d) % d;
    const Exact gate = x[row * 2 * d + column];
    const Exact up = x[row * 2 * d + d + column];
    const Exact y = dy[row * d + column], s = 1 / (1 + std::exp(-gate));
    const Exact size = 4 + 2 * std::abs(gate);
    const bool left = i % (2 * d) < d;
    want.values.push_back(
        {left ? y * up * s * (1 + gate * (1 - s)) : y * gate * s,
         std::abs(left ? y * up * s * size : y * gate * s) * size *
             epsilon(dtype)});
  }
  return {
      to_text(wide),
      [=]() -> std::vector<Tensor> {
        StableIValue stack[] = {detail::from(grad), detail::from(input)};
        workbook::call_op("wb04::silu_and_mul_backward", "", stack);
        return {detail::to<Tensor>(stack[0])};
      },
      {want},
      ""};
}

// Without options, and both results.
inline Case make_amax(Random& random) {
  Sizes sizes = random_sizes(random);
  sizes.back() = std::max<int64_t>(1, sizes.back());
  const ScalarType dtype = random_dtype(random, true);
  Sizes wide = sizes, one = sizes;
  wide.back() *= 2;
  one.back() = 1;
  const Tensor input = filled(wide, dtype, random, true);
  const Gated op{"", "", Layout::kHalves, false, silu_and_mul};
  const double tolerance = tolerance_of(op, dtype);
  Want out{sizes, dtype, values_of(op, input, {}), tolerance};
  Want amax{one, dtype, {}, tolerance};
  for (size_t i = 0; i < out.values.size(); ++i) {
    if (i % static_cast<size_t>(sizes.back()) == 0) {
      amax.values.emplace_back();
    }
    auto& most = amax.values.back().exact;
    most = std::max(most, std::abs(out.values[i].exact));
  }
  return {
      to_text(wide),
      [=]() -> std::vector<Tensor> {
        StableIValue stack[] = {
            detail::from(input),
            detail::from(std::nullopt),
            detail::from(1.0),
            detail::from(std::nullopt)};
        workbook::call_op("wb04::swiglu", "", stack);
        return {detail::to<Tensor>(stack[0]), detail::to<Tensor>(stack[1])};
      },
      {out, amax},
      ""};
}

// wb03::gate_and_up(Tensor input, Tensor? scale, bool swap) -> (Tensor, Tensor)
inline Case make_gate_and_up(Random& random) {
  const Sizes sizes = random_sizes(random);
  const ScalarType dtype = random_dtype(random, true);
  Sizes wide = sizes;
  wide.back() *= 2;
  const Tensor input = filled(wide, dtype, random);
  const bool swap = random.once_in(2);
  std::optional<Tensor> scale;
  if (random.once_in(2)) {
    scale = filled({sizes.back()}, dtype, random);
  }
  const std::vector<Exact> x = read(input);
  const std::vector<Exact> by = scale ? read(*scale) : std::vector<Exact>();
  const auto d = static_cast<size_t>(sizes.back());
  // The right product of doubles is rounded too, to 64 bits and then to 53.
  const double tolerance = dtype == ScalarType::Double ? 1 : 0.51;
  Want gate{sizes, dtype, {}, 0}, up{sizes, dtype, {}, tolerance};
  for (size_t i = 0; i < static_cast<size_t>(count(sizes)); ++i) {
    const size_t left = i / d * 2 * d + i % d, right = left + d;
    gate.values.push_back({x[swap ? right : left]});
    up.values.push_back(
        {x[swap ? left : right] * (scale ? by[i % d] : 1), 0x1p-148L});
  }
  return {
      to_text(wide) + (scale ? " scaled" : "") + (swap ? " swapped" : ""),
      [=]() -> std::vector<Tensor> {
        StableIValue stack[] = {
            detail::from(input), detail::from(scale), detail::from(swap)};
        workbook::call_op("wb03::gate_and_up", "", stack);
        return {detail::to<Tensor>(stack[0]), detail::to<Tensor>(stack[1])};
      },
      {gate, up},
      ""};
}

} // namespace stress
