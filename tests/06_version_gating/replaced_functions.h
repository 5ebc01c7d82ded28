// The functions that a test puts in place of those that the library under test
// calls: another version, a failure, an accelerator that is not there.
#pragma once

#include "abi/torch_stable_abi/trace/slots.h"
#include "libraries.h"
#include "testing/aten.h"
#include "testing/child.h"
#include "testing/dispatcher.h"
#include "testing/meeting.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <string>

namespace workbook::chapter_06 {

// The version that get_running_version() returns in place of libtorch's own.
inline uint64_t running = 0;
inline uint64_t get_running_version() {
  return running;
}

inline std::string hex(int64_t handle) {
  return slots::hex(static_cast<StableIValue>(handle));
}

// These replace the library's operator new[] and delete[]. A second deletion of
// the same buffer is counted and does no harm.
inline std::map<void*, size_t> buffers;
inline int allocated = 0, deleted = 0;
inline constexpr int64_t kDeleted = -1; // the numbers in a deleted buffer
inline void* count_allocation(size_t bytes) {
  ++allocated;
  return buffers.emplace(::operator new[](bytes), bytes).first->first;
}
inline void count_deletion(void* address) {
  ++deleted;
  const auto found = buffers.find(address);
  if (found != buffers.end()) {
    std::memset(address, 0xff, found->second);
    buffers.erase(found);
    ::operator delete[](address);
  }
}

// These replace each function that from_blob may call. An op that fails has
// consumed its arguments all the same.
inline AOTITorchError fail() {
  return TORCH_FAILURE;
}
inline AOTITorchError fail_in_op(
    const char* op, const char* overload, StableIValue* stack, uint64_t build) {
  const bool copies = std::string(op) == "aten::copy_";
  if (!copies && std::string(op) != "aten::clone") {
    return torch_call_dispatcher(op, overload, stack, build);
  }
  slots::release("Tensor", stack[0]);
  slots::release(copies ? "Tensor" : "MemoryFormat?", stack[1]);
  return TORCH_FAILURE;
}

// Returns "" unless two threads that call at the same time fill one array of
// slots.
inline std::string check_threads(
    const std::function<void(const Library&)>& act) {
  for (const Library& library : libraries()) {
    if (library.inside == nullptr) {
      continue;
    }
    const std::string ended = in_child([&] {
      const CapturedStderr quiet;
      const Meeting meeting =
          Meeting::of(library.inside, [&] { act(library); });
      const auto& stacks = meeting.stacks;
      return stacks.size() == 2 && stacks[0] == stacks[1]
          ? "two threads that call at the same time have one array of slots"
          : std::string();
    });
    if (!ended.empty()) {
      return ended.rfind("two ", 0) == 0
          ? ended
          : "calls at the same time in two threads crash: " + ended;
    }
  }
  return "";
}

// The version that the library gave torch_call_dispatcher last.
inline uint64_t given_to_call = 0;
inline AOTITorchError record_call(
    const char* op, const char* overload, StableIValue* stack, uint64_t build) {
  given_to_call = build;
  return torch_call_dispatcher(op, overload, stack, build);
}

inline int64_t first_stream = 0; // the current stream of device 0
inline AOTITorchError get_cuda_stream(int32_t device, void** stream) {
  *stream = reinterpret_cast<void*>(first_stream + device);
  return device < 8 ? TORCH_SUCCESS : TORCH_FAILURE;
}

// This is CUDA's function in a PyTorch whose accelerator is another one.
inline AOTITorchError get_other_cuda_stream(int32_t, void** stream) {
  *stream = reinterpret_cast<void*>(0xc0da);
  return TORCH_SUCCESS;
}

// These are a machine with an accelerator, as the headers' Stream sees it.
inline int streams = 0;
inline AOTITorchError get_current_stream(int32_t device, StreamHandle* stream) {
  ++streams;
  *stream = reinterpret_cast<StreamHandle>(0xca110 + device);
  return TORCH_SUCCESS;
}
inline AOTITorchError get_native_handle(StreamHandle stream, void** handle) {
  *handle = reinterpret_cast<char*>(stream) - 0xca110 + first_stream;
  return TORCH_SUCCESS;
}
inline AOTITorchError get_stream_id(StreamHandle, int64_t* id) {
  *id = 3;
  return TORCH_SUCCESS;
}
inline AOTITorchError delete_stream(StreamHandle) {
  --streams;
  return TORCH_SUCCESS;
}

// blob_of() replaces what makes a tensor of a blob. It notes the device of the
// blob, and returns another tensor.
inline std::string blob_device;
inline std::string device_text(int64_t type, int64_t index) {
  return "type " + std::to_string(type) + ", index " + std::to_string(index);
}
inline AOTITorchError blob_of(
    void*,
    int64_t,
    const int64_t*,
    const int64_t*,
    int64_t,
    int32_t,
    int32_t type,
    int32_t index,
    AtenTensorHandle* out) {
  blob_device = device_text(type, index);
  return aoti_torch_new_tensor_handle(tensor<int64_t>({7}, {1}).get(), out);
}

} // namespace workbook::chapter_06
