#include "frames.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace workbook::trace {

namespace {

struct Stack {
  const char* begin = nullptr;
  const char* end = nullptr;

  bool has(const void* address) const {
    return address >= begin && address < end;
  }
};

const Stack& stack_of_thread() {
  thread_local const Stack stack = [] {
    Stack found;
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      void* begin = nullptr;
      size_t size = 0;
      pthread_attr_getstack(&attributes, &begin, &size);
      pthread_attr_destroy(&attributes);
      found.begin = static_cast<const char*>(begin);
      found.end = found.begin + size;
    }
    return found;
  }();
  return stack;
}

bool is_mapped(uint64_t bits) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  return bits >= 65536 && bits >> 47 == 0 &&
      mincore(reinterpret_cast<void*>(bits & ~(page - 1)), 1, &resident) == 0;
}

// Returns the word at an address, or 0 if it cannot be read, as of a guard
// page, which is mapped. Where the system asks nobody, mapped is all that is
// known.
uint64_t read_word(uint64_t address) {
  uint64_t word = 0;
  const iovec here{&word, sizeof(word)};
  const iovec there{reinterpret_cast<void*>(address), sizeof(word)};
  if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof(word)) {
    return word;
  }
  return errno != EFAULT && is_mapped(address)
      ? *reinterpret_cast<const uint64_t*>(address)
      : 0;
}

// As malloc of the C library notes it before the block, and, that the block is
// in use, behind it. Where the array is not the whole block, the notes are of
// something else, and do not fit each other.
size_t room_on_heap(uint64_t array, size_t wanted) {
  const size_t asked =
      8 * slots_asked_for(reinterpret_cast<const void*>(array));
  if (asked != 0) {
    return std::min(asked, wanted);
  }
  const uint64_t block = read_word(array - 8);
  const uint64_t size = block & ~uint64_t{7};
  if (array % 16 != 0 || (block & 2) != 0 || size % 16 != 0 || size < 32 ||
      size - 8 >= wanted) {
    return wanted;
  }
  const uint64_t next = read_word(array - 8 + size);
  return (next & 1) != 0 && (next & ~uint64_t{7}) % 16 == 0 && next >= 32
      ? size - 8
      : wanted;
}

} // namespace

std::string no_heap_address(uint64_t bits) {
  // Pages that were seen to be of the heap, most of the time the same few.
  static std::atomic<uint64_t> known[1024];
  std::atomic<uint64_t>& page = known[bits >> 12 & 1023];
  const auto* address = reinterpret_cast<const void*>(bits);
  if (stack_of_thread().has(address)) {
    return "is an address on the stack";
  }
  if (is_address(bits) && page.load(std::memory_order_relaxed) == bits >> 12) {
    return "";
  }
  Dl_info info;
  if (is_mapped(bits) && dladdr(address, &info) != 0) {
    return "is an address in " + library_of(address);
  }
  if (!is_address(bits)) {
    return "is no address";
  }
  if (!is_mapped(bits)) {
    return "is an address of nothing";
  }
  page = bits >> 12;
  return "";
}

bool is_like_tensor(uint64_t bits) {
  const auto follow = [](uint64_t address) {
    return address % 8 == 0 ? read_word(address) : 0;
  };
  const auto is_in_library = [](uint64_t address) {
    Dl_info info;
    return address != 0 && dladdr(reinterpret_cast<void*>(address), &info) != 0;
  };
  const uint64_t table = follow(follow(bits));
  return is_in_library(table) && is_in_library(follow(table));
}

bool is_in_signal_handler() {
  bool found = false;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* data) {
        int before = 0; // the address is of what is to run next
        _Unwind_GetIPInfo(context, &before);
        *static_cast<bool*>(data) = *static_cast<bool*>(data) || before != 0;
        return _URC_NO_REASON;
      },
      &found);
  return found;
}

size_t room(const void* array, size_t wanted, const Caller& caller) {
  if (!stack_of_thread().has(array)) {
    return room_on_heap(reinterpret_cast<uint64_t>(array), wanted);
  }
  // Where the same array of the same caller had room, it has it again.
  struct Seen {
    const void* address = nullptr;
    ptrdiff_t offset = 0;
    size_t size = 0;
  };
  thread_local Seen seen[256];
  const auto offset =
      static_cast<const char*>(array) - static_cast<const char*>(caller.frame);
  Seen& last = seen
      [(reinterpret_cast<uintptr_t>(caller.address) ^
        static_cast<uintptr_t>(offset) >> 3) &
       255];
  if (last.address == caller.address && last.offset == offset &&
      last.size >= wanted) {
    return wanted;
  }
  struct Walk {
    const char* array;
    const char* end;
  } walk{static_cast<const char*>(array), nullptr};
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* data) {
        auto* walk = static_cast<Walk*>(data);
        const auto* frame =
            reinterpret_cast<const char*>(_Unwind_GetCFA(context));
        if (frame > walk->array) {
          walk->end = frame - sizeof(void*); // before the return address
          return _URC_END_OF_STACK;
        }
        return _URC_NO_REASON;
      },
      &walk);
  const size_t size =
      walk.end == nullptr ? wanted : static_cast<size_t>(walk.end - walk.array);
  if (size >= wanted) {
    last = {caller.address, offset, wanted};
  }
  return size < wanted ? size : wanted;
}

} // namespace workbook::trace
