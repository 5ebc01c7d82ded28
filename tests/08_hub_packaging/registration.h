// In place of the header that kernel-builder writes over the package's own: the
// same macros, and no other.
#pragma once

#include <Python.h>

#define CONCAT_(A, B) A##B
#define CONCAT(A, B) CONCAT_(A, B)
#define STRINGIFY_(A) #A
#define STRINGIFY(A) STRINGIFY_(A)

#define STABLE_TORCH_LIBRARY_EXPAND(NAME, MODULE) \
  STABLE_TORCH_LIBRARY(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(NAME, KEY, MODULE) \
  STABLE_TORCH_LIBRARY_IMPL(NAME, KEY, MODULE)

#define REGISTER_EXTENSION(NAME)           \
  PyMODINIT_FUNC CONCAT(PyInit_, NAME)() { \
    static PyModuleDef module = {          \
        PyModuleDef_HEAD_INIT,             \
        STRINGIFY(NAME),                   \
        nullptr,                           \
        0,                                 \
        nullptr,                           \
        nullptr,                           \
        nullptr,                           \
        nullptr,                           \
        nullptr};                          \
    return PyModule_Create(&module);       \
  }
