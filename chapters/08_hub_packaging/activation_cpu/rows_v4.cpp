// The rows for x86-64-v4: AVX-512. Compiled with -march=x86-64-v4.
#if defined(__x86_64__)
#include "rows_of_level.h"

const Level level_v4 = make_level("v4");
#endif
