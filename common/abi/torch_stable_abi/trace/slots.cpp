#include "slots.h"

#include <torch/csrc/stable/stableivalue_conversions.h>

#include <charconv>
#include <cstdint>
#include <iomanip>
#include <sstream>

namespace workbook {

namespace slots {

namespace {

bool is_optional(const std::string& type) {
  return !type.empty() && type.back() == '?';
}
bool is_list(const std::string& type) {
  return !type.empty() && type.back() == ']';
}
std::string inner(const std::string& type) {
  return type.substr(0, type.size() - (is_list(type) ? 2 : 1));
}

StableIValue make_list(
    const std::string& type, AtenTensorHandle tensor, bool some) {
  StableListHandle list = nullptr;
  torch_new_list_reserve_size(2, &list);
  torch_list_push_back(list, make(type, tensor, some));
  torch_list_push_back(list, make(type, tensor, !some));
  return bits(list);
}

StableIValue make_string(const std::string& text) {
  StringHandle handle = nullptr;
  torch_new_string_handle(text.data(), text.size(), &handle);
  return bits(handle);
}

// In quotes, as it would stand in C++.
std::string quoted(StringHandle string) {
  const char* data = nullptr;
  size_t size = 0;
  torch_string_c_str(string, &data);
  torch_string_length(string, &size);
  std::ostringstream text;
  text << '"' << std::hex;
  for (const char c : std::string(data, size)) {
    if (c == '"' || c == '\\') {
      text << '\\' << c;
    } else if (c == '\n') {
      text << "\\n";
    } else if (c == '\0') {
      text << "\\0";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text << "\\x" << (c < 0x10 ? "0" : "") << int{c};
    } else {
      text << c;
    }
  }
  text << '"';
  return text.str();
}

} // namespace

std::vector<StableIValue> elements(StableIValue list) {
  size_t size = 0;
  torch_list_size(pointer<StableListHandle>(list), &size);
  std::vector<StableIValue> result(size);
  for (size_t i = 0; i < size; ++i) {
    torch_list_get_item(pointer<StableListHandle>(list), i, &result[i]);
  }
  return result;
}

bool is_handle(const std::string& type) {
  return type == "Tensor" || type == "str" || is_list(type);
}

StableIValue make(const std::string& type, AtenTensorHandle tensor, bool some) {
  namespace detail = torch::stable::detail;
  if (is_optional(type)) {
    return some ? bits(new StableIValue(make(inner(type), tensor))) : 0;
  }
  if (is_list(type)) {
    return make_list(inner(type), tensor, some);
  }
  if (type == "Tensor") {
    AtenTensorHandle handle = nullptr;
    aoti_torch_new_tensor_handle(tensor, &handle);
    return bits(handle);
  }
  if (type == "str") {
    return make_string(some ? "longer than the small buffer" : "");
  }
  static const std::map<std::string, StableIValue> plain = {
      {"bool", detail::from(some)},
      {"int", detail::from(int64_t{-1} << 40)},
      {"SymInt", detail::from(int64_t{1} << 62)},
      {"float", detail::from(0.1)},
      {"ScalarType", detail::from(aoti_torch_dtype_bfloat16())},
      {"Layout", detail::from(aoti_torch_layout_sparse_csr())},
      {"MemoryFormat", detail::from(aoti_torch_memory_format_channels_last())},
      {"Device", StableIValue{0xffffffff}}, // cpu, no index
  };
  return plain.at(type);
}

std::map<const void*, std::string>& names() {
  static std::map<const void*, std::string> names;
  return names;
}

std::string hex(StableIValue slot) {
  std::ostringstream text;
  text << "0x" << std::hex << std::setfill('0') << std::setw(16) << slot;
  return text.str();
}

std::string draw(const std::string& type, StableIValue slot) {
  std::ostringstream text;
  if (is_optional(type)) {
    return slot == 0 ? "None"
                     : draw(inner(type), *pointer<StableIValue*>(slot));
  }
  if (is_list(type)) {
    text << '[';
    for (const StableIValue element : elements(slot)) {
      text << (text.tellp() == 1 ? "" : ", ") << draw(inner(type), element);
    }
    text << ']';
  } else if (type == "Tensor") {
    void* data = nullptr;
    aoti_torch_get_data_ptr(pointer<AtenTensorHandle>(slot), &data);
    const auto name = names().find(data);
    name == names().end() ? text << data : text << name->second;
  } else if (type == "str") {
    text << quoted(pointer<StringHandle>(slot));
  } else {
    text << hex(slot);
  }
  return text.str();
}

std::string written(const std::string& type, StableIValue slot) {
  if (is_optional(type) && slot != 0) {
    return written(inner(type), *pointer<StableIValue*>(slot));
  }
  if (is_list(type)) {
    std::string text;
    for (const StableIValue element : elements(slot)) {
      text += (text.empty() ? "" : ", ") + written(inner(type), element);
    }
    return "[" + text + "]";
  }
  if (type == "bool" && slot <= 1) {
    return slot == 0 ? "false" : "true";
  }
  if (type == "int" || type == "SymInt") {
    return std::to_string(static_cast<int64_t>(slot));
  }
  if (type == "float") {
    char text[32];
    const auto value = torch::stable::detail::to<double>(slot);
    return {text, std::to_chars(text, text + sizeof(text), value).ptr};
  }
  return draw(type, slot);
}

void release(const std::string& type, StableIValue slot) {
  if (slot == 0) {
    return;
  }
  if (is_optional(type)) {
    release(inner(type), *pointer<StableIValue*>(slot));
    delete pointer<StableIValue*>(slot);
  } else if (is_list(type)) {
    for (const StableIValue element : elements(slot)) {
      release(inner(type), element);
    }
    torch_delete_list(pointer<StableListHandle>(slot));
  } else if (type == "Tensor") {
    aoti_torch_delete_tensor_object(pointer<AtenTensorHandle>(slot));
  } else if (type == "str") {
    torch_delete_string(pointer<StringHandle>(slot));
  }
}

Blocks blocks(const std::string& type, StableIValue slot, Releases releases) {
  Blocks result;
  if (slot == 0) {
    return result;
  }
  const auto* block = pointer<const void*>(slot);
  if (is_optional(type)) {
    if (releases(block) <= 0) {
      result = blocks(inner(type), *pointer<StableIValue*>(slot), releases);
    }
    result.emplace_back("heap slot of " + type, block);
  } else if (is_handle(type)) {
    const bool drawn = type == "Tensor" && releases(block) == 0;
    result.emplace_back(drawn ? type + " " + draw(type, slot) : type, block);
  }
  if (is_list(type) && releases(block) == 0) {
    size_t i = 0;
    for (const StableIValue element : elements(slot)) {
      for (const auto& [what, inside] :
           blocks(inner(type), element, releases)) {
        result.emplace_back(what + " in [" + std::to_string(i) + "]", inside);
      }
      ++i;
    }
  }
  return result;
}

} // namespace slots
} // namespace workbook
