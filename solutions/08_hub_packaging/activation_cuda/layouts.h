// Beside what gated.h and functors.h have: two more layouts of a row, and the
// rest of the ops. For nvcc and any C++17 compiler; no torch.
#pragma once

#include "gated.h"

namespace activation {

// One operand: [..., d] -> [..., d].
struct Alone {
  template <class T, int N>
  struct Operands {
    Vector<T, N> x;

    template <class F>
    HOST_DEVICE float apply(const F& f, int i) const {
      return f(math_for<T>(), static_cast<float>(x.at[i]), 1.0f);
    }
  };

  template <class T, int N>
  HOST_DEVICE Operands<T, N> read(const T* row, int64_t column) const {
    return {load<T, N>(row + column)};
  }
};

// Gate and up in turns, 2 N elements of them.
struct InTurns {
  template <class T, int N>
  struct Operands {
    Vector<T, N> first, second;

    template <class F>
    HOST_DEVICE float apply(const F& f, int i) const {
      return f(math_for<T>(), element(2 * i), element(2 * i + 1));
    }
    HOST_DEVICE float element(int i) const {
      return static_cast<float>(i < N ? first.at[i] : second.at[i - N]);
    }
  };

  template <class T, int N>
  HOST_DEVICE Operands<T, N> read(const T* row, int64_t column) const {
    return {load<T, N>(row + 2 * column), load<T, N>(row + 2 * column + N)};
  }
};

struct GeluQuickAndMul {
  template <class Math>
  HOST_DEVICE float operator()(Math math, float gate, float up) const {
    return gate * math.sigmoid(1.702f * gate) * up;
  }
};

struct FatreluAndMul {
  float threshold;

  template <class Math>
  HOST_DEVICE float operator()(Math, float gate, float up) const {
    return (gate > threshold ? gate : 0) * up;
  }
};

// fminf gives the number where the other one is NaN, so not that.
inline HOST_DEVICE float at_most(float x, float most) {
  return x > most ? most : x;
}
inline HOST_DEVICE float within(float x, float limit) {
  return x < -limit ? -limit : at_most(x, limit);
}

struct SiluAndMulWithClamp {
  float limit;

  template <class Math>
  HOST_DEVICE float operator()(Math math, float gate, float up) const {
    return SiluAndMul()(math, at_most(gate, limit), within(up, limit));
  }
};

struct SwigluoaiAndMul {
  float alpha, limit;

  template <class Math>
  HOST_DEVICE float operator()(Math math, float gate, float up) const {
    gate = at_most(gate, limit);
    return gate * math.sigmoid(alpha * gate) * (within(up, limit) + 1);
  }
};

} // namespace activation
