// The macros of kernel-builder's registration.h, for builds without it. It
// writes its own in place of this file, so the names and what they expand are
// the same: each expands its NAME first.
#pragma once

#include <torch/csrc/stable/library.h>

#include <cstdint>

#ifndef TORCH_EXTENSION_NAME
#error "TORCH_EXTENSION_NAME is the id of the build: see package.py"
#endif

#define STABLE_TORCH_LIBRARY_EXPAND(NAME, MODULE) \
  STABLE_TORCH_LIBRARY(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(NAME, KEY, MODULE) \
  STABLE_TORCH_LIBRARY_IMPL(NAME, KEY, MODULE)

// Python's C API as far as a module needs it. It is part of Python's stable ABI
// since 3.2; declared here, so that no Python.h has to be found.
extern "C" {
struct PyObject;
struct PyModuleDef {
  intptr_t reference_count; // 1: the definition is static
  void* base[4];
  const char* name;
  const char* doc;
  intptr_t size; // of a state for each interpreter; -1: one for all
  void* rest[5];
};
PyObject* PyModule_Create2(PyModuleDef*, int python_abi);
}

// NOLINTBEGIN(bugprone-macro-parentheses)
//! [module]
// What `import NAME` looks for in NAME.abi3.so. The module is empty: the ops
// were registered when the library was loaded.
// TODO(08.1): PyInit_NAME, exported, which creates an empty module.
#define PYTHON_MODULE(NAME)
#define REGISTER_EXTENSION(NAME) PYTHON_MODULE(NAME) // NAME is a macro
//! [module]
// NOLINTEND(bugprone-macro-parentheses)
