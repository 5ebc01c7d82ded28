// What steps.cpp and probe.cpp share.
#pragma once

#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>

// Addresses where no memory is: what is noted there is the launch's own.
constexpr uint64_t kInput = uint64_t{1} << 50;
constexpr uint64_t kOut = uint64_t{3} << 50;

struct Access {
  uint64_t address;
  uint64_t thread;
  bool write;
  bool vector; // not an access: `load` or `store` has looked at the address
};

// A launch: of `plain` if width is 0, else of `vectorized`.
struct Launch {
  int width;        // elements in a vector: 0, or 1 up to 16 bytes of them
  uint32_t threads; // in a block
  uint64_t input;
  uint64_t out;
  int64_t rows;
  int64_t d;
  int64_t row_stride;
  int64_t column_stride;
  int64_t gate; // elements before each operand's first
  int64_t up;
  bool chosen; // by the arithmetic that math_for chooses, else by Precise
};

// One to be traced. Nothing is read or written at the addresses.
struct Trace : Launch {
  int size;      // of an element, in bytes
  uint64_t ends; // 0: all blocks; else so many first and last ones
  void* to;
  void (*note)(void* to, const Access& access);
};
