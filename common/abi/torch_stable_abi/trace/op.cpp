#include "op.h"

#include "blocks.h"

#include <dlfcn.h>
#include <fnmatch.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unordered_map>

namespace workbook::trace {

namespace {

// At the commas that are in no bracket and in no string.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? '\0' : c;
    } else if (quote == 0) {
      depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    }
    if (c == ',' && depth == 0 && quote == 0) {
      parts.emplace_back();
    } else if (c != ' ' || !parts.back().empty()) {
      parts.back() += c;
    }
  }
  if (parts.back().empty()) {
    parts.pop_back();
  }
  return parts;
}

Type type_of(std::string text) {
  static const std::map<std::string, Base> bases = {
      {"Tensor", Base::kTensor},
      {"str", Base::kString},
      {"Dimname", Base::kString},
      {"bool", Base::kBool},
      {"int", Base::kInt},
      {"SymInt", Base::kInt},
      {"DeviceIndex", Base::kInt},
      {"float", Base::kFloat},
      {"ScalarType", Base::kScalarType},
      {"Layout", Base::kLayout},
      {"MemoryFormat", Base::kMemoryFormat},
      {"Device", Base::kDevice},
      {"Generator", Base::kGenerator}};
  Type type{text, Base::kOther, nullptr};
  if (!text.empty() && (text.back() == '?' || text.back() == ']')) {
    const bool list = text.back() == ']';
    type.base = list ? Base::kList : Base::kOptional;
    type.inner = std::make_unique<Type>(
        type_of(text.substr(0, text.size() - (list ? 2 : 1))));
  } else if (const auto found = bases.find(text); found != bases.end()) {
    type.base = found->second;
  }
  return type;
}

// "Tensor(a! -> *)[3]? x=None" is "Tensor[]?".
std::string bare(const std::string& argument) {
  std::string result;
  int depth = 0;
  for (const char c : argument) {
    depth += c == '(';
    if (depth == 0 && (c == ' ' || c == '=')) {
      break;
    }
    if (depth == 0 && c != '!' && (c < '0' || c > '9')) {
      result += c;
    }
    depth -= c == ')';
  }
  return result;
}

std::vector<Type> types(const std::string& text) {
  std::vector<Type> result;
  for (const std::string& argument : split(text)) {
    if (argument != "*") {
      result.push_back(type_of(bare(argument)));
    }
  }
  return result;
}

void parse(Op& op, const std::string& schema) {
  size_t end = schema.find('(');
  const size_t begin = end;
  for (int depth = 0; end < schema.size(); ++end) {
    depth += (schema[end] == '(') - (schema[end] == ')');
    if (depth == 0) {
      break;
    }
  }
  const size_t arrow = schema.find("->", end);
  if (begin == std::string::npos || arrow == std::string::npos) {
    return;
  }
  std::string returns = schema.substr(arrow + 2);
  returns.erase(0, returns.find_first_not_of(' '));
  if (!returns.empty() && returns.front() == '(') {
    returns = returns.substr(1, returns.rfind(')') - 1);
  }
  op.arguments = types(schema.substr(begin + 1, end - begin - 1));
  op.returns = types(returns);
  op.schema = schema;
}

struct Name { // c10::OperatorName
  std::string name, overload;
};
struct Found { // std::optional<c10::OperatorHandle>
  std::array<char*, 4> words{};
  ~Found() {} // not trivial, as that of the optional
};

// What the dispatcher tells of the op, "" if there is none; false if it cannot
// be asked. No function of the C shim tells it. These were the same in every
// libtorch from 2.10 to the newest that is known, and are not tried on others.
bool ask(
    const std::string& name, const std::string& overload, std::string& schema) {
  static const auto get_dispatcher = reinterpret_cast<void* (*)()>(
      in_libtorch("_ZN3c1010Dispatcher13realSingletonEv"));
  static const auto find_schema =
      reinterpret_cast<Found (*)(void*, const Name&)>(
          in_libtorch("_ZN3c1010Dispatcher10findSchemaERKNS_12OperatorNameE"));
  static const auto dump_state = reinterpret_cast<std::string (*)(const void*)>(
      in_libtorch("_ZNK3c104impl13OperatorEntry9dumpStateB5cxx11Ev"));
  static const char* const newest = std::getenv("WORKBOOK_TRACE_NEWEST");
  if (get_dispatcher == nullptr || find_schema == nullptr ||
      dump_state == nullptr || newest == nullptr ||
      libtorch_version().minor > std::strtoul(newest, nullptr, 10)) {
    return false;
  }
  const Found found = find_schema(get_dispatcher(), {name, overload});
  if (found.words[2] == nullptr ||
      (*reinterpret_cast<const char*>(&found.words[2]) & 1) == 0) {
    return true;
  }
  // The entry, and the node of the list that it is in.
  if (found.words[1] != found.words[0] - 2 * sizeof(void*)) {
    return false;
  }
  const std::string state = dump_state(found.words[0]);
  const std::string before = "schema: ";
  const size_t begin = state.find(before);
  if (begin != std::string::npos) {
    const size_t text = begin + before.size();
    schema = state.substr(text, state.find('\n', text) - text);
  }
  return true;
}

struct Ops {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<Op>> ops;
  std::unordered_map<std::string, std::string> defined;
};
Ops& ops() {
  static Ops* const ops = new Ops; // for those who ask after the end
  return *ops;
}

} // namespace

const Op* op_of(std::string_view name, std::string_view overload) {
  const Busy ours;
  std::string full(name);
  if (!overload.empty()) {
    full.append(".").append(overload);
  }
  const std::lock_guard<std::mutex> lock(ops().mutex);
  std::unique_ptr<Op>& op = ops().ops[full];
  if (op == nullptr) {
    op = std::make_unique<Op>();
    op->name = full;
    const char* const pattern = std::getenv("WORKBOOK_TRACE_OP");
    op->shown = pattern == nullptr || fnmatch(pattern, full.c_str(), 0) == 0;
  }
  if (op->schema.empty()) {
    const size_t dot = full.find('.', full.find("::"));
    std::string schema;
    op->asked =
        ask(full.substr(0, dot),
            dot == std::string::npos ? "" : full.substr(dot + 1),
            schema);
    if (!op->asked) {
      schema = ops().defined[full];
    }
    if (!schema.empty()) {
      parse(*op, schema);
    }
  }
  return op.get();
}

void define(const std::string& ns, const char* schema) {
  const Busy ours;
  const std::string text(schema);
  const std::string full =
      text.find("::") < text.find('(') ? text : ns + "::" + text;
  const std::lock_guard<std::mutex> lock(ops().mutex);
  ops().defined[full.substr(0, full.find('('))] = full;
}

void* in_libtorch(const char* name) {
  static void* library = nullptr;
  if (library == nullptr) {
    library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  }
  return library == nullptr ? nullptr : dlsym(library, name);
}

Version libtorch_version() {
  static const auto version =
      reinterpret_cast<uint64_t (*)()>(in_libtorch("aoti_torch_abi_version"));
  if (version == nullptr) {
    return {0, 0};
  }
  const uint64_t bits = version();
  return {
      static_cast<unsigned>(bits >> 56),
      static_cast<unsigned>(bits >> 48 & 255)};
}

} // namespace workbook::trace
