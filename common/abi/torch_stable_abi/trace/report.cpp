#include "report.h"

#include "bindings.h"
#include "ending.h"
#include "op.h"
#include "reach.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace workbook::trace {

namespace {

// Shared with the process that started the program, which prints nothing else.
struct Status {
  std::atomic<uint32_t> libtorch; // processes that used it
  std::atomic<uint32_t> errors, suspicious, notes, pytorch;
  std::atomic<uint32_t> summaries;
  std::atomic<uint32_t> ran_kernels, summarised_kernels; // processes
  std::atomic<uint32_t> lost; // lines that could not be written
  char running[200];
  char untraced[200]; // a library that calls past the tracer
};

struct Found {
  Finding finding;
  size_t times;
};

constexpr Class kClasses[] = {
    Class::kError, Class::kSuspicious, Class::kNote, Class::kPyTorch};

// A file that lines are appended to, by all processes. The program may close
// its descriptor, as a daemon does, or put another file in its place; the file
// is then opened by its path.
class Output {
 public:
  // Opens the file, or uses one that is open already.
  void open(const std::string& path, int opened = -1) {
    path_ = path;
    const int file = opened >= 0
        ? opened
        : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    file_ = fcntl(file, F_DUPFD_CLOEXEC, 100); // where programs have none
    if (file_ < 0) {                           // ulimit -n is low
      file_ = fcntl(file, F_DUPFD_CLOEXEC, 3);
    }
    if (opened < 0 && file >= 0) {
      close(file);
    }
    fstat(file_, &status_);
  }

  bool is_wanted() const {
    return !path_.empty();
  }

  // Returns whether all of the text was written.
  bool append(const std::string& text) {
    struct stat now {};
    if (fstat(file_, &now) != 0 || now.st_dev != status_.st_dev ||
        now.st_ino != status_.st_ino) {
      open(path_);
    }
    return write(file_, text.data(), text.size()) ==
        static_cast<ssize_t>(text.size());
  }

 private:
  std::string path_;
  std::atomic<int> file_{-1};
  struct stat status_ {};
};

struct Report {
  Output text;
  Output json; // a line for each event, for the process that started it all
  Status* status = nullptr;
  bool summary = std::getenv("WORKBOOK_TRACE_SUMMARY") != nullptr;
  std::mutex mutex;
  std::vector<Found> found; // in the order of their first time
  std::map<std::string, size_t> places;
  std::atomic<size_t> kernels{0}, calls{0}, shims{0};
  std::unordered_set<Hidden> looked_at, held; // what was alive; of it
  pid_t process = getpid();
  bool forked = false;
  bool ended = false; // only the summary is to come

