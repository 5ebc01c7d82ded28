// A stack of slots that ends where an inaccessible page begins: who reads or
// writes one slot too many is stopped by the hardware. AddressSanitizer does
// not see it where the access is in libtorch, which is not instrumented.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace workbook {

class GuardedStack {
 public:
  explicit GuardedStack(size_t size) : size_(size) {
    void* pages = mmap(
        nullptr,
        2 * kPage,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS,
        -1,
        0);
    if (pages == MAP_FAILED || size * sizeof(StableIValue) > kPage) {
      throw std::bad_alloc();
    }
    guard_ = static_cast<char*>(pages) + kPage;
    mprotect(guard_, kPage, PROT_NONE);
  }
  ~GuardedStack() {
    munmap(guard_ - kPage, 2 * kPage);
  }
  GuardedStack(const GuardedStack&) = delete;
  GuardedStack& operator=(const GuardedStack&) = delete;

  StableIValue* data() const {
    return reinterpret_cast<StableIValue*>(guard_) - size_;
  }
  StableIValue& operator[](size_t i) const {
    return data()[i];
  }
  size_t size() const {
    return size_;
  }

  // The slot at `address`, if that lies in the inaccessible page; else -1.
  long slot_beyond(const void* address) const {
    const auto offset = static_cast<const char*>(address) - guard_;
    return offset < 0 || offset >= static_cast<long>(kPage)
        ? -1
        : static_cast<long>(size_) + offset / 8;
  }

 private:
  static constexpr size_t kPage = 65536; // a multiple of every page size
  size_t size_;
  char* guard_ = nullptr;
};

namespace guarded_stack_detail {

inline const GuardedStack* stack = nullptr;
inline int report = -1;

inline void say(const std::string& text) {
  (void)!write(report, text.data(), text.size());
}

inline void on_signal(int number, siginfo_t* info, void*) {
  const long slot = stack == nullptr ? -1 : stack->slot_beyond(info->si_addr);
  const char* name = number == SIGSEGV ? "SIGSEGV" : "a signal";
  say(slot < 0 ? std::string(name)
               : std::string(name) + " at slot " + std::to_string(slot) +
              " of a stack of " + std::to_string(stack->size()));
  _exit(1);
}

} // namespace guarded_stack_detail

// Runs `call` in a process of its own and says how it ended: "returned",
// "threw:
// ...", "SIGSEGV at slot 1 of a stack of 1", "SIGSEGV" elsewhere. `stack` is
// the one to which an address is compared. Not after a parallel op: a fork
// of OpenMP's threads hangs.
template <class Call>
std::string in_child(const Call& call, const GuardedStack* stack = nullptr) {
  namespace detail = guarded_stack_detail;
  int ends[2];
  if (pipe(ends) != 0) {
    return "no pipe";
  }
  const pid_t child = fork();
  if (child == 0) {
    detail::stack = stack;
    detail::report = ends[1];
    struct sigaction action = {};
    action.sa_sigaction = &detail::on_signal;
    action.sa_flags = SA_SIGINFO;
    for (const int number : {SIGSEGV, SIGBUS, SIGABRT}) {
      sigaction(number, &action, nullptr);
    }
    try {
      call();
      detail::say("returned");
    } catch (const std::exception& error) {
      detail::say(std::string("threw: ") + error.what());
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return text.empty() ? "ended with status " + std::to_string(status) : text;
}

} // namespace workbook
