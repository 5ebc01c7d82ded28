#include "watch.h"

#include <stdexcept>
#include <vector>

namespace workbook {

namespace {

thread_local Watch* current_watch = nullptr;

} // namespace

Watch::Watch(std::map<std::string, Schema> ops)
    : ops_(std::move(ops)), recorder_(&Ledger::deletions) {
  current_watch = this;
}

Watch::~Watch() {
  current_watch = nullptr;
}

Watch* Watch::current() {
  return current_watch;
}

void Watch::call_kernel(
    const std::string& name,
    BoxedKernel kernel,
    const Schema& schema,
    StableIValue* stack,
    const std::function<void(const StableIValue*)>& use) {
  const Ledger::Pause pause;
  recorder_.begin(name);
  recorder_.add(schema.arguments, "argument", stack);
  const std::vector<StableIValue> before(
      stack, stack + schema.arguments.size());
  try {
    const Ledger::Follow follow;
    kernel(stack, schema.arguments.size(), schema.returns.size());
  } catch (...) {
    for (size_t i = 0; i < schema.returns.size(); ++i) {
      if ((i >= before.size() || stack[i] != before[i]) &&
          Ledger::deletions(slots::pointer<void*>(stack[i])) == 0) {
        recorder_.fault(
            i, "return", "<- written before the exception: it leaks");
      }
    }
    throw;
  }
  for (size_t i = schema.returns.size(); i < before.size(); ++i) {
    if (stack[i] != before[i] &&
        Ledger::deletions(slots::pointer<void*>(stack[i])) == 0) {
      recorder_.fault(
          i,
          "result",
          "<- the op returns " +
              (schema.returns.empty()
                   ? "nothing"
                   : std::to_string(schema.returns.size()) + " value(s)") +
              ": nobody takes it, it leaks");
    }
  }
  if (!recorder_.check_owned(schema.returns, "return", stack)) {
    return;
  }
  recorder_.add(schema.returns, "return", stack);
  std::exception_ptr wrong;
  try {
    use(stack);
  } catch (...) {
    wrong = std::current_exception();
  }
  for (size_t i = 0; i < schema.returns.size(); ++i) {
    slots::release(schema.returns[i], stack[i]);
  }
  if (wrong) {
    std::rethrow_exception(wrong);
  }
}

bool Watch::before_call(const std::string& op, const StableIValue* stack) {
  const auto found = ops_.find(op);
  if (found == ops_.end()) {
    return true;
  }
  const Schema& schema = found->second;
  recorder_.begin(op);
  if (!recorder_.check_room(schema, stack) ||
      !recorder_.check_owned(schema.arguments, "argument", stack)) {
    refused_ = true;
    return false;
  }
  recorder_.add(schema.arguments, "argument", stack);
  return true;
}

void Watch::after_call(const std::string& op, const StableIValue* stack) {
  const auto found = ops_.find(op);
  if (found != ops_.end()) {
    recorder_.add(found->second.returns, "return", stack);
  }
}

void Watch::require_clean() {
  const Ledger::Pause pause;
  if (const std::string fault = recorder_.first_fault(); !fault.empty()) {
    throw std::runtime_error(fault);
  }
  recorder_.clear();
}

std::string Watch::trouble_of_one(const std::function<void(Watch&)>& act) {
  recorder_.clear();
  refused_ = false;
  std::string trouble;
  try {
    act(*this);
  } catch (const std::exception& error) {
    const Ledger::Pause pause;
    // Of a call that never reached libtorch, libtorch has no text.
    trouble = refused_ ? "stopped before libtorch: " + recorder_.first_fault()
                       : error.what();
  }
  const Ledger::Pause pause;
  return trouble.empty() ? recorder_.first_fault() : trouble;
}

std::string Watch::trouble(
    const std::function<void(Watch&)>& act, size_t lost_by_libtorch) {
  size_t alive = 0;
  std::string trouble;
  for (int i = 0; i < 3 && trouble.empty() && Ledger::deleted_twice() == 0;
       ++i) {
    alive = Ledger::alive();
    trouble = trouble_of_one(act);
  }
  const Ledger::Pause pause;
  alive += lost_by_libtorch;
  if (trouble.empty() && Ledger::deleted_twice() > 0) {
    trouble = std::to_string(Ledger::deleted_twice()) +
        " block(s) deleted twice, in no slot: was a borrowed handle adopted?";
  } else if (trouble.empty() && Ledger::alive() > alive) {
    trouble = std::to_string(Ledger::alive() - alive) +
        " block(s) never released, that no slot holds";
  }
  return trouble.empty() ? "" : trouble + drawing();
}

std::string Watch::drawing() const {
  const Ledger::Pause pause;
  return recorder_.drawing();
}

std::string watch(
    const std::map<std::string, Schema>& ops,
    const std::function<void(Watch&)>& act,
    std::string* drawing,
    size_t lost_by_libtorch) {
  Watch watch(ops);
  const std::string trouble = watch.trouble(act, lost_by_libtorch);
  if (drawing != nullptr) {
    *drawing = watch.drawing();
  }
  return trouble;
}

Named::Named(
    std::initializer_list<std::pair<torch::stable::Tensor, std::string>>
        tensors) {
  for (const auto& [tensor, name] : tensors) {
    slots::names()[tensor.data_ptr()] = name;
  }
}

Named::~Named() {
  slots::names().clear();
}

} // namespace workbook
