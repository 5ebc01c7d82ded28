// Slots of a stack by the types that a schema gives them: made, drawn and
// released through C shims alone, on any libtorch since 2.10.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace workbook {

// Types as they stand in a schema: "Tensor", "int[]?".
struct Schema {
  std::vector<std::string> arguments;
  std::vector<std::string> returns;
};

namespace slots {

template <typename Pointer>
Pointer pointer(StableIValue slot) {
  return reinterpret_cast<Pointer>(slot);
}
inline StableIValue bits(const void* pointer) {
  return reinterpret_cast<StableIValue>(pointer);
}

// Whether a slot of the type, itself no optional, holds a handle, never null.
bool is_handle(const std::string& type);

// Of a list, borrowed from it.
std::vector<StableIValue> elements(StableIValue list);

// A slot of `type`. Tensors are new handles to `tensor`; an optional has a
// value if `some`; lists have two elements, of which an optional one is then
// None.
StableIValue make(
    const std::string& type, AtenTensorHandle tensor, bool some = true);

// Names of tensors in drawings, by the address of their data.
std::map<const void*, std::string>& names();

// All of its bits: "0x0000000000000001".
std::string hex(StableIValue slot);

// The content as text: two slots are alike if their texts are.
std::string draw(const std::string& type, StableIValue slot);

// The same for people: a number as it would stand in C++, and a dtype's code,
// for which C++ has no word, as its bits.
std::string written(const std::string& type, StableIValue slot);

void release(const std::string& type, StableIValue slot);

// How often a block was released: 0 while it is alive, negative if unknown.
using Releases = int (*)(const void* block);

// What a slot refers to, each with its name: "Tensor[]", "Tensor in [1]".
// Blocks that are not alive are not opened.
using Blocks = std::vector<std::pair<std::string, const void*>>;
Blocks blocks(const std::string& type, StableIValue slot, Releases releases);

} // namespace slots

} // namespace workbook
