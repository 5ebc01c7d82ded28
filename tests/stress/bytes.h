// The fuzzer's bytes, read as what a test needs; zeros behind the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace fuzz {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  template <class T>
  T take() {
    T value{};
    const auto left = static_cast<size_t>(end_ - at_);
    const size_t size = left < sizeof(T) ? left : sizeof(T);
    std::memcpy(&value, at_, size);
    at_ += size;
    return value;
  }
  // From 0 to `most`.
  size_t up_to(size_t most) {
    return take<uint8_t>() % (most + 1);
  }
  std::string text() {
    std::string text;
    for (size_t i = up_to(40); i > 0; --i) {
      text += take<char>();
    }
    return text;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

// Ends the process: the fuzzer keeps the bytes that led here.
inline void require(bool good, const char* what) {
  if (!good) {
    __builtin_printf("wrong: %s\n", what);
    __builtin_trap();
  }
}

} // namespace fuzz
