#include "report.h"

#include "op.h"
#include "reach.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace workbook::trace {

namespace {

// Shared with the process that started the program, which prints nothing else.
struct Status {
  std::atomic<uint32_t> libtorch; // processes that used it
  std::atomic<uint32_t> errors, suspicious, notes;
  std::atomic<uint32_t> summaries;
  char running[200];
};

struct Found {
  Class of;
  std::string what;
  size_t times;
};

std::string counted(size_t number, const char* what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

struct Report {
  int file = -1;
  Status* status = nullptr;
  bool summary = std::getenv("WORKBOOK_TRACE_SUMMARY") != nullptr;
  std::mutex mutex;
  std::vector<Found> found; // in the order of their first time
  std::map<std::string, size_t> places;
  std::atomic<size_t> kernels{0}, calls{0}, shims{0};
  pid_t process = getpid();
  bool ended = false; // only the summary is to come
};

Report& report() {
  static Report* const report = [] {
    auto* made = new Report;
    if (const char* path = std::getenv("WORKBOOK_TRACE_OUTPUT")) {
      made->file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    } else { // the program may put another in its place
      made->file = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
    }
    if (const char* path = std::getenv("WORKBOOK_TRACE_STATUS")) {
      const int file = open(path, O_RDWR | O_CLOEXEC);
      void* const pages = mmap(
          nullptr, sizeof(Status), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      close(file);
      made->status =
          pages == MAP_FAILED ? nullptr : static_cast<Status*>(pages);
    }
    return made;
  }();
  return *report;
}

// What a forked process begins with is its parent's.
void begin_if_forked(Report& r) {
  if (getpid() != r.process) {
    r.process = getpid();
    r.found.clear();
    r.places.clear();
  }
}

const char* name_of(Class of) {
  return of == Class::kError     ? "error       "
      : of == Class::kSuspicious ? "suspicious  "
                                 : "note        ";
}

// What is alive at the end, by where it came from.
void find_leaks(const void* frame) {
  std::vector<std::pair<Hidden, Block>> alive;
  std::unordered_set<Hidden> addresses;
  each_alive([&](Hidden address, const Block& block) {
    alive.emplace_back(address, block);
    addresses.insert(address);
  });
  const auto held = reachable(addresses, frame);
  for (const auto& [address, block] : alive) {
    const std::string what = text_of(block.kind) + ", " + text_of(block.made);
    if (block.given.role != Role::kNone) {
      if (releases_are_seen() || block.given.role == Role::kLibtorch) {
        find(
            Class::kNote,
            block.given.role == Role::kLibtorch
                ? what + ": left by a failed call of " + block.given.op->name +
                    ", slot " + std::to_string(block.given.slot)
                : what + ": never released by libtorch, to which it was " +
                    "given as " + text_of(block.given));
      }
    } else if (held.count(address) != 0) {
      find(Class::kNote, what + ": still held at the end");
    } else if (
        !block.told && (releases_are_seen() || block.kind != Kind::kHeapSlot)) {
      find(Class::kError, what + ": never released");
    }
  }
}

struct AtExit {
  AtExit() {
    const Busy ours;
    report();
  }
  ~AtExit() {
    const Busy ours;
    Report& r = report();
    if (r.kernels + r.calls + r.shims == 0) {
      return;
    }
    begin_if_forked(r);
    r.ended = true;
    find_leaks(__builtin_frame_address(0));
    std::string text = "\n" + std::string(60, '-') + "\nprocess " +
        std::to_string(getpid()) + ", libtorch " +
        std::to_string(libtorch_version().major) + "." +
        std::to_string(libtorch_version().minor) + ": kernels called " +
        std::to_string(r.kernels) + " times, ops by name " +
        std::to_string(r.calls) + " times, functions of the shim " +
        std::to_string(r.shims) + " times\n";
    size_t counts[3] = {};
    for (const Class of : {Class::kError, Class::kSuspicious, Class::kNote}) {
      for (const Found& found : r.found) {
        if (found.of == of) {
          ++counts[static_cast<int>(of)];
          text += name_of(of) + found.what +
              (found.times > 1 ? " (" + std::to_string(found.times) + " times)"
                               : "") +
              "\n";
        }
      }
    }
    text += counted(counts[0], "error") + ", " + std::to_string(counts[1]) +
        " suspicious, " + counted(counts[2], "note") + "\n";
    print(text);
    if (r.status != nullptr) {
      ++r.status->summaries;
    }
  }
};
// Made before the program's static objects are, and so destroyed after them.
__attribute__((init_priority(101))) AtExit at_exit;

} // namespace

void find(Class of, const std::string& what, const std::string& drawing) {
  Report& r = report();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const auto [at, first] = r.places.emplace(name_of(of) + what, r.found.size());
  if (!first) {
    ++r.found[at->second].times;
    return;
  }
  r.found.push_back({of, what, 1});
  if (r.status != nullptr) {
    ++(of == Class::kError            ? r.status->errors
           : of == Class::kSuspicious ? r.status->suspicious
                                      : r.status->notes);
  }
  if (!r.ended) { // at once: the process may not come to its summary
    print(name_of(of) + what + "\n" + drawing);
  }
}

void print(const std::string& text) {
  (void)!write(report().file, text.data(), text.size());
}

bool is_summary() {
  return report().summary;
}

void count_kernel() {
  ++report().kernels;
}
void count_call() {
  ++report().calls;
}
void count_shim() {
  Report& r = report();
  if (r.shims++ == 0 && r.status != nullptr) {
    ++r.status->libtorch;
  }
}

void set_running(const char* what) {
  if (Status* status = report().status) {
    std::strncpy(status->running, what, sizeof(status->running) - 1);
  }
}

std::string text_of(Kind kind) {
  static const char* const names[] = {
      "Tensor",
      "str",
      "list",
      "heap slot of an optional",
      "Generator",
      "stream",
      "guard",
      "copy of a str"};
  return names[static_cast<int>(kind)];
}

std::string text_of(const Place& place) {
  const std::string slot = std::to_string(place.slot);
  const std::string in = place.op == nullptr ? "" : " in " + place.op->name;
  const std::string thrown =
      place.shim == nullptr ? "" : " " + std::string(place.shim);
  switch (place.role) {
    case Role::kShim:
      return place.shim + in;
    case Role::kArgument:
      return "argument " + slot + " of " + place.op->name + thrown;
    case Role::kReturn:
      return "return " + slot + " of " + place.op->name;
    case Role::kLibtorch:
      return "libtorch";
    case Role::kFree:
      break;
    case Role::kNone:
      return "of the program's own";
  }
  return "delete" + in;
}

std::string released_by(const Block& block) {
  return block.released.role == Role::kLibtorch
      ? " by libtorch, to which it was given as " + text_of(block.given)
      : " by " + text_of(block.released);
}

std::string library_of(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return "?";
  }
  const char* const slash = std::strrchr(info.dli_fname, '/');
  return slash == nullptr ? info.dli_fname : slash + 1;
}

} // namespace workbook::trace
