// What a launch on the pretended GPU would compute of the arguments that it is
// given: with as many threads, by a loop over their elements, in double. For
// the test of chapter 07.
#pragma once

#include "fake_gpu.h"

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace pretend {

struct Given {
  const void* first;  // gate; of the gradient, grad
  const void* second; // up; of the gradient, input
  void* out;
  int64_t row_stride;
  int64_t column_stride;
  int64_t d;
  int64_t n;
  int64_t taken; // elements that the threads take
};

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

struct Gradients {
  double gate, up;
};
inline Gradients gradients(double grad, double gate, double up) {
  const double s = sigmoid(gate), silu = gate * s;
  return {grad * up * (s + silu * (1 - s)), grad * silu};
}

// While it lives, launches compute, or only say what they are given. Kernels
// are known by their mangled names.
class Model {
 public:
  explicit Model(bool runs = true) : runs_(runs) {
    state().compute = [this](const Launch& launch, void** arguments) {
      compute(launch, state().names[launch.kernel], arguments);
    };
  }
  ~Model() {
    state().compute = nullptr;
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  std::vector<Given> launches;

 private:
  template <class T>
  static T at(const void* argument, size_t offset = 0) {
    T value;
    std::memcpy(&value, static_cast<const char*>(argument) + offset, sizeof(T));
    return value;
  }

  void compute(const Launch& launch, const std::string& name, void** a) {
    const auto threads = static_cast<int64_t>(launch.blocks * launch.threads);
    const bool backward = name.find("plain_backward") != std::string::npos;
    Given g{at<void*>(a[0]), at<void*>(a[1]), at<void*>(a[2]), 0, 1, 0, 0, 0};
    const size_t vectors = name.find("vectorized");
    if (vectors != std::string::npos) { // Params, then the functor
      int width = 0;
      const char* const sizes = name.c_str() + name.find("Li", vectors);
      std::sscanf(sizes, "Li%dE", &width);
      g.second = at<void*>(a[0], 8);
      g.out = at<void*>(a[0], 16);
      g.row_stride = at<int64_t>(a[0], 24);
      g.n = int64_t{at<uint32_t>(a[0], 32)} * width;
      g.d = int64_t{at<uint32_t>(a[0], 36)} * width; // of FastDivmod
      g.taken = threads * width;
    } else if (backward) {
      const bool is_32_bits = name.find("jN", name.find("plain")) != // uint32_t
          std::string::npos;
      g.column_stride = 1;
      g.d = is_32_bits ? at<uint32_t>(a[3]) : at<int64_t>(a[3]);
      g.n = is_32_bits ? at<uint32_t>(a[4]) : at<int64_t>(a[4]);
      g.taken = threads;
    } else {
      g.row_stride = at<int64_t>(a[3]);
      g.column_stride = at<int64_t>(a[4]);
      g.d = at<int64_t>(a[5]);
      g.n = at<int64_t>(a[6]);
      g.taken = threads;
    }
    launches.push_back(g);
    if (!runs_) {
      return;
    }
    name.find("8BFloat16") != std::string::npos
        ? run<c10::BFloat16>(g, backward)
        : name.find("4Half") != std::string::npos ? run<c10::Half>(g, backward)
                                                  : run<float>(g, backward);
  }

  template <class T>
  static void run(const Given& g, bool backward) {
    const auto* const first = static_cast<const T*>(g.first);
    const auto* const second = static_cast<const T*>(g.second);
    auto* const out = static_cast<T*>(g.out);
    for (int64_t i = 0; i < std::min(g.n, g.taken); ++i) {
      if (backward) {
        const int64_t gate = i / g.d * 2 * g.d + i % g.d, up = gate + g.d;
        const Gradients of = gradients(
            static_cast<float>(first[i]),
            static_cast<float>(second[gate]),
            static_cast<float>(second[up]));
        out[gate] = T(static_cast<float>(of.gate));
        out[up] = T(static_cast<float>(of.up));
      } else {
        const int64_t from = i / g.d * g.row_stride + i % g.d * g.column_stride;
        const double gate = static_cast<float>(first[from]);
        const double up = static_cast<float>(second[from]);
        out[i] = T(static_cast<float>(gate * sigmoid(gate) * up));
      }
    }
  }

  bool runs_;
};

} // namespace pretend
