// Two calls at the same time, in two threads: for torch_call_dispatcher's
// place.
#pragma once

#include "replaced.h"

#include <torch/csrc/stable/c/shim.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace workbook {

struct Meeting {
  // What the calls had that `act` made, in each of two threads. Each waits for
  // the other, two seconds at most. `inside` is any address in the library that
  // calls.
  static Meeting of(const void* inside, const std::function<void()>& act) {
    stacks_.clear(), versions_.clear(), met_ = true;
    const Replaced dispatcher(inside, "torch_call_dispatcher", call);
    std::thread other(act);
    act();
    other.join();
    return {stacks_, versions_, met_};
  }

  std::vector<const StableIValue*> stacks;
  std::vector<uint64_t> versions;
  bool met; // no call was over before there was a second one

 private:
  Meeting(
      std::vector<const StableIValue*> all_stacks,
      std::vector<uint64_t> all_versions,
      bool all_met)
      : stacks(std::move(all_stacks)),
        versions(std::move(all_versions)),
        met(all_met) {}

  static inline std::mutex mutex_;
  static inline std::condition_variable another_;
  static inline std::vector<const StableIValue*> stacks_;
  static inline std::vector<uint64_t> versions_;
  static inline bool met_ = true;

  static AOTITorchError call(
      const char* op,
      const char* overload,
      StableIValue* stack,
      uint64_t version) {
    std::unique_lock lock(mutex_);
    stacks_.push_back(stack);
    versions_.push_back(version);
    another_.notify_all();
    met_ &= another_.wait_for(
        lock, std::chrono::seconds(2), [] { return stacks_.size() >= 2; });
    lock.unlock();
    return torch_call_dispatcher(op, overload, stack, version);
  }
};

} // namespace workbook
