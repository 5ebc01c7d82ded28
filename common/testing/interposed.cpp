// Functions of libtorch that a test program defines in their place: a call by
// name is shown to the Watch of its thread, what the ledger knows to be dead is
// not destroyed again, only counted, and kernels are noted as they are
// registered.
#include "watch.h"

#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/util/shim_utils.h>

#include <dlfcn.h>

namespace {

using namespace workbook;

// libtorch's own.
template <typename Function>
Function* next(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define NEXT(name) next(#name, &name)

template <typename Function, typename Handle>
AOTITorchError destroy(Function* real, Handle handle) {
  if (Ledger::deletions(handle) > 0) {
    Ledger::count_deletion(handle);
    return TORCH_SUCCESS;
  }
  return real(handle);
}

std::map<std::string, BoxedKernel>& kernels() {
  static std::map<std::string, BoxedKernel> kernels;
  return kernels;
}

} // namespace

BoxedKernel workbook::kernel_of(const std::string& op) {
  const auto found = kernels().find(op);
  return found == kernels().end() ? nullptr : found->second;
}

extern "C" {

AOTITorchError torch_library_impl(
    TorchLibraryHandle library,
    const char* op,
    BoxedKernel kernel,
    uint64_t version) {
  kernels().emplace(op, kernel);
  return NEXT(torch_library_impl)(library, op, kernel, version);
}

AOTITorchError torch_call_dispatcher(
    const char* op,
    const char* overload,
    StableIValue* stack,
    uint64_t version) {
  static auto* const real = NEXT(torch_call_dispatcher);
  Watch* const watch = Watch::current();
  if (watch == nullptr) {
    return real(op, overload, stack, version);
  }
  const Ledger::Pause pause;
  const std::string name =
      *overload == 0 ? std::string(op) : op + std::string(".") + overload;
  if (!watch->before_call(name, stack)) {
    return TORCH_FAILURE;
  }
  const auto code = [&] {
    const Ledger::Follow follow;
    return real(op, overload, stack, version);
  }();
  if (code == TORCH_SUCCESS) {
    watch->after_call(name, stack);
  }
  return code;
}

AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle handle) {
  static auto* const real = NEXT(aoti_torch_delete_tensor_object);
  return destroy(real, handle);
}

AOTITorchError torch_delete_string(StringHandle handle) {
  static auto* const real = NEXT(torch_delete_string);
  return destroy(real, handle);
}

AOTITorchError torch_delete_list(StableListHandle handle) {
  static auto* const real = NEXT(torch_delete_list);
  return destroy(real, handle);
}

} // extern "C"
