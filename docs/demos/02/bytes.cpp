// Prints slots, byte by byte: those of slot.h, then those that PyTorch's own
// from makes of a literal.
#include "slot.h"

#include <cstdio>

using namespace wb;

void show(const char* text, StableIValue slot) {
  unsigned char bytes[sizeof(slot)];
  std::memcpy(bytes, &slot, sizeof(slot));
  std::printf("%-48s", text);
  for (const unsigned char byte : bytes) {
    std::printf(" %02x", byte);
  }
  std::printf("\n");
}
#define SHOW(slot) show(#slot, slot)

int main() {
  SHOW(Slot<bool>::from(true));
  SHOW(Slot<int64_t>::from(-2));
  SHOW(Slot<double>::from(0.1));
  SHOW(Slot<ScalarType>::from(ScalarType::Half));
  SHOW(Slot<Device>::from(Device(DeviceType::CUDA, 3)));
  SHOW(Slot<Device>::from(Device(DeviceType::CPU)));
  const StableIValue seven = Slot<std::optional<int64_t>>::from(7);
  show("an int? of 7: an address", seven);
  show("what lies there", *to_bits<StableIValue*>(seven));
  Slot<std::optional<int64_t>>::release(seven);
  SHOW(Slot<std::optional<int64_t>>::from(std::nullopt));

  using torch::stable::detail::from;
  SHOW(from(7));
  SHOW(from(-1));
  SHOW(from(int64_t{-1}));
  SHOW(from(0.1f));
  SHOW(from(0.1));
  SHOW(from(0x80000000));
  SHOW(from(1ULL << 40));
}
