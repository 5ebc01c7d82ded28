// Keeps the library within manylinux_2_28 when it is built by a compiler newer
// than that. Each line takes the place of a symbol that such a system lacks.
#include <sstream>

//! [portable]
// Since GCC 9 libstdc++ exports the constructors that the stable headers' error
// texts use (GLIBCXX_3.4.26). Copies of our own need nothing from outside.
template std::basic_ostringstream<char>::basic_ostringstream();
template std::basic_stringstream<char>::basic_stringstream();

// glibc 2.32's flag "there is one thread", which shared_ptr asks. 0 means: do
// not rely on it, and count atomically.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}
//! [portable]
