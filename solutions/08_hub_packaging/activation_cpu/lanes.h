// The lanes of this file's instruction set: F for 16-bit dtypes, and D,
// doubles, for float, so that every result is rounded once. All of it is
// internal: what two files compile for two machines must not be shared by the
// linker.
#pragma once

#define INLINE [[gnu::always_inline]] inline

#if defined(__AVX512F__)
#include "lanes_avx512.h"
#elif defined(__AVX2__)
#include "lanes_avx2.h"
#else
#include "lanes_portable.h"
#endif
