// The rows for x86-64-v3: AVX2, FMA and F16C. Compiled with -march=x86-64-v3.
#if defined(__x86_64__)
#include "rows_of_level.h"

const Level level_v3 = make_level("v3");
#endif
