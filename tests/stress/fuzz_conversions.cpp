// Fuzzes the conversions of chapter 02. A type is chosen, then a value of it:
// there and back it is the same; what the headers' detail::to refuses or gives
// for 64 arbitrary bits, so does Slot<T>::to; and nothing is lost, whether an
// element in the middle converts or not.
#include "bytes.h"
#include "slot.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/stableivalue_conversions.h>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace wb;
using fuzz::Bytes;
using fuzz::require;
template <class T>
using List = std::vector<T>;
template <class T>
using Maybe = std::optional<T>;

template <class T>
struct Make;

template <class T>
T make(Bytes& bytes) {
  return Make<T>::call(bytes);
}
template <class T>
struct Make {
  static T call(Bytes& bytes) {
    if constexpr (std::is_same_v<T, bool>) {
      return bytes.up_to(1) != 0;
    } else if constexpr (std::is_enum_v<T>) {
      // Some have a code and some have none.
      return static_cast<T>(bytes.take<int8_t>());
    } else {
      return bytes.take<T>();
    }
  }
};
template <>
struct Make<std::string> {
  static std::string call(Bytes& bytes) {
    return bytes.text();
  }
};
template <>
struct Make<Tensor> {
  static Tensor call(Bytes&) {
    static const Tensor tensor = torch::stable::empty({2}, ScalarType::Float);
    return tensor;
  }
};
template <class T>
struct Make<Maybe<T>> {
  static Maybe<T> call(Bytes& bytes) {
    return bytes.up_to(3) == 0 ? Maybe<T>() : Maybe<T>(make<T>(bytes));
  }
};
template <class T>
struct Make<List<T>> {
  static List<T> call(Bytes& bytes) {
    List<T> values;
    for (size_t i = bytes.up_to(5); i > 0; --i) {
      values.push_back(make<T>(bytes));
    }
    return values;
  }
};

template <class T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a == b || (a != a && b != b);
  } else {
    return a == b;
  }
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
    const T x = a[i], y = b[i]; // also of vector<bool>
    if (!same(x, y)) {
      return false;
    }
  }
  return a.size() == b.size();
}

// What `call` gives; nothing if it refuses.
template <class Call>
auto result(const Call& call) -> Maybe<decltype(call())> {
  try {
    return call();
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

namespace detail = torch::stable::detail;

// By hand there and by the headers back, and the other way.
template <class T>
void round_trip(Bytes& bytes) {
  const T value = make<T>(bytes);
  const auto by_hand = result([&] { return Slot<T>::from(value); });
  if (!by_hand) {
    return; // an enum without a code
  }
  require(same(Slot<T>::to(*by_hand), value), "there and back by hand");
  const StableIValue slot = Slot<T>::from(value);
  if constexpr (std::is_same_v<T, std::string>) {
    require(same(Slot<T>::to(slot), value), "a second string");
  } else {
    require(same(detail::to<T>(slot), value), "by hand, then the headers");
  }
  require(
      same(Slot<T>::to(detail::from(value)), value),
      "by the headers, then by hand");
  Slot<T>::release(Slot<T>::from(value));
}

// Any 64 bits of a type that owns nothing: both say the same.
template <class T>
void arbitrary(Bytes& bytes) {
  const auto slot = bytes.take<StableIValue>();
  const auto by_hand = result([&] { return Slot<T>::to(slot); });
  const auto theirs = result([&] { return detail::to<T>(slot); });
  if constexpr (std::is_enum_v<T>) {
    // The headers know types that the chapter does not: they may take more.
    require(!by_hand || (theirs && *by_hand == *theirs), "arbitrary bits");
  } else {
    require(by_hand && theirs && same(*by_hand, *theirs), "arbitrary bits");
  }
}

// A list in which element `bad` has no code: refused, and all is released.
void broken_list(Bytes& bytes) {
  StableListHandle list = nullptr;
  const size_t size = 1 + bytes.up_to(4);
  const size_t bad = bytes.up_to(size - 1);
  TORCH_ERROR_CODE_CHECK(torch_new_list_reserve_size(size, &list));
  for (size_t i = 0; i < size; ++i) {
    auto element = Slot<List<ScalarType>>::from(
        List<ScalarType>(bytes.up_to(3), ScalarType::Half));
    if (i == bad) {
      auto* const inner = reinterpret_cast<StableListHandle>(element);
      TORCH_ERROR_CODE_CHECK(torch_list_push_back(inner, 999));
    }
    TORCH_ERROR_CODE_CHECK(torch_list_push_back(list, element));
  }
  const auto slot = reinterpret_cast<StableIValue>(list);
  using T = List<List<ScalarType>>;
  require(!result([&] { return Slot<T>::to(slot); }), "999 is no dtype");
}

using Case = void (*)(Bytes&);
constexpr Case kCases[] = {
    round_trip<bool>,
    round_trip<int64_t>,
    round_trip<double>,
    round_trip<ScalarType>,
    round_trip<Layout>,
    round_trip<MemoryFormat>,
    round_trip<std::string>,
    round_trip<Tensor>,
    round_trip<Maybe<int64_t>>,
    round_trip<Maybe<ScalarType>>,
    round_trip<Maybe<Tensor>>,
    round_trip<List<int64_t>>,
    round_trip<List<Tensor>>,
    round_trip<List<Maybe<Tensor>>>,
    round_trip<List<List<ScalarType>>>,
    round_trip<Maybe<List<int64_t>>>,
    round_trip<List<Maybe<List<ScalarType>>>>,
    arbitrary<int64_t>,
    arbitrary<double>,
    arbitrary<ScalarType>,
    arbitrary<Layout>,
    arbitrary<MemoryFormat>,
    broken_list};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  kCases[bytes.up_to(std::size(kCases) - 1)](bytes);
  return 0;
}
