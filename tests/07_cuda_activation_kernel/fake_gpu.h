// A GPU that is not there. The test executable has the functions of the CUDA
// run time and of libtorch that a launch needs, and they note what is asked of
// them: on which device and stream, with how many threads. Nothing runs. It is
// as strict as CUDA may be: a kernel that is not loaded yet cannot be launched
// while a graph is captured, unless the thread has asked for the relaxed mode.
// Tensors are on the CPU and, while a Pretend lives, say that they are on its
// device.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/util/shim_utils.h>

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace pretend {

struct Launch {
  const void* kernel;
  uint64_t blocks;
  uint64_t threads; // in a block
  int device;       // the current one
  void* stream;
};

constexpr int kGlobal = 0, kRelaxed = 2; // modes of stream capture
constexpr std::array<int, 2> kMultiprocessors = {132, 58}; // of each device

struct State {
  bool on = false;
  bool seen = false;      // the library under test uses this run time
  int home = 1;           // where tensors are
  int device = 0;         // the current one
  int turn = 0;           // how often PyTorch has taken another stream
  bool no_stream = false; // libtorch cannot say which is current
  int error = 0;          // what cudaGetLastError gives next
  int fail_next = 0;      // what the next launch makes of it
  int forbidden = 0;      // calls that wait or allocate
  int mode = kGlobal;     // of this thread
  bool capturing = false;
  // The current streams are PyTorch's default ones: CUDA's null stream.
  bool default_stream = false;
  std::array<int, 2> asked{};               // how often for its multiprocessors
  std::set<const void*> loaded;             // kernels
  std::map<const void*, std::string> names; // as the compiler mangles them
  uint64_t blocks = 0, threads = 0; // of the last launch, were it refused
  std::vector<Launch> launches;
  // Told of each, with the kernel's arguments.
  std::function<void(const Launch&, void** arguments)> compute;
  // Where the tensors of some data are that are not at home; -1: the CPU.
  std::map<const void*, int> elsewhere;
  // Kernels by dispatch key and name, as they were registered.
  std::map<TorchLibraryHandle, std::string> keys;
  std::map<std::string, void (*)(StableIValue*, uint64_t, uint64_t)> kernels;
};
inline State& state() {
  static State state;
  return state;
}

// The current one, by an address of more than 32 bits, as CUDA's have.
inline void* stream_of(int device) {
  const auto number = static_cast<unsigned>(16 * state().turn + device);
  return state().default_stream
      ? nullptr
      : reinterpret_cast<void*>(uintptr_t{0x7f0000005000} + number);
}

template <class Function>
Function* real(Function*, const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  if (found == nullptr) {
    throw std::runtime_error(std::string("libtorch has no ") + name);
  }
  return found;
}
#define REAL(name) pretend::real(&name, #name)

// The real function of the CUDA run time if libtorch calls, else nullptr: built
// for CUDA it registers its own kernels with the run time when it is loaded.
template <class Function>
Function* of_torch(Function*, const char* name, const void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0) {
    return nullptr;
  }
  const std::string file = info.dli_fname;
  const std::string library = file.substr(file.rfind('/') + 1);
  if (library.rfind("libtorch", 0) != 0 && library.rfind("libc10", 0) != 0 &&
      file.find("/nvidia/") == std::string::npos) {
    return nullptr;
  }
  void* const its = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(its ? dlsym(its, name) : nullptr);
}
#define PASS_ON_FOR_TORCH(name, ...)                                     \
  if (auto* const real = pretend::of_torch(                              \
          &name,                                                         \
          #name,                                                         \
          __builtin_extract_return_addr(__builtin_return_address(0)))) { \
    return real(__VA_ARGS__);                                            \
  }

// While it lives, the tensors are on one device, and another may be current.
struct Pretend {
  explicit Pretend(int home = 1, int current = 0) {
    state().on = true;
    state().home = home;
    state().device = current;
    state().turn = 0;
    state().default_stream = state().no_stream = false;
    state().error = state().fail_next = state().forbidden = 0;
    state().mode = kGlobal;
    state().capturing = false;
    state().blocks = state().threads = 0;
    state().launches.clear();
  }
  ~Pretend() {
    state().on = false;
    state().compute = nullptr;
    state().elsewhere.clear();
  }
};

} // namespace pretend

// --- libtorch ----------------------------------------------------------------

