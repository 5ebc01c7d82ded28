// What would crash, write to stderr or set a static for good, tried in a child
// process. Fork before libtorch's threads run, and start no parallel op in the
// child: OpenMP's threads are not there. The child reports no leaks.
#pragma once

#include <functional>
#include <string>
#include <type_traits>

namespace workbook {

class GuardedStack;

namespace detail {

std::string text_in_child(
    const std::function<std::string()>& f, const GuardedStack* stack);

} // namespace detail

// What `f` returns in a child, "returned" if that is nothing; else how the
// child ended: "threw: ...", "SIGSEGV", and "SIGSEGV at slot 1 of a stack of 1"
// where that is beyond the end of `stack`.
template <typename F>
std::string in_child(const F& f, const GuardedStack* stack = nullptr) {
  if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
    const auto returned = [&f] {
      f();
      return std::string("returned");
    };
    return detail::text_in_child(returned, stack);
  } else {
    return detail::text_in_child(f, stack);
  }
}

// How a child ended: by a signal, or with an exit status if `signal` is 0.
struct Ending {
  int signal;
  int status;
  std::string text; // what it wrote to stderr
};

// Calls `f` in a child. An exception that leaves `f` ends the child as one does
// that leaves a static initialiser.
Ending ending_in_child(const std::function<void()>& f);

} // namespace workbook
