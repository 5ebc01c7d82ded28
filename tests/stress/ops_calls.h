// The ops of chapters 01, 02, 05 and 06 that compute little: functions without
// libtorch, conversions, and calls of other ops.
#pragma once

#include "ops_models.h"

#include <cstring>

namespace stress {

// wb05::swiglu_mlp(x[..., h], w_gate_up[2d, h], w_down[h, d]) -> [..., h], with
// a bound on the error that is carried along.
inline Case make_mlp(Random& random) {
  const int64_t n = random.integer(1, 5), h = random.integer(1, 9),
                d = random.integer(1, 9);
  const ScalarType dtype = random_dtype(random);
  const Exact unit = dtype == ScalarType::Float ? 0x1p-23L
      : dtype == ScalarType::Half               ? 0x1p-10L
                                                : 0x1p-7L;
  const Exact least = dtype == ScalarType::Half ? 0x1p-24L : 0x1p-120L;
  const Tensor tx = filled({n, h}, dtype, random, true);
  const Tensor tw = filled({2 * d, h}, dtype, random, true);
  const Tensor tv = filled({h, d}, dtype, random, true);
  const auto x = read(tx), w = read(tw), v = read(tv);
  struct Sum {
    Exact exact = 0, error = 0;
  };
  const auto at = [](int64_t row, int64_t column, int64_t columns) {
    return static_cast<size_t>(row * columns + column);
  };
  Want want{{n, h}, dtype, {}, 1};
  for (int64_t row = 0; row < n; ++row) {
    std::vector<Sum> up(static_cast<size_t>(2 * d));
    for (size_t j = 0; j < up.size(); ++j) {
      up[j].error = least;
      for (int64_t k = 0; k < h; ++k) {
        const Exact term = x[at(row, k, h)] *
            w[j * static_cast<size_t>(h) + static_cast<size_t>(k)];
        up[j].exact += term;
        up[j].error += std::abs(term) * unit * static_cast<Exact>(h + 2);
      }
    }
    for (int64_t k = 0; k < h; ++k) {
      Sum out;
      for (int64_t j = 0; j < d; ++j) {
        const Sum a = up[static_cast<size_t>(j)],
                  b = up[static_cast<size_t>(j + d)];
        const Exact gated = silu(a.exact) * b.exact;
        const Exact error = 1.1L * a.error * (std::abs(b.exact) + b.error) +
            std::abs(silu(a.exact)) * b.error + std::abs(gated) * 8 * unit +
            least;
        const Exact by = v[at(k, j, d)];
        out.exact += gated * by;
        out.error += error * std::abs(by) +
            std::abs(gated * by) * unit * static_cast<Exact>(d + 2);
      }
      want.values.push_back({out.exact, out.error + least});
    }
  }
  return {
      to_text({n, h, d}),
      [=]() -> std::vector<Tensor> {
        StableIValue stack[] = {
            detail::from(tx), detail::from(tw), detail::from(tv)};
        workbook::call_op("wb05::swiglu_mlp", "", stack);
        return {detail::to<Tensor>(stack[0])};
      },
      {want},
      ""};
}

// An op of one argument that gives it back.
template <class T, class Draw>
Op echo(const char* name, const Draw& draw, bool leaks = false) {
  const std::string op = std::string("wb02::echo_") + name;
  const auto make = [op, draw](Random& random) {
    const T value = draw(random);
    return Case{
        "",
        [op, value]() -> std::vector<Tensor> {
          StableIValue slot = detail::from(value);
          workbook::call_op(op, "", &slot);
          // Not to<std::string>, which leaks with the headers of 2.10 to 2.13.
          if constexpr (std::is_same_v<T, std::string>) {
            const auto handle = detail::to<StringHandle>(slot);
            const char* data = nullptr;
            size_t size = 0;
            torch_string_c_str(handle, &data);
            torch_string_length(handle, &size);
            const std::string got(data, size);
            torch_delete_string(handle);
            if (got != value) {
              throw Failure("another string came back");
            }
          } else if (const T got = detail::to<T>(slot);
                     std::memcmp(&got, &value, sizeof(T)) != 0 &&
                     !(got == value)) {
            throw Failure("another value came back");
          }
          return {};
        },
        {},
        ""};
  };
  return {op, make, leaks};
}

template <class T, class Draw>
auto list_of(const Draw& draw) {
  return [draw](Random& random) {
    std::vector<T> values;
    for (int64_t i = random.integer(0, 5); i > 0; --i) {
      values.push_back(draw(random));
    }
    return values;
  };
}
template <class T, class Draw>
auto maybe(const Draw& draw) {
  return [draw](Random& random) {
    return random.once_in(3) ? std::optional<T>()
                             : std::optional<T>(draw(random));
  };
}

inline std::vector<Op> echoes() {
  using torch::headeronly::Layout;
  using torch::headeronly::MemoryFormat;
  using torch::stable::Device;
  const auto integer = [](Random& random) {
    return static_cast<int64_t>(random.bits() >> random.integer(0, 63));
  };
  const auto dtype = [](Random& random) { return random_dtype(random, true); };
  using Ints = std::vector<int64_t>;
  return {
      echo<bool>("bool", [](Random& r) { return r.once_in(2); }),
      echo<int64_t>("int", integer),
      echo<double>(
          "float",
          [](Random& r) { // a NaN by its bits
            double value = 0;
            const uint64_t bits = r.bits();
            std::memcpy(&value, &bits, sizeof(value));
            return value;
          }),
      echo<ScalarType>("dtype", dtype),
      echo<Layout>(
          "layout",
          [](Random& r) {
            constexpr Layout all[] = {
                Layout::Strided,
                Layout::Sparse,
                Layout::SparseBsc,
                Layout::Jagged};
            return all[r.integer(0, 3)];
          }),
      echo<MemoryFormat>(
          "memory_format",
          [](Random& r) { return static_cast<MemoryFormat>(r.integer(0, 3)); }),
      echo<Device>(
          "device",
          [](Random& r) {
            return Device(
                c10::DeviceType::CUDA,
                static_cast<int32_t>(r.integer(-1, 100)));
          }),
      echo<std::string>(
          "str",
          [](Random& r) {
            return std::string(
                static_cast<size_t>(r.integer(0, 60)),
                static_cast<char>(r.integer(0, 127)));
          },
          true),
      echo<std::optional<int64_t>>("maybe_int", maybe<int64_t>(integer)),
      echo<Ints>("ints", list_of<int64_t>(integer)),
  };
}

} // namespace stress
