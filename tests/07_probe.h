// What tests/07_cuda_activation_kernel_test.cpp and tests/07_probe.cpp share.
#pragma once

#include <cstdint>

struct Access {
  uint64_t address;
  uint64_t thread;
  bool write;
};

// A launch to be traced. Nothing is read or written at the addresses.
struct Trace {
  int size;  // of an element, in bytes
  int width; // elements in a vector: 1, or 16 bytes of them
  int in_flight;
  uint32_t threads; // in a block
  uint64_t input;
  uint64_t out;
  int64_t rows;
  int64_t d;
  int64_t stride;
  int64_t gate;
  int64_t up;
  int64_t most;  // vectors in a piece
  uint64_t ends; // 0: all blocks; else so many first and last ones of a piece
  void* to;
  void (*note)(void* to, const Access& access);
};

struct Shape {
  uint32_t blocks;
  int threads;
  int in_flight;
};
