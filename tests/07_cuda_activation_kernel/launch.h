// Traces of launches: which thread reads and writes which element, and whether
// it should. For the test of chapter 07.
#pragma once

#include "inputs.h"
#include "probe.h"
#include "testing/checks.h"
#include "testing/library.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <vector>

// Returns a launch on [rows, 2d] without gaps.
inline Trace traced(
    int size, int width, uint32_t threads, int64_t rows, int64_t d) {
  Trace t{};
  t.width = width;
  t.threads = threads;
  t.input = kInput;
  t.out = kOut;
  t.rows = rows;
  t.d = d;
  t.row_stride = 2 * d;
  t.column_stride = 1;
  t.up = d;
  t.size = size;
  return t;
}

// Describes a launch in the words of the kernel's parameters.
inline std::string describe(const Trace& t) {
  std::ostringstream text;
  if (t.width == 0) {
    text << "n = " << t.rows * t.d << ", d = " << t.d
         << ", row_stride = " << t.row_stride
         << ", column_stride = " << t.column_stride;
  } else {
    text << "N = " << t.width << ", " << t.rows << " row(s) of d = " << t.d
         << ", row_stride = " << t.row_stride;
  }
  text << ", blocks of " << t.threads << " thread(s), elements of " << t.size
       << " bytes";
  return text.str();
}

// Returns true if the input has this element.
inline bool has_element(const Trace& t, uint64_t element) {
  const auto row_stride = static_cast<uint64_t>(t.row_stride);
  const auto column_stride = static_cast<uint64_t>(t.column_stride);
  const auto rows = static_cast<uint64_t>(t.rows);
  const auto columns = static_cast<uint64_t>(2 * t.d);
  if (column_stride == 0) { // expanded
    const auto left = static_cast<int64_t>(element % row_stride);
    return element / row_stride < rows && (left == t.gate || left == t.up);
  }
  if (row_stride >= column_stride) {
    const uint64_t left = element % row_stride;
    return element / row_stride < rows && left % column_stride == 0 &&
        left / column_stride < columns;
  }
  const uint64_t left = element % column_stride; // transposed
  return element / column_stride < columns && left % row_stride == 0 &&
      left / row_stride < rows;
}

// Returns the number of elements of the blocks that run.
inline uint64_t elements_of(const Trace& t) {
  const auto n = static_cast<uint64_t>(t.rows * t.d);
  const auto in_block = t.threads * static_cast<uint64_t>(std::max(t.width, 1));
  const uint64_t blocks = (n + in_block - 1) / in_block;
  return t.ends == 0 || blocks <= 2 * t.ends
      ? n
      : n - (blocks - 2 * t.ends) * in_block;
}

// Returns "" if each element of the output is written once, by a thread that
// has read its two operands, nothing else is read, and neighbours work side by
// side.
inline std::string first_mistake(Trace t) {
  std::vector<Access> accesses;
  t.to = &accesses;
  t.note = [](void* to, const Access& access) {
    static_cast<std::vector<Access>*>(to)->push_back(access);
  };
  workbook::function<void(const Trace&)>("wb07_probe_trace")(t);

  const auto size = static_cast<uint64_t>(t.size);
  const auto d = static_cast<uint64_t>(t.d);
  const auto n = static_cast<uint64_t>(t.rows) * d;
  const auto width = static_cast<uint64_t>(std::max(t.width, 1));
  std::ostringstream text;
  // By element; where only the ends run, by its last 20 bits.
  std::vector<char> written(t.ends == 0 ? n : 1 << 20);
  std::vector<uint64_t> read;         // by the current thread
  std::vector<uint64_t> mine, before; // first elements of vectors written
  uint64_t thread = 0, results = 0;
  uint64_t accesses_of_thread = 0; // of whole vectors
  bool wrote = false;
  const auto self = [&] {
    std::ostringstream who;
    who << "thread " << (thread - 1) % t.threads << " of block "
        << (thread - 1) / t.threads;
    return who.str();
  };
  const auto operand = [&](uint64_t element, int64_t half) {
    return element / d * static_cast<uint64_t>(t.row_stride) +
        element % d * static_cast<uint64_t>(t.column_stride) +
        static_cast<uint64_t>(half);
  };
  // The thread's own element, or vector.
  const bool plain = t.width == 0;
  const auto has_none = [&](const char* does) {
    text << self() << " has no " << (plain ? "element (i = " : "vector (v = ")
         << thread - 1 << (plain ? ", n = " : ", p.vectors = ") << n / width
         << "), and " << does << " one";
    std::set<uint64_t> such;
    for (const Access& access : accesses) {
      if (access.thread > n / width) {
        such.insert(access.thread);
      }
    }
    const uint64_t threads =
        (n / width + t.threads - 1) / t.threads * t.threads;
    text << ", as " << such.size() << " of " << threads - n / width
         << " such threads " << (such.size() == 1 ? "does" : "do");
    return text.str();
  };
  const auto finish = [&] {
    if (width > 1 && wrote && accesses_of_thread < 3) {
      text << self() << " does not take a vector at once by `read` and "
           << "`store`, where this test sees it";
      return false;
    }
    const bool same_block = thread % t.threads != 1 % t.threads;
    std::sort(mine.begin(), mine.end()); // in whatever order they were written
    for (size_t i = 0; i < mine.size() && i < before.size(); ++i) {
      if (same_block && t.threads > 1 && mine[i] - before[i] != width) {
        text << self() << " writes element " << mine[i]
             << ", its neighbour on the left element " << before[i]
             << ": what a warp reads does not lie side by side";
        return false;
      }
    }
    return true;
  };
  for (const Access& access : accesses) {
    if (access.thread != thread) {
      if (!finish()) {
        return text.str();
      }
      before = access.thread == thread + 1 ? mine : std::vector<uint64_t>();
      mine.clear();
      read.clear();
      wrote = false;
      accesses_of_thread = 0;
      thread = access.thread;
    }
    if (access.vector) {
      ++accesses_of_thread;
      continue;
    }
    const bool output = access.address >= (kInput + kOut) / 2;
    const uint64_t element = (access.address - (output ? kOut : kInput)) / size;
    if (!access.write) {
      if (thread > n / width) {
        return has_none("reads");
      }
      if (output || !has_element(t, element)) {
        text << self() << " reads input element "
             << static_cast<int64_t>(element) << ", which is in no row";
        if (plain) {
          text << ": its operands are " << operand(thread - 1, t.gate)
               << " and " << operand(thread - 1, t.up);
        }
        return text.str();
      }
      read.push_back(element);
      continue;
    }
    wrote = true;
    if (!output || element >= n) {
      if (thread > n / width) {
        return has_none("writes");
      }
      text << self() << " writes outside the output, at element "
           << static_cast<int64_t>(element);
      return text.str();
    }
    const uint64_t at_ends = t.ends * t.threads * width;
    if (t.ends != 0 && element >= at_ends && element + at_ends < n) {
      text << self() << " writes element " << element;
      if (plain) {
        text << ", and its own is " << thread - 1;
      }
      text << ": has a number of 32 bits wrapped round?";
      return text.str();
    }
    ++results;
    if (++written[element % written.size()] > 1) {
      text << "output element " << element
           << " is written twice, the second time by " << self();
      return text.str();
    }
    if (element % width == 0) {
      mine.push_back(element);
    }
    for (const int64_t half : {t.gate, t.up}) {
      const uint64_t wanted = operand(element, half);
      if (std::find(read.begin(), read.end(), wanted) == read.end()) {
        text << self() << " writes output element " << element << " (row "
             << element / d << "), and has not read input element " << wanted;
        return text.str();
      }
    }
  }
  if (!finish()) {
    return text.str();
  }
  const auto missing = std::find(written.begin(), written.end(), 0);
  if (t.ends == 0 && missing != written.end()) {
    text << "output element " << missing - written.begin()
         << " is never written";
    return text.str();
  }
  const uint64_t elements = elements_of(t);
  if (results != elements) {
    text << "of the first and the last " << t.ends << " blocks, which have "
         << elements << " elements, " << results
         << " are written: has a number of 32 bits wrapped round?";
    return text.str();
  }
  return "";
}

