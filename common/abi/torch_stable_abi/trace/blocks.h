// What passes the boundary by address: tensors' handles, strings, lists, heap
// slots. Each is followed from where it came to where it was released. What is
// released stays readable for a while, so that a second release is seen, and
// harmless; its address is not used again meanwhile, so that it cannot be
// taken for another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace workbook::trace {

struct Op;

enum class Kind : uint8_t {
  kTensor,
  kString,
  kList,
  kHeapSlot,
  kGenerator,
  kStream,
  kGuard,
  kIValue,
  kCopy, // of a string, made while it was read
};

enum class Role : uint8_t {
  kNone,
  kShim,     // made or released by a function of the shim
  kFree,     // released by delete
  kArgument, // of a kernel, or given with a call
  kReturn,   // of a call, or given by a kernel
  kLibtorch, // by libtorch itself
};

// Where a block came from, or went.
struct Place {
  Role role = Role::kNone;
  const Op* op = nullptr;     // whose slot; or in whose kernel
  const char* shim = nullptr; // the function
  size_t slot = 0;
  const Op* in = nullptr;     // of a call, in whose kernel
  const void* from = nullptr; // who called
};

struct Block {
  Kind kind{};
  bool dead = false;
  bool told = false;    // what is wrong with it was said
  uint32_t process = 0; // how often it was forked
  Place made, given, released;
};

enum class State : uint8_t { kUnknown, kAlive, kDead };

// An address as the tracer keeps it, so that it is not found in its memory when
// all memory is looked through.
using Hidden = uintptr_t;
inline Hidden hide(const void* address) {
  return ~reinterpret_cast<uintptr_t>(address);
}

inline const void* show(Hidden address) {
  return reinterpret_cast<const void*>(~address);
}

State look(const void* address, Block* block = nullptr);
// How many whole slots operator new was asked for at this address, if they were
// few; else 0.
size_t slots_asked_for(const void* address);
// From now on it is followed, as made there. False if it is dead.
bool follow(const void* address, Kind kind, const Place& made);
// Its ownership passes to libtorch; or back, with no place.
void give(const void* address, const Place& given);
// What comes of it need not be said again.
void mark_told(const void* address);
// Where the next releases by this thread come from.
void set_releasing(const Place& place);
// True if the allocator tells of releases.
bool releases_are_seen();
void forget(const void* address);
void each_alive(const std::function<void(Hidden, const Block&)>& visit);
// While it is set, this thread's new blocks of the size of a string are copies
// of this one.
void set_reading_string(const void* string);

// While one lives, this thread's calls of the shim are the tracer's own.
class Busy {
 public:
  Busy();
  ~Busy();
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  static bool now();

 private:
  bool before_;
};

// Reports that a block that is dead was released again, and where.
void on_second_release(
    const void* address, const Block& block, const Place& again);

} // namespace workbook::trace
