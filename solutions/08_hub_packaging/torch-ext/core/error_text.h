// Why a call of libtorch failed. Since 2.13 a function of libtorch tells. It is
// not even declared weak here, as in an extension that is not for the Hub: the
// checker of the Hub takes the name for a need of 2.13.
#pragma once

#include <string>

namespace wb {

inline std::string error_text() {
  return "the call failed (libtorch before 2.13 wrote the reason to stderr)";
}

} // namespace wb