  bool is_used() const {
    return kernels + calls + shims != 0;
  }
  // What a forked process begins with is its parent's.
  void forget() {
    found.clear();
    places.clear();
    looked_at.clear();
    held.clear();
    kernels = calls = shims = 0;
    process = getpid();
    forked = true;
    ended = false;
  }
};

Report& report();

void watch_forks() {
  forget(nullptr); // makes the table, whose lock is taken after this one
  pthread_atfork(
      [] { report().mutex.lock(); },
      [] { report().mutex.unlock(); },
      [] {
        const Busy ours;
        report().forget();
        report().mutex.unlock();
      });
}

Report& report() {
  static Report* const report = [] {
    auto* made = new Report;
    watch_forks();
    if (const char* path = std::getenv("WORKBOOK_TRACE_JSON")) {
      made->json.open(path);
    }
    const char* const output = std::getenv("WORKBOOK_TRACE_OUTPUT");
    if (output != nullptr) {
      made->text.open(output);
    }
    if (const char* path = std::getenv("WORKBOOK_TRACE_STATUS")) {
      if (output == nullptr) { // the tool prints this file at the end
        made->text.open(std::string(path) + ".text", STDERR_FILENO);
      }
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

const char* name_of(Class of) {
  static const char* const names[] = {"error", "suspicious", "note", "pytorch"};
  return names[static_cast<int>(of)];
}

// "error       " and what was found.
std::string line_of(const Finding& finding) {
  std::string line = name_of(finding.of);
  line.resize(12, ' ');
  return line + finding.what;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    char code[8];
    const auto byte = static_cast<unsigned char>(c);
    std::snprintf(code, sizeof(code), "\\u%04x", byte);
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += byte < 0x20 || byte > 0x7e ? code : std::string(1, c);
  }
  return result + '"';
}

// The finding as an object of JSON.
std::string json_of(const Finding& finding, size_t times) {
  const auto& [of, rule, what, op, slot, detail] = finding;
  return "{\"rule\": " + quoted(rule) + ", \"level\": " + quoted(name_of(of)) +
      ", \"op\": " + (op.empty() ? "null" : quoted(op)) +
      ", \"slot\": " + (slot < 0 ? "null" : std::to_string(slot)) +
      ", \"text\": " + quoted(what + detail) +
      ", \"times\": " + std::to_string(times) + "}";
}

void append(Output& output, const std::string& text) {
  if (!output.append(text) && report().status != nullptr) {
    ++report().status->lost;
  }
}

// One write for each line, since processes share the file.
void write_json(Report& r, const std::string& fields) {
  if (r.json.is_wanted()) {
    append(
        r.json,
        "{\"process\": " + std::to_string(getpid()) + ", " + fields + "}\n");
  }
}

// What a block that is alive at the end is a sign of; of no class if it is of
// nothing.
void find_leak(const Block& block, bool held) {
  const std::string what = text_of(block.kind) + ", " + text_of(block.made);
  const Place& from =
      block.given.role != Role::kNone ? block.given : block.made;
  const std::string op = from.op == nullptr ? "" : from.op->name;
  const int slot = from.op == nullptr || from.role == Role::kShim
      ? -1
      : static_cast<int>(from.slot);
  if (block.given.role == Role::kLibtorch) {
    report_finding(
        {Class::kNote,
         "left-by-failed-call",
         what + ": left by a failed call of " + op + ", slot " +
             std::to_string(slot),
         op,
         slot});
  } else if (block.given.role != Role::kNone) {
    if (releases_are_seen()) {
      report_finding(
          {Class::kPyTorch,
           "kept-by-libtorch",
           what + ": never released by libtorch, to which it was given as " +
               text_of(block.given),
           op,
           slot});
    }
  } else if (block.kind == Kind::kCopy) { // which nothing can hold
    report_finding(
        {Class::kPyTorch,
         "lost-by-headers",
         what + ": never released, by PyTorch's headers up to 2.13",
         op,
         slot});
  } else if (held) {
    report_finding(
        {Class::kNote,
         "still-held",
         what + ": still held at the end",
         op,
         slot});
  } else if (
      !block.told && (releases_are_seen() || block.kind != Kind::kHeapSlot)) {
    report_finding(
        {Class::kError, "never-released", what + ": never released", op, slot});
  }
}

// What is alive. Whether something points to it is asked once for each, since
// the end of the process may destroy what does.
std::vector<std::pair<Hidden, Block>> look_at_alive(
    Report& r, const void* frame) {
  std::vector<std::pair<Hidden, Block>> alive;
  std::unordered_set<Hidden> addresses;
  each_alive([&](Hidden address, const Block& block) {
    alive.emplace_back(address, block);
    if (block.given.role == Role::kNone && r.looked_at.insert(address).second) {
      addresses.insert(address);
    }
  });
  r.held.merge(reachable(addresses, frame));
  return alive;
}

// The lines of the summary, and the same for programs.
void summarise(Report& r) {
  size_t counts[std::size(kClasses)] = {};
  std::string text, json;
  for (const Class of : kClasses) {
    for (const Found& found : r.found) {
      if (found.finding.of == of) {
        ++counts[static_cast<int>(of)];
        text += line_of(found.finding) + found.finding.detail +
            (found.times > 1 ? " (" + std::to_string(found.times) + " times)"
                             : "") +
            "\n";
        json +=
            (json.empty() ? "" : ", ") + json_of(found.finding, found.times);
      }
    }
  }
  const auto [major, minor] = libtorch_version();
  const std::string libtorch =
      std::to_string(major) + "." + std::to_string(minor);
  const auto times = [](const std::atomic<size_t>& number) {
    return std::to_string(number);
  };
  print(
      "\n" + std::string(60, '-') + "\nprocess " + std::to_string(getpid()) +
      ", libtorch " + libtorch + ": kernels called " +
      counted(r.kernels, "time") + ", ops by name " + counted(r.calls, "time") +
      ", functions of the shim " + counted(r.shims, "time") + "\n" + text +
      counted(counts[0], "error") + ", " + std::to_string(counts[1]) +
      " suspicious, " + counted(counts[2], "note") +
      (counts[3] == 0 ? "" : ", " + std::to_string(counts[3]) + " of PyTorch") +
      "\n");
  write_json(
      r,
      "\"libtorch\": \"" + libtorch + "\", \"kernels\": " + times(r.kernels) +
          ", \"calls\": " + times(r.calls) + ", \"shim_functions\": " +
          times(r.shims) + ", \"findings\": [" + json + "]");
}

struct AtExit {
  AtExit() {
    const Busy ours;
    report();
  }
  ~AtExit() {
    end_process(__builtin_frame_address(0));
  }
};
// Made before the program's static objects are, and so destroyed after them.
__attribute__((init_priority(101))) AtExit at_exit;

} // namespace

void report_finding(const Finding& finding, const std::string& drawing) {
  Report& r = report();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const std::string line = line_of(finding);
  const auto [at, first] = r.places.emplace(line, r.found.size());
  if (!first) {
    ++r.found[at->second].times;
    return;
  }
  r.found.push_back({finding, 1});
  if (r.status != nullptr) {
    Status& s = *r.status;
    std::atomic<uint32_t>* const counts[] = {
        &s.errors, &s.suspicious, &s.notes, &s.pytorch};
    ++*counts[static_cast<int>(finding.of)];
  }
  if (!r.ended) { // at once: the process may not come to its summary
    print(line + finding.detail + "\n" + drawing);
    write_json(r, "\"finding\": " + json_of(finding, 1));
  }
}

void look_before_end(const void* frame) {
  const Busy ours;
  Report& r = report();
  if (r.is_used() && !r.ended) {
    look_at_alive(r, frame);
  }
}

// Says that a library's calls were not seen; returns whether there is one.
bool report_untraced_library(Report& r) {
  const std::string library = find_untraced_library();
  if (library.empty()) {
    return false;
  }
  report_finding(
      {Class::kNote,
       "untraced-library",
       library +
           ": calls libtorch past the tracer, as after RTLD_DEEPBIND; "
           "nothing is known of it"});
  if (r.status != nullptr) {
    std::strncpy(
        r.status->untraced, library.c_str(), sizeof(r.status->untraced) - 1);
  }
  return true;
}

void end_process(const void* frame) {
  const Busy ours;
  Report& r = report();
  // A fork may have inherited a lock that nobody releases: its parent looks at
  // the libraries.
  if (r.ended || (r.forked && !r.is_used())) {
    return;
  }
  r.ended = true;
  if (!report_untraced_library(r) && !r.is_used()) {
    return;
  }
  const auto alive = look_at_alive(r, frame);
  if (!alive.empty()) {
    usleep(20000); // a thread that still works releases what it works with
  }
  for (const auto& [address, block] : alive) {
    if (look(show(address)) == State::kAlive) {
      find_leak(block, r.held.count(address) != 0);
    }
  }
  summarise(r);
  if (r.status != nullptr) {
    ++r.status->summaries;
    r.status->summarised_kernels += r.kernels != 0;
  }
}

bool is_own_process() {
  return report().process == getpid();
}

void print(const std::string& text) {
  append(report().text, text);
}

bool is_summary() {
  return report().summary;
}

void count_kernel() {
  Report& r = report();
  if (r.kernels++ == 0 && r.status != nullptr) {
    ++r.status->ran_kernels;
  }
}
void count_call() {
  ++report().calls;
}
void count_shim() {
  Report& r = report();
  if (r.shims++ == 0) {
    const Busy ours;
    watch_end();
    if (r.status != nullptr) {
      ++r.status->libtorch;
    }
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
      "IValue",
      "copy of a str"};
  return names[static_cast<int>(kind)];
}

std::string counted(size_t number, const char* what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

std::string text_of(const Place& place) {
  const std::string slot = std::to_string(place.slot);
  const std::string in = place.op == nullptr ? "" : " in " + place.op->name;
  const std::string thrown =
      place.shim == nullptr ? "" : " " + std::string(place.shim);
  switch (place.role) {
    case Role::kShim:
      return place.shim + (place.op == nullptr ? text_of_caller(place) : in);
    case Role::kArgument:
      return "argument " + slot + " of " + place.op->name + thrown;
    case Role::kReturn:
      return "return " + slot + " of " + place.op->name + text_of_caller(place);
    case Role::kLibtorch:
      return "libtorch";
    case Role::kFree:
      break;
    case Role::kNone:
      return "of the program's own";
  }
  return "delete" + in;
}

std::string text_of_caller(const Place& call) {
  if (call.from == nullptr) {
    return "";
  }
  const std::string library = library_of(call.from);
  return call.in == nullptr
      ? ", called by " + library
      : ", called in " + call.in->name + " (" + library + ")";
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
