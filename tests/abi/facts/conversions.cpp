// These tests say what the running libtorch makes of each row of the conversion
// table, and what it and its headers lose, by version.
#include "conversion_table.h"
#include "testing/checks.h"
#include "testing/dispatcher.h"
#include "testing/ledger.h"
#include "testing/shim_slots.h"

#include <doctest/doctest.h>

#include <torch/csrc/stable/device.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/version.h>

#include <dlfcn.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace workbook;
using namespace workbook::rows;
using doctest::Contains;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;
namespace theirs = torch::stable::detail; // PyTorch's own conversions

namespace {

int handles_until_failure = 0; // the n-th new handle of a tensor fails

Tensor filled(float value) {
  return torch::stable::full({2, 3}, value);
}
int deletions(StableIValue slot) {
  return Ledger::deletions(pointer<void>(slot));
}

// Returns the row of the table with these two columns.
const Row& row(const std::string& schema, const std::string& extension) {
  for (const Row& candidate : table()) {
    if (candidate.schema == schema && candidate.extension == extension) {
      return candidate;
    }
  }
  throw std::out_of_range("no row " + schema);
}

// Requires that the row converts. `blocks` is the number of blocks that
// libtorch itself loses each time.
void check_converts(const Row& row, double blocks = 0) {
  const Verdict verdict = run([&] {
    const double left = count_leaks(row.there_and_back);
    if (left != blocks) {
      throw std::logic_error(std::to_string(left) + " blocks were lost");
    }
  });
  CAPTURE(row.schema);
  CAPTURE(verdict.text);
  CHECK(verdict.kind == Verdict::kConverts);
}

// libtorch's reasons, up to the name of the type.
const std::string kTo =
    "conversion from StableIValue to IValue for schema type: ";
const std::string kFrom =
    "conversion from IValue to StableIValue for schema type: ";

void check_refuses(
    const std::function<void()>& experiment, const std::string& reason) {
  const Verdict verdict = run(experiment);
  CHECK(verdict.kind == Verdict::kRefused);
  CHECK(verdict.text.c_str() == Contains(reason.c_str()));
}

// Requires that libtorch takes no such slot and returns none; `type` is
// libtorch's name of the type. Values that only Python can make are tested in
// Python.
void check_refuses(const std::string& schema, const std::string& type) {
  const Row refused = row(schema, "");
  check_refuses(refused.there_and_back, kTo + type);
  if (refused.back != nullptr) {
    check_refuses(refused.back, kFrom + type);
  }
}

// Returns the number of blocks that a call of `body` leaves behind, counted in
// a child process.
double count_lost(const std::function<void()>& body) {
  const Verdict verdict =
      run([&] { throw std::runtime_error(std::to_string(count_leaks(body))); });
  return std::stod(verdict.text);
}

} // namespace

// The program's own comes before libtorch's, for the headers in it.
extern "C" AOTITorchError aoti_torch_new_tensor_handle(
    AtenTensorHandle handle, AtenTensorHandle* result) {
  static const auto next =
      reinterpret_cast<AOTITorchError (*)(AtenTensorHandle, AtenTensorHandle*)>(
          dlsym(RTLD_NEXT, "aoti_torch_new_tensor_handle"));
  return handles_until_failure > 0 && --handles_until_failure == 0
      ? TORCH_FAILURE
      : next(handle, result);
}

// --- The rows of the conversion table ----------------------------------------

TEST_CASE("rows that convert") {
  // Up to 2.13 libtorch loses each string that it reads: one that it is given
  // as an argument, and one that the kernel returns.
  const double strings = libtorch_at_least(14) ? 0 : 2;
  const struct {
    const char* schema;
    const char* extension;
    double lost;
  } expected[] = {
      {"Type?", "std::optional<S>", 0},
      {"Tensor", "torch::stable::Tensor", 0},
      {"Tensor", "AtenTensorHandle of a RAII class", 0},
      {"ScalarType", "torch::headeronly::ScalarType", 0},
      {"Layout", "torch::headeronly::Layout", 0},
      {"MemoryFormat", "torch::headeronly::MemoryFormat", 0},
      {"bool", "bool", 0},
      {"int", "int64_t", 0},
      {"float", "double", 0},
      {"Device", "torch::stable::Device", 0},
      {"str", "std::string", strings},
      {"Type[]", "std::vector<T>, HeaderOnlyArrayRef<T>", 0},
      {"SymInt", "int64_t", 0}};
  for (const auto& [schema, extension, lost] : expected) {
    SUBCASE((std::string(schema) + ": " + extension).c_str()) {
      check_converts(row(schema, extension), lost);
    }
  }
}
TEST_CASE("rows that are refused") {
  const struct {
    const char* schema;
    const char* type; // as libtorch calls it
  } expected[] = {
      {"Stream", "Stream"},
      {"complex", "complex"},
      {"Scalar", "Scalar"},
      {"Storage", "Storage"},
      {"(Type, ...)", "(int, int)"},
      {"SymBool", "SymBool"},
      {"QScheme", "QScheme"}};
  for (const auto& [schema, type] : expected) {
    SUBCASE(schema) {
      check_refuses(schema, type);
    }
  }
  SUBCASE("SymFloat: it cannot be named in a schema") {
    const Row symfloat = row("SymFloat", "");
    check_refuses(symfloat.there_and_back, "unknown type specifier");
    check_refuses(symfloat.back, "unknown type specifier");
  }
  SUBCASE("Scalar, so an op that has one, its default included") {
    const auto add = [] {
      StableIValue stack[] = {
          theirs::from(filled(1)),
          theirs::from(filled(2)),
          theirs::from(int64_t{1})};
      call_op("aten::add", "Tensor", stack);
    };
    check_refuses(add, kTo + "Scalar");
  }
}
TEST_CASE("row Generator: passes unopened from 2.13, and not before") {
  const Row generator = row("Generator", "torch::stable::Generator, from 2.13");
  if (libtorch_at_least(13)) {
    check_converts(generator);
    // libtorch opens it all the same: a slot without a generator is a crash.
    const Verdict null = run([] { send("Generator", 0); });
    CHECK(null.kind == Verdict::kCrashes);
  } else {
    check_refuses(generator.there_and_back, kTo + "Generator");
  }
}
TEST_CASE("the table has its 22 rows") {
  CHECK(table().size() == 22);
}

