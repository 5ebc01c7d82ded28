// The functions of the C shim, as programs find them with the tracer loaded
// before: each is libtorch's own, with a look at what passes.
#include "blocks.h"
#include "calls.h"
#include "faults.h"
#include "frames.h"
#include "report.h"

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/util/shim_utils.h>

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>

namespace workbook::trace {

namespace {

template <typename Function>
Function* real_of(Function*, const char* name) {
  void* const address = in_libtorch(name);
  if (address == nullptr) {
    std::fprintf(stderr, "trace: this libtorch has no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(address);
}

template <typename Handle>
constexpr Kind kind_of() {
  return std::is_same_v<Handle, AtenTensorHandle> ? Kind::kTensor
      : std::is_same_v<Handle, StringHandle>      ? Kind::kString
      : std::is_same_v<Handle, StableListHandle>  ? Kind::kList
      : std::is_same_v<Handle, StreamHandle>      ? Kind::kStream
      : std::is_same_v<Handle, C10IValueHandle>   ? Kind::kIValue
                                                  : Kind::kGuard;
}

// Returns whether no function takes this kind of block for a handle of another
// kind. A heap slot may be gone, where its release is not seen.
bool is_plain(Kind kind) {
  return kind == Kind::kTensor || kind == Kind::kString ||
      kind == Kind::kList || (kind == Kind::kHeapSlot && releases_are_seen());
}

// Returns whether it is libtorch's code, which uses what is in a slot that was
// looked at.
bool is_of_libtorch(const void* code) {
  return library_of(code) == "libtorch_cpu.so";
}

Fault describe_no_address(uint64_t handle) {
  if (const uint64_t behind = handle - kNothing; behind < kMostSlots) {
    return {
        Class::kError,
        "read-beyond",
        "slot " + std::to_string(behind) + ", behind the arguments"};
  }
  return {
      Class::kError,
      "bad-handle",
      handle == 0 ? "null" + describe_origin_of_null()
                  : hex(handle) + ", which is no address"};
}

void check_use(
    const char* function, const void* handle, Kind kind, const void* from) {
  Block block;
  const State state = look(handle, &block);
  const auto bits = reinterpret_cast<uint64_t>(handle);
  const bool dead = state == State::kDead && !block.told;
  const bool another = state == State::kAlive && block.kind != kind &&
      is_plain(block.kind) && is_plain(kind);
  if ((!dead && !another && is_address(bits)) || is_of_libtorch(from)) {
    return;
  }
  const Busy ours;
  const Op* const op = running_op();
  const std::string what = text_of(block.kind) + ", " + text_of(block.made);
  const std::string used =
      " by " + text_of({Role::kShim, op, function, 0, nullptr, from});
  const std::string name = op == nullptr ? "" : op->name;
  if (dead) {
    report_finding(
        {Class::kError,
         "used-after-release",
         what + ": used" + used + (op == nullptr ? ", after" : " after") +
             " it was released" + released_by(block),
         name});
  } else if (another) {
    report_finding(
        {Class::kError,
         "used-as-another",
         what + ": used as a " + text_of(kind) + "," + used,
         name});
  } else {
    const Fault fault = describe_no_address(bits);
    report_finding(
        {fault.of,
         fault.rule,
         fault.text + ": used as a " + text_of(kind) + "," + used,
         name});
  }
}

// Counts the call of a function, and looks at what it is given.
template <typename... Handles>
void check_uses(
    [[maybe_unused]] const char* function,
    [[maybe_unused]] const void* from,
    Handles... handles) {
  if (!Busy::now()) {
    count_shim();
    (check_use(function, handles, kind_of<Handles>(), from), ...);
  }
}

void note_shim_failure(const char* function) {
  if (!Busy::now()) {
    const Busy ours;
    note_failure(function);
  }
}

// Follows what a function gives, or notes that it fails.
template <typename... Handles>
AOTITorchError follow_made(
    const char* function,
    [[maybe_unused]] const void* from,
    AOTITorchError code,
    Handles*... handles) {
  [[maybe_unused]] const auto one = [&](auto* handle) {
    if (handle != nullptr && *handle != nullptr) {
      follow(
          *handle,
          kind_of<std::remove_pointer_t<decltype(handle)>>(),
          {Role::kShim, running_op(), function, 0, nullptr, from});
    }
  };
  if (code != TORCH_SUCCESS) {
    note_shim_failure(function);
  } else if (!Busy::now()) {
    (one(handles), ...);
  }
  return code;
}

template <typename Handle>
AOTITorchError release_by_shim(
    const char* function,
    const void* from,
    AOTITorchError (*real)(Handle),
    Handle handle) {
  if (Busy::now() || handle == nullptr) {
    return real(handle);
  }
  count_shim();
  Block block;
  const Place place{Role::kShim, running_op(), function, 0, nullptr, from};
  const State state = look(handle, &block);
  if (state == State::kDead) {
    on_second_release(handle, block, place);
    return TORCH_SUCCESS;
  }
  if (state == State::kAlive && block.kind != kind_of<Handle>()) {
    const Busy ours;
    mark_told(handle); // its loss follows from it
    report_finding(
        {Class::kError,
         "released-as-another",
         text_of(block.kind) + ", " + text_of(block.made) + ": released as a " +
             text_of(kind_of<Handle>()) + ", by " + text_of(place),
         place.op == nullptr ? "" : place.op->name});
    return TORCH_SUCCESS; // which would have destroyed something else
  }
  // Older libtorch releases what it was given by the same function.
  const bool given = state == State::kAlive &&
      (block.given.role == Role::kArgument ||
       block.given.role == Role::kReturn);
  set_releasing(given ? Place{Role::kLibtorch} : place);
  const AOTITorchError code = real(handle);
  set_releasing({});
  if (state == State::kAlive && look(handle) == State::kAlive) {
    forget(handle); // an allocator that does not tell
  }
  return code;
}

// Namespaces, of libraries that are being registered.
std::mutex mutex;
std::map<TorchLibraryHandle, std::string>& namespaces() {
  static auto* const namespaces = new std::map<TorchLibraryHandle, std::string>;
  return *namespaces;
}

AOTITorchError note_namespace(
    AOTITorchError code, const char* name, TorchLibraryHandle* library) {
  if (code == TORCH_SUCCESS) {
    count_shim();
    const Busy ours;
    const std::lock_guard<std::mutex> lock(mutex);
    namespaces()[*library] = name;
  }
  return code;
}

std::string namespace_of(TorchLibraryHandle library) {
  const std::lock_guard<std::mutex> lock(mutex);
  return namespaces()[library];
}

Kernel wrap_kernel(
    TorchLibraryHandle library, const char* name, Kernel kernel) {
  const Busy ours;
  const std::string op(name);
  return wrap(
      op.find("::") == std::string::npos ? namespace_of(library) + "::" + op
                                         : op,
      kernel);
}

} // namespace

void on_second_release(
    const void* address, const Block& block, const Place& again) {
  const Busy ours;
  if (block.told) {
    return;
  }
  mark_told(address);
  Place place = again;
  place.op = running_op();
  report_finding(
      {Class::kError,
       "released-twice",
       text_of(block.kind) + ", " + text_of(block.made) + ": released" +
           released_by(block) + ", and released again by " + text_of(place),
       place.op == nullptr ? "" : place.op->name});
}

} // namespace workbook::trace

using namespace workbook::trace;

#define REAL(name) static auto* const real = real_of(&name, #name)
#define CALLER __builtin_return_address(0)

extern "C" {

#include "wrapped.inc" // which wrapping.py writes

AOTITorchError torch_string_c_str(StringHandle handle, const char** data) {
  REAL(torch_string_c_str);
  check_uses("torch_string_c_str", CALLER, handle);
  if (!Busy::now()) {
    set_reading_string(handle);
  }
  return follow_made("torch_string_c_str", CALLER, real(handle, data));
}

AOTITorchError torch_delete_string(StringHandle handle) {
  REAL(torch_delete_string);
  if (!Busy::now()) {
    set_reading_string(nullptr);
  }
  return release_by_shim("torch_delete_string", CALLER, real, handle);
}

__attribute__((noinline)) AOTITorchError torch_call_dispatcher(
    const char* op,
    const char* overload,
    StableIValue* stack,
    uint64_t version) {
  REAL(torch_call_dispatcher);
  return call(op, overload, stack, {CALLER, __builtin_frame_address(0)}, [&] {
    return real(op, overload, stack, version);
  });
}

__attribute__((noinline)) AOTITorchError aoti_torch_call_dispatcher(
    const char* op, const char* overload, StableIValue* stack) {
  REAL(aoti_torch_call_dispatcher);
  return call(op, overload, stack, {CALLER, __builtin_frame_address(0)}, [&] {
    return real(op, overload, stack);
  });
}

// What its threads do is the kernel's that called it.
AOTITorchError torch_parallel_for(
    int64_t begin, int64_t end, int64_t grain, ParallelFunc f, void* ctx) {
  REAL(torch_parallel_for);
  struct Work {
    const Op* op;
    ParallelFunc f;
    void* ctx;
  } work{running_op(), f, ctx};
  const auto run = [](int64_t from, int64_t to, void* data) {
    const auto& work = *static_cast<const Work*>(data);
    const InKernel now(work.op);
    work.f(from, to, work.ctx);
  };
  check_uses("torch_parallel_for", CALLER);
  return follow_made(
      "torch_parallel_for", CALLER, real(begin, end, grain, run, &work));
}

AOTITorchError aoti_torch_library_init_def(
    const char* ns,
    const char* file,
    uint32_t line,
    TorchLibraryHandle* library) {
  REAL(aoti_torch_library_init_def);
  return note_namespace(real(ns, file, line, library), ns, library);
}

AOTITorchError aoti_torch_library_init_impl(
    const char* ns,
    const char* key,
    const char* file,
    uint32_t line,
    TorchLibraryHandle* library) {
  REAL(aoti_torch_library_init_impl);
  return note_namespace(real(ns, key, file, line, library), ns, library);
}

AOTITorchError aoti_torch_library_init_fragment(
    const char* ns,
    const char* file,
    uint32_t line,
    TorchLibraryHandle* library) {
  REAL(aoti_torch_library_init_fragment);
  return note_namespace(real(ns, file, line, library), ns, library);
}

AOTITorchError aoti_torch_library_def(
    TorchLibraryHandle library, const char* schema) {
  REAL(aoti_torch_library_def);
  define(namespace_of(library), schema);
  return real(library, schema);
}

AOTITorchError aoti_torch_library_impl(
    TorchLibraryHandle library, const char* name, Kernel kernel) {
  REAL(aoti_torch_library_impl);
  return real(library, name, wrap_kernel(library, name, kernel));
}

AOTITorchError torch_library_impl(
    TorchLibraryHandle library,
    const char* name,
    Kernel kernel,
    uint64_t version) {
  REAL(torch_library_impl);
  return real(library, name, wrap_kernel(library, name, kernel), version);
}

// Whoever throws has seen what failed. Compilers know the function themselves,
// each with types of its own, hence the label.
using Throw = void(void*, void*, void (*)(void*));
__attribute__((visibility("default")))
Throw throw_exception __asm__("__cxa_throw");
void throw_exception(void* exception, void* type, void (*destroy)(void*)) {
  static auto* const real =
      reinterpret_cast<Throw*>(dlsym(RTLD_NEXT, "__cxa_throw"));
  forget_failure();
  real(exception, type, destroy);
}

} // extern "C"
