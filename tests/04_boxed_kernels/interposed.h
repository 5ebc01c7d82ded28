// The functions of libtorch that the test program of chapter 04 defines in
// front of libtorch's own, to count the sizes that a kernel reads, to call
// another op in between, and to run a loop by other threads or in part.
#pragma once

#include "reference.h"
#include "testing/asan.h"

#include <doctest/doctest.h>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>

#if WORKBOOK_ASAN
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <thread>
#include <vector>

namespace workbook::chapter_04 {

// True while this thread calls an op of the chapter.
inline thread_local bool watching = false;
inline thread_local int sizes_read = 0;

// An action in the middle of a call, when the op calls one of the functions
// below for the `turn`th time, counted from 0.
struct Interruption {
  int turn;
  std::function<void()> act;
};
inline thread_local Interruption* interruption = nullptr;

// A parallel loop runs only its first and last `ends` iterations, or all of
// them if that is 0.
inline int64_t ends = 0;
// A parallel loop runs in so many threads, or in libtorch's if that is 0.
inline int64_t threads = 0;

// While it lives, `where` has another value than 0.
struct Set {
  Set(int64_t& where, int64_t value) : where_(where) {
    where = value;
  }
  ~Set() {
    where_ = 0;
  }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

 private:
  int64_t& where_;
};

// Lets the interruption act if its turn has come.
inline void interrupt() {
  if (watching && interruption != nullptr && interruption->turn-- == 0) {
    interruption->act();
  }
}

// Returns libtorch's own function.
template <class Function>
Function* next(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Counts the call of a function that reads sizes, and calls libtorch's own.
template <class... Arguments>
AOTITorchError count_and_call(
    const char* name,
    AOTITorchError (*function)(AtenTensorHandle, Arguments...),
    AtenTensorHandle tensor,
    Arguments... arguments) {
  sizes_read += watching;
  interrupt();
#if WORKBOOK_ASAN
  if (watching && __asan_address_is_poisoned(tensor) != 0) {
    FAIL_CHECK(
        "the op asks for the sizes of a tensor that is released: by a call in "
        "another thread?");
    return TORCH_FAILURE;
  }
#endif
  return next(name, function)(tensor, arguments...);
}

// While it lives, the sizes that this thread's call of an op reads are counted.
struct Watching {
  Watching() {
    watching = true;
  }
  ~Watching() {
    watching = false;
  }
};

// Makes a call, results_of(sizes). Each time that the op calls libtorch, it
// waits while another thread makes a call with other tensors. Requires that
// both calls have the results that they have alone.
template <class Call>
void check_interrupted(const Call& results_of) {
  const auto elements_of = [&](const Sizes& sizes) {
    std::vector<std::vector<double>> all;
    for (const Tensor& result : results_of(sizes)) {
      all.push_back(elements<float>(result));
    }
    return all;
  };
  const auto other = [&] { return elements_of({5, 4}); };
  const auto alone = elements_of({3, 8});
  const auto other_alone = other();
  bool came = true;
  for (int turn = 0; came; ++turn) {
    std::future<std::vector<std::vector<double>>> meanwhile;
    Interruption now{turn, [&] {
                       meanwhile = std::async(std::launch::async, other);
                       // The wait ends, since the op may hold a lock.
                       meanwhile.wait_for(std::chrono::milliseconds(200));
                     }};
    interruption = &now;
    const auto results = elements_of({3, 8});
    interruption = nullptr;
    CHECK(results == alone);
    came = meanwhile.valid();
    if (came) {
      const auto of_the_other = meanwhile.get();
      CHECK(of_the_other == other_alone);
    }
  }
}

// Runs a parallel loop as `ends` and `threads` say, or as libtorch does.
inline AOTITorchError run_loop(
    int64_t begin,
    int64_t end,
    int64_t grain_size,
    ParallelFunc f,
    void* context) {
  interrupt();
  if (ends != 0 && end - begin > 2 * ends) {
    f(begin, begin + ends, context);
    f(end - ends, end, context);
    return TORCH_SUCCESS;
  }
  if (threads != 0 && begin < end) {
    const int64_t share = (end - begin + threads - 1) / threads;
    std::atomic<int64_t> missing = (end - begin + share - 1) / share;
    std::vector<std::thread> running;
    for (int64_t i = begin; i < end; i += share) {
      running.emplace_back([&, i] {
        --missing;
        while (missing > 0) { // all threads begin at once
        }
        f(i, std::min(i + share, end), context);
      });
    }
    for (std::thread& thread : running) {
      thread.join();
    }
    return TORCH_SUCCESS;
  }
  return next("torch_parallel_for", &torch_parallel_for)(
      begin, end, grain_size, f, context);
}

} // namespace workbook::chapter_04

// These stand in front of libtorch's own functions, which they call. A size
// that is read is a number, and torch.compile has to compile again for another
// one.
extern "C" {
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle tensor, int64_t** sizes) {
  return workbook::chapter_04::count_and_call(
      "aoti_torch_get_sizes", &aoti_torch_get_sizes, tensor, sizes);
}
AOTITorchError aoti_torch_get_size(
    AtenTensorHandle tensor, int64_t d, int64_t* size) {
  return workbook::chapter_04::count_and_call(
      "aoti_torch_get_size", &aoti_torch_get_size, tensor, d, size);
}
AOTITorchError aoti_torch_get_strides(
    AtenTensorHandle tensor, int64_t** strides) {
  return workbook::chapter_04::count_and_call(
      "aoti_torch_get_strides", &aoti_torch_get_strides, tensor, strides);
}
AOTITorchError aoti_torch_get_stride(
    AtenTensorHandle tensor, int64_t d, int64_t* stride) {
  return workbook::chapter_04::count_and_call(
      "aoti_torch_get_stride", &aoti_torch_get_stride, tensor, d, stride);
}
AOTITorchError aoti_torch_get_numel(AtenTensorHandle tensor, int64_t* numel) {
  return workbook::chapter_04::count_and_call(
      "aoti_torch_get_numel", &aoti_torch_get_numel, tensor, numel);
}
AOTITorchError torch_parallel_for(
    int64_t begin,
    int64_t end,
    int64_t grain_size,
    ParallelFunc f,
    void* context) {
  return workbook::chapter_04::run_loop(begin, end, grain_size, f, context);
}
}
