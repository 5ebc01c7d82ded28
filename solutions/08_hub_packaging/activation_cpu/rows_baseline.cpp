// The rows for every machine: what the compiler's own target is.
#include "rows_of_level.h"

const Level level_baseline = make_level("baseline");
