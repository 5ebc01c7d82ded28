// The functions of libtorch that the tests of chapter 02 replace, so that they
// fail, return too large a size, or number the enums as a later libtorch may.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/util/shim_utils.h>

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace workbook::chapter_02 {

// The n-th call of a replaced function fails, as if memory had run out, and if
// it fails for good, so do the calls after it.
inline int calls_until_failure = 0; // 0 if no call fails
inline bool for_good = false;
inline int calls = 0;

inline bool count_and_fail() {
  ++calls;
  if (calls_until_failure == 0 || --calls_until_failure > 0) {
    return false;
  }
  calls_until_failure = for_good ? 1 : 0;
  return true;
}

// Calls libtorch's function, unless it is this call that fails.
template <auto kFunction>
struct Failing;
template <class... T, AOTITorchError (*kFunction)(T...)>
struct Failing<kFunction> {
  static AOTITorchError call(T... arguments) {
    return count_and_fail() ? TORCH_FAILURE : kFunction(arguments...);
  }
};
// Succeeds and returns a size that is 2^63 - 1 too large. No memory holds so
// much, and code that cuts the size down to 32 bits sees one element too few.
template <auto kFunction>
struct Longer;
template <class T, AOTITorchError (*kFunction)(T, size_t*)>
struct Longer<kFunction> {
  static AOTITorchError call(T handle, size_t* size) {
    const AOTITorchError code = kFunction(handle, size);
    *size += count_and_fail() ? (size_t{1} << 63) - 1 : 0;
    return code;
  }
};
struct Shim {
  const char* name;
  void (*instead)();
};
template <template <auto> class Function, auto kFunction>
Shim shim(const char* name) {
  return {name, reinterpret_cast<void (*)()>(&Function<kFunction>::call)};
}
#define SHIM(name) shim<Failing, &name>(#name)
#define LONGER(name) shim<Longer, &name>(#name)
inline const Shim kNewTensorHandle = SHIM(aoti_torch_new_tensor_handle);
inline const Shim kNewStringHandle = SHIM(torch_new_string_handle);
inline const Shim kStringCStr = SHIM(torch_string_c_str);
inline const Shim kStringLength = SHIM(torch_string_length);
inline const Shim kNewList = SHIM(torch_new_list_reserve_size);
inline const Shim kListPushBack = SHIM(torch_list_push_back);
inline const Shim kListSize = SHIM(torch_list_size);
inline const Shim kListGetItem = SHIM(torch_list_get_item);
inline const Shim kListSetItem = SHIM(torch_list_set_item);
inline const Shim kStringLonger = LONGER(torch_string_length);
inline const Shim kListLonger = LONGER(torch_list_size);

// While it lives, libtorch numbers its enums as a later one may. The
// executable's own definition of a symbol comes before libtorch's, for the
// library under test and, where libtorch calls itself through its procedure
// linkage table, for libtorch too.
inline int32_t code_offset = 0;
struct Renumbered {
  explicit Renumbered(int32_t offset) {
    code_offset = offset;
  }
  ~Renumbered() {
    code_offset = 0;
  }
};

} // namespace workbook::chapter_02

#define NEXT(name)         \
  static const auto next = \
      reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name))

extern "C" {

#define CODE(name)                                     \
  int32_t name() {                                     \
    NEXT(name);                                        \
    return next() + workbook::chapter_02::code_offset; \
  }
CODE(aoti_torch_dtype_uint8)
CODE(aoti_torch_dtype_int8)
CODE(aoti_torch_dtype_int16)
CODE(aoti_torch_dtype_int32)
CODE(aoti_torch_dtype_int64)
CODE(aoti_torch_dtype_uint16)
CODE(aoti_torch_dtype_uint32)
CODE(aoti_torch_dtype_uint64)
CODE(aoti_torch_dtype_float16)
CODE(aoti_torch_dtype_float32)
CODE(aoti_torch_dtype_float64)
CODE(aoti_torch_dtype_bfloat16)
CODE(aoti_torch_dtype_bool)
CODE(aoti_torch_dtype_complex32)
CODE(aoti_torch_dtype_complex64)
CODE(aoti_torch_dtype_complex128)
CODE(aoti_torch_dtype_float8_e5m2)
CODE(aoti_torch_dtype_float8_e4m3fn)
CODE(aoti_torch_dtype_float8_e5m2fnuz)
CODE(aoti_torch_dtype_float8_e4m3fnuz)
CODE(aoti_torch_layout_strided)
CODE(aoti_torch_layout_sparse_coo)
CODE(aoti_torch_layout_sparse_csr)
CODE(aoti_torch_layout_sparse_csc)
CODE(aoti_torch_layout_sparse_bsr)
CODE(aoti_torch_layout_sparse_bsc)
CODE(aoti_torch_layout__mkldnn)
CODE(aoti_torch_layout_jagged)
CODE(aoti_torch_memory_format_contiguous_format)
CODE(aoti_torch_memory_format_preserve_format)
CODE(aoti_torch_memory_format_channels_last)
CODE(aoti_torch_memory_format_channels_last_3d)
CODE(aoti_torch_device_type_cpu)
CODE(aoti_torch_device_type_cuda)
CODE(aoti_torch_device_type_meta)
CODE(aoti_torch_device_type_xpu)
CODE(aoti_torch_device_type_mps)
CODE(aoti_torch_device_type_privateuse1)

} // extern "C"
