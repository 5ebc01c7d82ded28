// Ops and their schemas: of what is defined through the boundary, and of what
// is called by name, which the running libtorch is asked for.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace workbook::trace {

enum class Base : uint8_t {
  kTensor,
  kString,
  kBool,
  kInt,
  kFloat,
  kScalarType,
  kLayout,
  kMemoryFormat,
  kDevice,
  kGenerator,
  kOther, // libtorch refuses it
  kOptional,
  kList,
};

struct Type {
  std::string text; // without alias, length and name: "int[]?"
  Base base = Base::kOther;
  std::unique_ptr<Type> inner; // of an optional or a list
};

struct Op {
  std::string name;   // "aten::div.Tensor"
  std::string schema; // "" if there is none
  bool asked = false; // else libtorch could not be, and there may be one
  bool shown = true;  // by --op
  std::vector<Type> arguments;
  std::vector<Type> returns;
};

// The op, for good. Libtorch is asked for its schema, until it has one.
const Op* op_of(std::string_view name, std::string_view overload = "");
// Its schema, where libtorch cannot be asked.
void define(const std::string& ns, const char* schema);

// The function of libtorch, which Python loads for itself alone; null if it
// has none.
void* in_libtorch(const char* name);
// {2, 13} of libtorch 2.13; {0, 0} if none is loaded.
struct Version {
  unsigned major, minor;
};
Version libtorch_version();

} // namespace workbook::trace
