#include "ending.h"

#include "blocks.h"
#include "frames.h"
#include "report.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace workbook::trace {

namespace {

// Set before any constructor runs, for the first calls come before ours.
std::atomic<bool> watched{false};
std::atomic<bool> looked{false};

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
template <typename Function>
Function* in_python(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

using Destructor = void(void*);
using AtExit = int(Destructor*, void*, void*);

void look_once(void*) {
  if (!looked.exchange(true)) {
    look_before_end(__builtin_frame_address(0));
  }
}

// The C library calls last what came first: this comes after each other one, so
// that it is called before them.
void look_before(AtExit* at_exit, void* library) {
  if (watched.load(std::memory_order_relaxed) && !Busy::now()) {
    at_exit(&look_once, nullptr, library);
  }
}

struct PythonMethod { // PyMethodDef
  const char* name;
  void* (*function)(void*, void*);
  int flags;
  const char* text;
};

void* look_in_python(void*, void*) {
  look_before_end(__builtin_frame_address(0));
  return in_python<void*(const char*, ...)>("Py_BuildValue")(""); // None
}

// Python destroys what it holds before the C library hears of the end.
int ask_python(void*) {
  static PythonMethod method{"look_before_end", &look_in_python, 4, nullptr};
  auto* const import = in_python<void*(const char*)>("PyImport_ImportModule");
  auto* const make =
      in_python<void*(PythonMethod*, void*, void*)>("PyCFunction_NewEx");
  auto* const call = in_python<void*(void*, const char*, const char*, ...)>(
      "PyObject_CallMethod");
  auto* const clear = in_python<void()>("PyErr_Clear");
  if (import == nullptr || make == nullptr || call == nullptr ||
      clear == nullptr) {
    return 0;
  }
  void* const atexit = import("atexit");
  void* const function = make(&method, nullptr, nullptr);
  if (atexit == nullptr || function == nullptr ||
      call(atexit, "register", "O", function) == nullptr) {
    clear();
  }
  return 0;
}

// The summary of a process that ends without its destructors. What a signal
// has interrupted may hold any lock, and what was forked by vfork has its
// parent's memory: those have none.
void end_at_once() {
  if (watched.load(std::memory_order_relaxed) && is_own_process() &&
      !is_in_signal_handler()) {
    end_process(__builtin_frame_address(0));
  }
}

} // namespace

void watch_end() {
  static const bool first = [] {
    watched = true;
    next<AtExit>("__cxa_atexit")(&look_once, nullptr, nullptr);
    auto* const runs = in_python<int()>("Py_IsInitialized");
    auto* const ask =
        in_python<int(int (*)(void*), void*)>("Py_AddPendingCall");
    return runs != nullptr && ask != nullptr && runs() != 0 &&
        ask(&ask_python, nullptr) == 0;
  }();
  (void)first;
}

} // namespace workbook::trace

using namespace workbook::trace;

#define VISIBLE __attribute__((visibility("default")))

extern "C" {

VISIBLE int __cxa_atexit(Destructor* destroy, void* object, void* library) {
  static auto* const real = next<AtExit>("__cxa_atexit");
  const int code = real(destroy, object, library);
  look_before(real, nullptr);
  return code;
}

// Of thread_local objects; those of the first thread go at the very beginning.
extern void* __dso_handle;
VISIBLE int __cxa_thread_atexit_impl(
    Destructor* destroy, void* object, void* library) {
  static auto* const real = next<AtExit>("__cxa_thread_atexit_impl");
  const int code = real(destroy, object, library);
  if (syscall(SYS_gettid) == getpid()) {
    look_before(real, &__dso_handle);
  }
  return code;
}

[[noreturn]] VISIBLE void _exit(int status) {
  static auto* const real = next<void(int)>("_exit");
  end_at_once();
  real(status);
  __builtin_unreachable();
}

[[noreturn]] VISIBLE void _Exit(int status) {
  _exit(status);
}

[[noreturn]] VISIBLE void quick_exit(int status) noexcept {
  static auto* const real = next<void(int)>("quick_exit");
  end_at_once();
  real(status);
  __builtin_unreachable();
}

} // extern "C"
