// All ops of a solution, by its namespace.
#pragma once

#include "ops_views.h"

namespace stress {

// `library` is the loaded solution. Throws Failure if it has no ops here.
inline std::vector<Op> ops_of(const std::string& ns, void* library) {
  using Make = Case (*)(Random&);
  const auto silu_op = [&](const char* overload, bool out, bool doubles) {
    Gated op{
        ns + "::silu_and_mul", overload, Layout::kHalves, out, silu_and_mul};
    op.doubles = doubles;
    return op;
  };
  if (ns == "wb01") {
    return ops_01(library);
  }
  if (ns == "wb02") {
    return ops_02();
  }
  // Made of PyTorch's ops, which round twice and refuse what they do not like.
  const auto called = [&](bool out) {
    Gated op = silu_op("", out, false);
    op.rounds_silu = true;
    op.of_16_bits = 2;
    op.unchecked = true;
    return as_op(op);
  };
  if (ns == "wb03") {
    return {called(true), {"wb03::gate_and_up", Make(make_gate_and_up)}};
  }
  if (ns == "wb04") {
    return {
        as_op(silu_op("out", true, true)),
        as_op(silu_op("", false, true)),
        {"wb04::swiglu", Make(make_swiglu)},
        {"wb04::swiglu", Make(make_amax)},
        {"wb04::silu_and_mul_backward", Make(make_backward)}};
  }
  if (ns == "wb05") {
    return {called(false), {"wb05::swiglu_mlp", Make(make_mlp)}};
  }
  if (ns.find("wb06") == 0) {
    return ops_06(ns);
  }
  if (ns == "wb07") {
    return {as_op(silu_op("out", true, true)), as_op(silu_op("", false, true))};
  }
  if (ns.find("_activation_") == 0) {
    return activation_08(ns);
  }
  throw Failure("no ops are known of " + ns);
}

} // namespace stress