TEST_CASE("None of any optional and an empty list of any type convert") {
  for (const Op& op : kOps) {
    CAPTURE(op.type);
    CHECK(refusal([&] { none(op); }) == kNothingThrown);
    CHECK(refusal([&] { empty_list(op); }) == kNothingThrown);
  }
}

TEST_CASE("libtorch refuses an unknown code, but for 2.10 and devices") {
  for (const char* name : {"ScalarType", "Layout", "MemoryFormat"}) {
    CAPTURE(name);
    const auto send_it = [&] { send(name, 999); };
    if (libtorch_at_least(11)) {
      check_refuses(send_it, std::string("Not yet supported ") + name + " 999");
    } else {
      CHECK(run(send_it).kind == Verdict::kConverts);
    }
  }
  const auto device = [](StableIValue slot) {
    return [slot] { send("Device", slot); };
  };
  CHECK(run(device(uint64_t{99} << 32)).kind == Verdict::kConverts);
  check_refuses(device(uint64_t{1} << 32 | 300), "out of range for int8_t");
}

TEST_CASE("a dtype that is newer than the target is refused when it crosses") {
  // The one gate that no compiler sees: this file targets 2.10.
  const auto cross = [](ScalarType dtype) {
    return refusal([&] { theirs::from(dtype); });
  };
  CHECK(cross(ScalarType::Float8_e4m3fn) == kNothingThrown);
  CHECK(cross(ScalarType::Float8_e8m0fnu) == Contains("Not yet supported"));
}

// --- What libtorch and its headers get wrong ---------------------------------
// Each is tried in a child process, where its leaks end.

TEST_CASE("the headers up to 2.13 lose each string that they read") {
  const double strings =
      count_lost([] { theirs::to<std::string>(from_string("text")); });
  CHECK(strings == (TORCH_ABI_VERSION < 0x020e000000000000 ? 1 : 0));
}

TEST_CASE("the headers lose what they hold when an element throws") {
  const double slot_of_optional = count_lost([] {
    refusal([] { theirs::to<std::optional<ScalarType>>(from_slot(999)); });
  });
  CHECK(slot_of_optional == 1);

  const Tensor x = filled(5);
  const double handles_before_the_third = count_lost([&] {
    handles_until_failure = 3;
    refusal([&] { theirs::from(std::vector<Tensor>{x, x, x, x}); });
  });
  CHECK(handles_before_the_third == 2);

  const double slots_from_the_third = count_lost([] {
    const StableIValue good = theirs::from(ScalarType::Float);
    Slots in;
    for (const StableIValue code : {good, good, StableIValue{999}, good}) {
      in.push_back(from_slot(code));
    }
    const StableIValue slot = from_slots(in);
    using Dtypes = std::vector<std::optional<ScalarType>>;
    refusal([&] { theirs::to<Dtypes>(slot); });
  });
  CHECK(slots_from_the_third == 2);
}

TEST_CASE("the headers do not widen a float or an int") {
  // The upper half of the slot stays zero: another double, another integer.
  const StableIValue tenth = send("float", theirs::from(0.1f));
  CHECK(theirs::to<double>(tenth) < 1e-300);
  const StableIValue minus_one = send("int", theirs::from(-1));
  CHECK(theirs::to<int64_t>(minus_one) == 4294967295);
}

TEST_CASE("both allocators of an optional's slot are operator new") {
  // An extension for 2.10 to 2.12 makes and deletes slots by its own operators
  // new and delete; one for 2.13 asks libtorch for both. An optional crosses
  // from one to the other only because they are the same in this process.
  using Create = AOTITorchError (*)(StableIValue**);
  const auto create =
      reinterpret_cast<Create>(dlsym(RTLD_DEFAULT, "torch_new_stable_ivalue"));
  CHECK((create != nullptr) == libtorch_at_least(13));

  const Ledger ledger; // which sees operator new, wherever it is called
  const StableIValue slot = send("int_maybe", from_slot(7));
  CHECK(deletions(slot) == 0);
  CHECK(*pointer<StableIValue>(slot) == 7);
  delete pointer<StableIValue>(slot); // made by libtorch
  if (create != nullptr) {
    StableIValue* made = nullptr;
    CHECK(create(&made) == TORCH_SUCCESS);
    CHECK(deletions(theirs::from(made)) == 0);
    *made = 8;
    const StableIValue back = send("int_maybe", theirs::from(made));
    CHECK(deletions(theirs::from(made)) == 1);
    delete pointer<StableIValue>(back);
  }
}
