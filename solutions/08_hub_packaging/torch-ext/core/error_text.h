// Why a call of libtorch failed. Since 2.13 a function of libtorch tells. Other
// extensions declare it weak. This one does not: the Hub's checker takes even a
// weak name for a need of 2.13.
#pragma once

#include <string>

namespace wb {

inline std::string error_text() {
  return "the call failed (libtorch before 2.13 wrote the reason to stderr)";
}

} // namespace wb