extern "C" {

AOTITorchError aoti_torch_library_init_impl(
    const char* ns,
    const char* key,
    const char* file,
    uint32_t line,
    TorchLibraryHandle* made) {
  const auto code =
      REAL(aoti_torch_library_init_impl)(ns, key, file, line, made);
  pretend::state().keys[*made] = key;
  return code;
}

AOTITorchError torch_library_impl(
    TorchLibraryHandle self,
    const char* name,
    void (*kernel)(StableIValue*, uint64_t, uint64_t),
    uint64_t version) {
  auto& state = pretend::state();
  state.kernels[state.keys[self] + " " + name] = kernel;
  return REAL(torch_library_impl)(self, name, kernel, version);
}

// The index of the device that is pretended, or -1.
static int pretended(AtenTensorHandle tensor) {
  auto& state = pretend::state();
  void* data = nullptr;
  if (!state.on || aoti_torch_get_data_ptr(tensor, &data) != 0) {
    return -1;
  }
  const auto found = state.elsewhere.find(data);
  return found == state.elsewhere.end() ? state.home : found->second;
}
AOTITorchError aoti_torch_get_device_type(
    AtenTensorHandle tensor, int32_t* type) {
  if (pretended(tensor) >= 0) {
    *type = aoti_torch_device_type_cuda();
    return TORCH_SUCCESS;
  }
  return REAL(aoti_torch_get_device_type)(tensor, type);
}
AOTITorchError aoti_torch_get_device_index(
    AtenTensorHandle tensor, int32_t* index) {
  if (const int device = pretended(tensor); device >= 0) {
    *index = device;
    return TORCH_SUCCESS;
  }
  return REAL(aoti_torch_get_device_index)(tensor, index);
}

// Both kinds of guard, each remembering the device that was current before.
AOTITorchError aoti_torch_create_device_guard(
    int32_t index, DeviceGuardHandle* made) {
  *made = reinterpret_cast<DeviceGuardHandle>(new int(pretend::state().device));
  pretend::state().device = index;
  return TORCH_SUCCESS;
}
AOTITorchError aoti_torch_device_guard_set_index(
    DeviceGuardHandle, int32_t index) {
  pretend::state().device = index;
  return TORCH_SUCCESS;
}
AOTITorchError aoti_torch_get_current_device_index(int32_t* index) {
  *index = pretend::state().device;
  return TORCH_SUCCESS;
}
AOTITorchError aoti_torch_delete_device_guard(DeviceGuardHandle guard) {
  auto* const before = reinterpret_cast<int*>(guard);
  pretend::state().device = *before;
  delete before;
  return TORCH_SUCCESS;
}

// As the number of a stream PyTorch has another value than the stream itself.
AOTITorchError aoti_torch_get_current_stream(
    int32_t index, StreamHandle* made) {
  if (pretend::state().no_stream) {
    return TORCH_FAILURE;
  }
  *made = reinterpret_cast<StreamHandle>(new int(index));
  return TORCH_SUCCESS;
}
AOTITorchError aoti_torch_delete_stream(StreamHandle stream) {
  delete reinterpret_cast<int*>(stream);
  return TORCH_SUCCESS;
}
AOTITorchError aoti_torch_stream_id(StreamHandle, int64_t* id) {
  *id = 3;
  return TORCH_SUCCESS;
}
__attribute__((visibility("default"))) AOTITorchError
torch_stream_native_handle(StreamHandle stream, void** native) {
  *native = pretend::stream_of(*reinterpret_cast<int*>(stream));
  return TORCH_SUCCESS;
}
__attribute__((visibility("default"))) AOTITorchError
aoti_torch_get_current_cuda_stream(int32_t index, void** stream) {
  if (pretend::state().no_stream) {
    return TORCH_FAILURE;
  }
  *stream = pretend::stream_of(index);
  return TORCH_SUCCESS;
}

// --- the CUDA run time -------------------------------------------------------

#define EXPORTED __attribute__((visibility("default")))

struct Dim3 {
  unsigned x, y, z;
};
static struct {
  Dim3 grid, block;
  void* stream;
} configuration;

EXPORTED void** __cudaRegisterFatBinary(void* binary) {
  PASS_ON_FOR_TORCH(__cudaRegisterFatBinary, binary)
  static void* handle = nullptr;
  pretend::state().seen = true;
  return &handle;
}
EXPORTED void __cudaRegisterFatBinaryEnd(void** handle){
    PASS_ON_FOR_TORCH(__cudaRegisterFatBinaryEnd, handle)} EXPORTED
    void __cudaUnregisterFatBinary(void** handle){
        PASS_ON_FOR_TORCH(__cudaUnregisterFatBinary, handle)} EXPORTED
    char __cudaInitModule(void** handle) {
  PASS_ON_FOR_TORCH(__cudaInitModule, handle)
  return 1;
}
EXPORTED void __cudaRegisterFunction(
    void** handle,
    const char* kernel,
    char* device,
    const char* name,
    int limit,
    void* tid,
    void* bid,
    void* block,
    void* grid,
    int* warp) {
  PASS_ON_FOR_TORCH(
      __cudaRegisterFunction,
      handle,
      kernel,
      device,
      name,
      limit,
      tid,
      bid,
      block,
      grid,
      warp)
  pretend::state().names[kernel] = name;
}

EXPORTED int cudaLaunchKernel(
    const void* kernel,
    Dim3 grid,
    Dim3 block,
    void** arguments,
    size_t,
    void* stream) {
  auto& state = pretend::state();
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  state.blocks = blocks;
  state.threads = threads;
  const bool may_load = !state.capturing || state.mode == pretend::kRelaxed;
  const bool loaded = state.loaded.count(kernel) != 0 || may_load;
  const bool possible = blocks > 0 && threads > 0 && threads <= 1024 &&
      grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535;
  const int error = !loaded ? 900 : possible ? state.fail_next : 9;
  state.fail_next = 0;
  if (error != 0) {
    state.error = error;
    return error;
  }
  state.loaded.insert(kernel);
  state.launches.push_back({kernel, blocks, threads, state.device, stream});
  if (state.compute) {
    state.compute(state.launches.back(), arguments);
  }
  return 0;
}
struct LaunchConfig { // cudaLaunchConfig_t
  Dim3 grid, block;
  size_t shared;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};
EXPORTED int cudaLaunchKernelExC(
    const LaunchConfig* config, const void* kernel, void** arguments) {
  return cudaLaunchKernel(
      kernel,
      config->grid,
      config->block,
      arguments,
      config->shared,
      config->stream);
}
EXPORTED int cudaThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(pretend::state().mode, *mode);
  return 0;
}
EXPORTED int __cudaLaunchKernel(
    void* kernel,
    Dim3 grid,
    Dim3 block,
    void** arguments,
    size_t shared,
    void* stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
EXPORTED int __cudaGetKernel(void** kernel, const void* function) {
  *kernel = const_cast<void*>(function);
  return 0;
}
EXPORTED unsigned __cudaPushCallConfiguration(
    Dim3 grid, Dim3 block, size_t, void* stream) {
  configuration = {grid, block, stream};
  return 0;
}
EXPORTED int __cudaPopCallConfiguration(
    Dim3* grid, Dim3* block, size_t* shared, void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = 0;
  *static_cast<void**>(stream) = configuration.stream;
  return 0;
}
EXPORTED int cudaGetLastError() {
  PASS_ON_FOR_TORCH(cudaGetLastError, )
  return std::exchange(pretend::state().error, 0);
}
EXPORTED int cudaPeekAtLastError() {
  PASS_ON_FOR_TORCH(cudaPeekAtLastError, )
  return pretend::state().error;
}
EXPORTED const char* cudaGetErrorString(int error) {
  return error == 0  ? "no error"
      : error == 2   ? "out of memory"
      : error == 9   ? "invalid configuration argument"
      : error == 98  ? "invalid device function"
      : error == 900 ? "operation not permitted when stream is capturing"
                     : "unspecified launch failure";
}
EXPORTED const char* cudaGetErrorName(int error) {
  return cudaGetErrorString(error);
}
EXPORTED int cudaGetDevice(int* device) {
  PASS_ON_FOR_TORCH(cudaGetDevice, device)
  *device = pretend::state().device;
  return 0;
}
EXPORTED int cudaSetDevice(int device) {
  PASS_ON_FOR_TORCH(cudaSetDevice, device)
  pretend::state().device = device;
  return 0;
}
EXPORTED int cudaGetDeviceCount(int* count) {
  PASS_ON_FOR_TORCH(cudaGetDeviceCount, count)
  *count = static_cast<int>(pretend::kMultiprocessors.size());
  return 0;
}
EXPORTED int cudaDeviceGetAttribute(int* value, int what, int device) {
  PASS_ON_FOR_TORCH(cudaDeviceGetAttribute, value, what, device)
  const auto i = static_cast<size_t>(device);
  ++pretend::state().asked.at(i);
  *value = pretend::kMultiprocessors.at(i); // if that is asked
  return 0;
}
#define FORBIDDEN(name)           \
  EXPORTED int name() {           \
    ++pretend::state().forbidden; \
    return 0;                     \
  }
FORBIDDEN(cudaDeviceSynchronize)
FORBIDDEN(cudaStreamSynchronize)
FORBIDDEN(cudaEventSynchronize)
FORBIDDEN(cudaMalloc)
FORBIDDEN(cudaMallocAsync)
FORBIDDEN(cudaMemcpy)
FORBIDDEN(cudaFree)

} // extern "C"
