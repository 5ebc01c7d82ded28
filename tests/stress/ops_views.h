// The ops that pass tensors through, chapter 06's, and chapter 01's functions,
// which know no tensor.
#pragma once

#include "ops_calls.h"

#include <dlfcn.h>

#include <numeric>

namespace stress {

inline const void* data_of(const Tensor& tensor) {
  return tensor.data_ptr();
}
inline const void* data_of(const std::optional<Tensor>& tensor) {
  return tensor ? tensor->data_ptr() : nullptr;
}
template <class T>
std::vector<const void*> data_of(const std::vector<T>& tensors) {
  std::vector<const void*> all;
  for (const T& tensor : tensors) {
    all.push_back(data_of(tensor));
  }
  return all;
}

// The same tensors come back: the same storage, by handles of their own.
template <class T, class Draw>
Op echo_tensors(const char* name, const Draw& draw) {
  const std::string op = std::string("wb02::echo_") + name;
  return {op, [op, draw](Random& random) {
            const T value = draw(random);
            return Case{
                "",
                [op, value]() -> std::vector<Tensor> {
                  StableIValue slot = detail::from(value);
                  workbook::call_op(op, "", &slot);
                  if (data_of(detail::to<T>(slot)) != data_of(value)) {
                    throw Failure("another tensor came back");
                  }
                  return {};
                },
                {},
                ""};
          }};
}

inline std::vector<Op> ops_02() {
  const auto tensor = [](Random& random) {
    return filled(random_sizes(random), random_dtype(random, true), random);
  };
  using Maybe = std::optional<Tensor>;
  std::vector<Op> ops = echoes();
  ops.push_back(echo_tensors<Tensor>("tensor", tensor));
  ops.push_back(echo_tensors<Maybe>("maybe_tensor", maybe<Tensor>(tensor)));
  ops.push_back(
      echo_tensors<std::vector<Tensor>>("tensors", list_of<Tensor>(tensor)));
  return ops;
}

inline std::vector<Op> ops_06(const std::string& ns) {
  const auto permute = [ns](Random& random) {
    const ScalarType dtype = random_dtype(random, true);
    const Tensor input = filled(random_sizes(random), dtype, random);
    Sizes dims(static_cast<size_t>(input.dim())), sizes, strides;
    std::iota(dims.begin(), dims.end(), 0);
    for (size_t i = dims.size(); i-- > 1;) {
      std::swap(
          dims[i],
          dims[static_cast<size_t>(
              random.integer(0, static_cast<int64_t>(i)))]);
    }
    for (const int64_t dim : dims) {
      sizes.push_back(input.size(dim));
      strides.push_back(input.stride(dim));
    }
    return Case{
        to_text(input.sizes().vec()) + " by " + to_text(dims),
        [=]() -> std::vector<Tensor> {
          StableIValue stack[] = {detail::from(input), detail::from(dims)};
          workbook::call_op(ns + "::permute", "", stack);
          const auto view = detail::to<Tensor>(stack[0]);
          if (view.data_ptr() != input.data_ptr() ||
              view.strides().vec() != strides) {
            throw Failure("not a view of the input");
          }
          return {view};
        },
        {{sizes, dtype, {}, 0}},
        ""};
  };
  const auto count_to = [ns](Random& random) {
    const int64_t n = random.integer(random.once_in(64) ? -9 : 0, 200);
    Want want{{n}, ScalarType::Long, {}, 0};
    for (int64_t i = 0; i < n; ++i) {
      want.values.push_back({static_cast<Exact>(i)});
    }
    return Case{
        std::to_string(n),
        [=]() -> std::vector<Tensor> {
          StableIValue slot = detail::from(Sizes{n});
          workbook::call_op(ns + "::count", "", &slot);
          return {detail::to<Tensor>(slot)};
        },
        {want},
        n < 0 ? "a size must not be negative" : ""};
  };
  const auto report = [ns](Random&) {
    return Case{
        "",
        [=]() -> std::vector<Tensor> {
          StableIValue slot = 0;
          workbook::call_op(ns + "::abi_report", "", &slot);
          const auto handle = detail::to<StringHandle>(slot);
          const char* data = nullptr;
          torch_string_c_str(handle, &data);
          const bool right = std::strstr(data, "built with 2.") != nullptr;
          torch_delete_string(handle);
          return right ? std::vector<Tensor>() : throw Failure("another text");
        },
        {},
        ""};
  };
  return {
      {ns + "::permute", permute},
      {ns + "::count", count_to},
      {ns + "::abi_report", report, true}};
}

// wb01_silu_and_mul, on [rows, 2d] with any strides.
inline std::vector<Op> ops_01(void* library) {
  const auto symbol = [library](const char* name) {
    return dlsym(library, name);
  };
  using Rows = void(
      ScalarType, void*, const void*, const int64_t*, const int64_t*, size_t);
  auto* const rows = reinterpret_cast<Rows*>(symbol("wb01_silu_and_mul"));
  const auto make_rows = [rows](Random& random) {
    const ScalarType dtype = random_dtype(random, true);
    const Sizes sizes{random.integer(0, 5), random.integer(0, 70)};
    const Tensor input = filled({sizes[0], 2 * sizes[1]}, dtype, random);
    const Tensor out = torch::stable::empty(sizes, dtype);
    const Gated op{"", "", Layout::kHalves, true, silu_and_mul};
    return Case{
        to_text(sizes),
        [=]() -> std::vector<Tensor> {
          const Sizes wide = input.sizes().vec();
          const Sizes strides = input.strides().vec();
          void* to = out.data_ptr();
          rows(dtype, to, input.data_ptr(), wide.data(), strides.data(), 2);
          return {out};
        },
        {{sizes, dtype, values_of(op, input, {}), tolerance_of(op, dtype)}},
        ""};
  };
  auto* const round =
      reinterpret_cast<uint16_t (*)(float)>(symbol("wb01_round_to_bfloat16"));
  auto* const saturate =
      reinterpret_cast<uint8_t (*)(float)>(symbol("wb01_saturate_to_float8"));
  const auto make_rounded = [round, saturate](Random& random) {
    const auto bits = static_cast<uint32_t>(random.bits());
    return Case{
        "bits " + std::to_string(bits),
        [=]() -> std::vector<Tensor> {
          float x = 0;
          std::memcpy(&x, &bits, sizeof(x));
          const c10::BFloat16 got(round(x), c10::BFloat16::from_bits());
          const c10::Float8_e5m2 small(
              saturate(x), c10::Float8_e5m2::from_bits());
          const auto& f8 = workbook::kFormat<c10::Float8_e5m2>;
          const double exact =
              workbook::nearest(workbook::kFormat<c10::BFloat16>, x);
          const double most = std::clamp<double>(x, -f8.max, f8.max);
          const auto same = [](double a, double b) {
            return a == b || (std::isnan(a) && std::isnan(b));
          };
          if (!same(float(got), exact) ||
              !same(float(small), workbook::nearest(f8, most))) {
            throw Failure("not the nearest");
          }
          return {};
        },
        {},
        ""};
  };
  return {{"wb01_silu_and_mul", make_rows}, {"wb01_round", make_rounded}};
}

} // namespace stress
