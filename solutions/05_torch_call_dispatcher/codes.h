// codes.h: the number that stands for the value of an enum at the ABI boundary.
// libtorch says it at run time: neither side may assume the numbers of its own
// headers.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/core/DeviceType.h>
#include <torch/headeronly/core/Layout.h>
#include <torch/headeronly/core/MemoryFormat.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <cstddef>
#include <cstdint>

// Hidden: extensions in one process have each their own.
#pragma GCC visibility push(hidden)
namespace wb {

using torch::headeronly::DeviceType;
using torch::headeronly::Layout;
using torch::headeronly::MemoryFormat;
using torch::headeronly::ScalarType;

template <typename E>
struct Code {
  E value;
  int32_t (*code)(); // a getter of the C shim
};

// What a type is called in a schema, or in a message; and the codes of an enum.
template <typename E>
inline constexpr const char* kName = nullptr;
template <typename E>
inline constexpr std::nullptr_t kCodes = nullptr;

template <>
inline constexpr const char* kName<ScalarType> = "ScalarType";
template <>
inline constexpr Code<ScalarType> kCodes<ScalarType>[] = {
    {ScalarType::Byte, aoti_torch_dtype_uint8},
    {ScalarType::Char, aoti_torch_dtype_int8},
    {ScalarType::Short, aoti_torch_dtype_int16},
    {ScalarType::Int, aoti_torch_dtype_int32},
    {ScalarType::Long, aoti_torch_dtype_int64},
    {ScalarType::UInt16, aoti_torch_dtype_uint16},
    {ScalarType::UInt32, aoti_torch_dtype_uint32},
    {ScalarType::UInt64, aoti_torch_dtype_uint64},
    {ScalarType::Half, aoti_torch_dtype_float16},
    {ScalarType::Float, aoti_torch_dtype_float32},
    {ScalarType::Double, aoti_torch_dtype_float64},
    {ScalarType::BFloat16, aoti_torch_dtype_bfloat16},
    {ScalarType::Bool, aoti_torch_dtype_bool},
    {ScalarType::ComplexHalf, aoti_torch_dtype_complex32},
    {ScalarType::ComplexFloat, aoti_torch_dtype_complex64},
    {ScalarType::ComplexDouble, aoti_torch_dtype_complex128},
    {ScalarType::Float8_e5m2, aoti_torch_dtype_float8_e5m2},
    {ScalarType::Float8_e4m3fn, aoti_torch_dtype_float8_e4m3fn},
    {ScalarType::Float8_e5m2fnuz, aoti_torch_dtype_float8_e5m2fnuz},
    {ScalarType::Float8_e4m3fnuz, aoti_torch_dtype_float8_e4m3fnuz},
};

template <>
inline constexpr const char* kName<Layout> = "Layout";
template <>
inline constexpr Code<Layout> kCodes<Layout>[] = {
    {Layout::Strided, aoti_torch_layout_strided},
    {Layout::Sparse, aoti_torch_layout_sparse_coo},
    {Layout::SparseCsr, aoti_torch_layout_sparse_csr},
    {Layout::SparseCsc, aoti_torch_layout_sparse_csc},
    {Layout::SparseBsr, aoti_torch_layout_sparse_bsr},
    {Layout::SparseBsc, aoti_torch_layout_sparse_bsc},
    {Layout::Mkldnn, aoti_torch_layout__mkldnn},
    {Layout::Jagged, aoti_torch_layout_jagged},
};

template <>
inline constexpr const char* kName<MemoryFormat> = "MemoryFormat";
template <>
inline constexpr Code<MemoryFormat> kCodes<MemoryFormat>[] = {
    {MemoryFormat::Contiguous, aoti_torch_memory_format_contiguous_format},
    {MemoryFormat::Preserve, aoti_torch_memory_format_preserve_format},
    {MemoryFormat::ChannelsLast, aoti_torch_memory_format_channels_last},
    {MemoryFormat::ChannelsLast3d, aoti_torch_memory_format_channels_last_3d},
};

template <>
inline constexpr const char* kName<DeviceType> = "DeviceType";
template <>
inline constexpr Code<DeviceType> kCodes<DeviceType>[] = {
    {DeviceType::CPU, aoti_torch_device_type_cpu},
    {DeviceType::CUDA, aoti_torch_device_type_cuda},
    {DeviceType::Meta, aoti_torch_device_type_meta},
    {DeviceType::XPU, aoti_torch_device_type_xpu},
    {DeviceType::MPS, aoti_torch_device_type_mps},
    {DeviceType::PrivateUse1, aoti_torch_device_type_privateuse1},
};

//! [codes]
// The code that the running libtorch has for a value.
template <typename E>
int32_t code_of(E value) {
  constexpr const char* name = kName<E>; // a copy, or g++ exports kName<E>
  for (const auto& entry : kCodes<E>) {
    if (entry.value == value) {
      return entry.code();
    }
  }
  STD_TORCH_CHECK(false, name, " ", static_cast<int>(value), " has no code");
}

// And back: the value with this code.
template <typename E>
E value_of(int32_t code) {
  constexpr const char* name = kName<E>;
  for (const auto& entry : kCodes<E>) {
    if (entry.code() == code) {
      return entry.value;
    }
  }
  STD_TORCH_CHECK(false, "no ", name, " has the code ", code);
}
//! [codes]

} // namespace wb
#pragma GCC visibility pop
