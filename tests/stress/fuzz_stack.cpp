// Fuzzes chapter 03's stack.h. Values that the bytes make are put on a stack
// and taken again; or some slot in it cannot be converted, or the kernel stops
// after taking, or gives less than it should. Whatever happens, the values are
// the same and nothing is lost or released twice.
#include "bytes.h"
#include "stack.h"

#include <torch/csrc/stable/ops.h>

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace {

using c10::ScalarType;
using fuzz::Bytes;
using fuzz::require;
using torch::stable::Tensor;
template <class T>
using List = std::vector<T>;
template <class T>
using Maybe = std::optional<T>;

constexpr StableIValue kNoDtype = 999;

template <class T>
struct Make {
  static T call(Bytes& bytes) {
    if constexpr (std::is_same_v<T, bool>) {
      return bytes.up_to(1) != 0;
    } else if constexpr (std::is_same_v<T, ScalarType>) {
      return static_cast<ScalarType>(bytes.up_to(7));
    } else if constexpr (std::is_same_v<T, Tensor>) {
      static const Tensor one = torch::stable::empty({2}, ScalarType::Float);
      static const Tensor two = torch::stable::empty({3}, ScalarType::Float);
      return bytes.up_to(1) != 0 ? one : two;
    } else if constexpr (std::is_same_v<T, std::string>) {
      return bytes.text();
    } else {
      return bytes.take<T>();
    }
  }
};
template <class T>
struct Make<Maybe<T>> {
  static Maybe<T> call(Bytes& bytes) {
    return bytes.up_to(2) == 0 ? Maybe<T>() : Maybe<T>(Make<T>::call(bytes));
  }
};
template <class T>
struct Make<List<T>> {
  static List<T> call(Bytes& bytes) {
    List<T> values;
    for (size_t i = bytes.up_to(4); i > 0; --i) {
      values.push_back(Make<T>::call(bytes));
    }
    return values;
  }
};

template <class T>
bool same(const T& a, const T& b) {
  return a == b || (a != a && b != b);
}
bool same(const Tensor& a, const Tensor& b) {
  return a.data_ptr() == b.data_ptr();
}
template <class T>
bool same(const List<T>& a, const List<T>& b); // below
template <class T>
bool same(const Maybe<T>& a, const Maybe<T>& b) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}
template <class T>
bool same(const List<T>& a, const List<T>& b) {
  for (size_t i = 0; a.size() == b.size() && i < a.size(); ++i) {
    if (!same(a[i], b[i])) {
      return false;
    }
  }
  return a.size() == b.size();
}
template <class... T, size_t... I>
bool same(
    const std::tuple<T...>& a,
    const std::tuple<T...>& b,
    std::index_sequence<I...>) {
  return (same(std::get<I>(a), std::get<I>(b)) && ...);
}

// Makes a dtype that has no code out of the first one that `slot` holds.
template <class T>
struct Spoil {
  static bool call(StableIValue& slot) {
    if constexpr (std::is_same_v<T, ScalarType>) {
      slot = kNoDtype;
      return true;
    }
    return false;
  }
};
template <class T>
struct Spoil<Maybe<T>> {
  static bool call(StableIValue& slot) {
    auto* const heap_slot = reinterpret_cast<StableIValue*>(slot);
    return heap_slot != nullptr && Spoil<T>::call(*heap_slot);
  }
};
template <class T>
struct Spoil<List<T>> {
  static bool call(StableIValue& slot) {
    auto* const list = reinterpret_cast<StableListHandle>(slot);
    size_t size = 0;
    torch_list_size(list, &size);
    StableIValue element = 0;
    if (size == 0 || torch_list_get_item(list, size / 2, &element) != 0 ||
        !Spoil<T>::call(element)) {
      return false;
    }
    return torch_list_set_item(list, size / 2, element) == 0;
  }
};

template <class... T>
void stack_of(Bytes& bytes) {
  const std::tuple<T...> values{Make<T>::call(bytes)...};
  constexpr size_t kCount = sizeof...(T);
  StableIValue slots[kCount] = {};
  std::apply(
      [&](const T&... value) { wb::from_values(slots, kCount, value...); },
      values);
  const size_t which = bytes.up_to(2 * kCount);
  bool spoilt = false;
  size_t i = 0;
  ((spoilt = i++ == which ? Spoil<T>::call(slots[i - 1]) : spoilt), ...);
  try {
    const std::tuple<T...> got = wb::to_values<T...>(slots, kCount);
    require(!spoilt, "999 is no dtype");
    require(same(got, values, std::index_sequence_for<T...>()), "the values");
    if (bytes.up_to(3) == 0) {
      return; // the kernel stops here
    }
    std::apply(
        [&](const T&... value) { wb::from_values(slots, kCount, value...); },
        got);
    wb::to_values<T...>(slots, kCount); // and the caller has them
  } catch (const std::runtime_error&) {
    require(spoilt, "a good slot is refused");
  }
  // A wrong count is refused before anything is touched.
  try {
    wb::to_values<T...>(slots, kCount + 1);
    require(false, "a wrong count is taken");
  } catch (const std::runtime_error&) {
  }
}

using Case = void (*)(Bytes&);
constexpr Case kCases[] = {
    stack_of<Tensor>,
    stack_of<Tensor, Tensor>,
    stack_of<Tensor, ScalarType>,
    stack_of<ScalarType, Tensor, std::string>,
    stack_of<Tensor, Maybe<ScalarType>, List<Tensor>, std::string>,
    stack_of<List<Maybe<Tensor>>, int64_t, List<ScalarType>, Tensor>,
    stack_of<std::string, List<std::string>, Maybe<ScalarType>, Tensor>,
    stack_of<Maybe<List<int64_t>>, double, bool, Maybe<Tensor>, ScalarType>,
    stack_of<ScalarType, Maybe<Tensor>, List<Maybe<std::string>>>,
    stack_of<Maybe<ScalarType>, Maybe<List<Tensor>>, Maybe<std::string>>,
    stack_of<List<List<ScalarType>>, Tensor, List<Maybe<ScalarType>>>};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  kCases[bytes.up_to(std::size(kCases) - 1)](bytes);
  return 0;
}