// Returns "" if each thread of the gradient's kernel reads its element of the
// gradient and its two operands, and writes where these lie.
inline std::string first_mistake_of_gradient(Trace t) {
  std::vector<Access> accesses;
  t.to = &accesses;
  t.note = [](void* to, const Access& access) {
    static_cast<std::vector<Access>*>(to)->push_back(access);
  };
  workbook::function<void(const Trace&)>("wb07_probe_trace_backward")(t);
  const auto size = static_cast<uint64_t>(t.size);
  const auto d = static_cast<uint64_t>(t.d);
  const auto n = static_cast<uint64_t>(t.rows) * d;
  uint64_t results = 0;
  for (const Access& access : accesses) {
    const uint64_t i = access.thread - 1;
    const uint64_t gate = i / d * 2 * d + i % d, up = gate + d;
    const uint64_t base = access.write ? kOut : kInput;
    const uint64_t element = (access.address - base) / size;
    const bool grad = !access.write && element == i;
    const uint64_t operand = access.write ? element : element - n;
    if (i >= n || (!grad && operand != gate && operand != up)) {
      std::ostringstream text;
      text << "thread " << i % t.threads << " of block " << i / t.threads
           << " has element " << i << " of " << n << ", and "
           << (access.write ? "writes" : "reads") << " that of another: has a "
           << "number of 32 bits wrapped round?";
      return text.str();
    }
    results += access.write;
  }
  return results == 2 * elements_of(t) ? "" : "some results are never written";
}

// Requires that this launch reads and writes as it should.
#define REQUIRE_TRACED(...)                \
  do {                                     \
    const Trace traced_(__VA_ARGS__);      \
    INFO(describe(traced_));               \
    REQUIRE_CLEAN(first_mistake(traced_)); \
  } while (false)

// Returns the width that the learner's vector_width chooses for a launch.
inline int width_of(const Trace& t) {
  return workbook::function<int(const Launch&, int)>("wb07_probe_width")(
      t, t.size);
}

// Returns a launch of random shape and strides, as `vector_width` wants it.
inline Trace any_launch(int i) {
  using workbook::chapter_07::random;
  const int size = i % 2 == 0 ? 2 : 4;
  const auto threads = static_cast<uint32_t>(32 << i % 4);
  Trace t = traced(size, 0, threads, random(1, 5), random(1, 12));
  t.d *= i % 3 == 0 ? 1 : 16 / size;
  t.row_stride = 2 * t.d + random(0, 2) * 8 + (i % 7 == 0 ? 1 : 0);
  t.gate = i % 5 == 0 ? t.d : 0;
  t.up = t.d - t.gate;
  t.width = width_of(t);
  return t;
}
