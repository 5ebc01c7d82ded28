"""The code of libraries to audit: right ones, and some with one fault each."""

from torch_stable_abi.libtorch.installed import torch_root

ID = "_one_cpu_0123456"  # of a Hub variant
STABLE = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/csrc/stable/ops.h>
using torch::stable::Tensor;
Tensor twice(Tensor x) { return torch::stable::subtract(x, x, -1); }
STABLE_TORCH_LIBRARY(audited, m) { m.def("twice(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(audited, CPU, m) { m.impl("twice", TORCH_BOX(&twice)); }
"""
UNSTABLE = ("#include <c10/util/Exception.h>\n"
            "void f(int n) { TORCH_CHECK(n > 0, n); }")
MODULE = """
extern "C" void* PyModule_Create2(void*, int);
extern "C" __attribute__((visibility("default"))) void* PyInit_%s() {
  return PyModule_Create2(nullptr, 0);
}
"""
SHIM = 'extern "C" %s int %s(void*); int call() { return %s ? %s(nullptr) : 0; }'

DELETE = SHIM % ("", "torch_delete_list", 1, "torch_delete_list")
FAULTS = {  # what is said: the code, and options; None: not linked to libtorch
    "RPATH of the machine": (DELETE, "-Wl,-rpath,/home/builder"),
    "names no libtorch_cpu.so": (DELETE, None),
    "links to libtorch_python.so": (
        DELETE, f"-Wl,--no-as-needed,{torch_root()}/lib/libtorch_python.so"),
    "a CPU build of torch refuses it": (DELETE.replace(
        "torch_delete_list", "torch_c10_cuda_free_error_msg"),),
    "gnu-unique symbol": (
        "template <class T> struct S { static T x; }; template <class T> T S<T>::x;"
        "int* f() { return &S<int>::x; }",),
    "uses libc++": ("namespace std { namespace __1 { struct string {}; } }"
                    "void f(std::__1::string) {}",),
    "debug information": ("int f() { return 1; }", "-g"),
    "not of the limited API": ('extern "C" void* _PyLong_Sign(void*);'
                               "void* f() { return _PyLong_Sign(nullptr); }",),
    "the limited API of 3.11": ('extern "C" int PyBuffer_Release(void*);'
                                "int f() { return PyBuffer_Release(nullptr); }",),
    "torch.compile refuses an op that returns an argument, or": (
        'const char* f() { return "f_(Tensor(a!) x) -> Tensor(a!)"; }',),
    "anything but new tensors: g(Tensor(a!) x) -> Tensor[]": (
        'const char* f() { return "g(Tensor(a!) x) -> Tensor[]"; }',),
    "FAIL cannot-be-opened is marked so that dlopen refuses it": (
        "int f;", "-Wl,-z,nodlopen"),
    "FAIL cannot-be-opened is a program": ("int main() {}", "-pie", "-Wl,-E"),
    "FAIL static-tls has 4096 bytes of thread-local data": (
        "thread_local char t[4096]; char* f() { return t; }",
        "-ftls-model=initial-exec"),
    "warn hides-libtorch defines aoti_torch_get_numel itself": (
        'extern "C" int aoti_torch_get_numel(void*, long*) { return 1; }',),
    "warn names-no-libtorch takes torch_get_current_cuda_blas_handle of": (
        SHIM % (("", "torch_get_current_cuda_blas_handle", 1,
                 "torch_get_current_cuda_blas_handle")),),
    "warn rpath RPATH lib is sought in the current folder": (
        "int f;", "-Wl,-rpath,lib"),
    "FAIL instrumented was built with a sanitizer: it needs libasan": (
        "int f;", "-fsanitize=address"),
    "warn instrumented was built with --coverage or to be profiled: each process": (
        "int f() { return 1; }", "--coverage"),
    "warn fast-math was linked with -ffast-math": (  # as GCC 12 links crtfastmath.o
        'extern "C" { __attribute__((constructor)) static void set_fast_math() {} }',),
    "warn name-of-libc defines gamma": (
        'extern "C" double gamma(double x) { return x; } double f(double x) '
        "{ return gamma(x) + 1; }", "-fno-builtin"),
    "warn rpath RPATH '' is sought in the current folder": (
        "int f;", "-Wl,-rpath,:$ORIGIN"),
    "(an .S file without .note.GNU-stack, or a nested function": (
        "int f;", "-Wl,-z,execstack"),
    "21 C++ symbols": (" ".join(f"void f{n}() {{}}" for n in range(21)),),
}
