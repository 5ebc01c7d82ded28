// Keeps the library within manylinux_2_28 when it is built by a compiler newer
// than that. Each line takes the place of a symbol that such a system lacks.
#include <sstream>

//! [portable]
// TODO(08.3): what is still too new, defined here.
//! [portable]
