// Which libraries call libtorch past the tracer.
#pragma once

#include <string>

namespace workbook::trace {

// Returns the name of a library of which a function of the C shim was bound to
// libtorch's own, as RTLD_DEEPBIND does; "" if there is none.
std::string find_untraced_library();

} // namespace workbook::trace
