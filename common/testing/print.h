// How doctest prints a vector: "[2, 3]" instead of "{?}".
#pragma once

#include <doctest/doctest.h>

#include <vector>

template <class T>
struct doctest::StringMaker<std::vector<T>> {
  static String convert(const std::vector<T>& values) {
    String text = "[";
    for (size_t i = 0; i < values.size(); ++i) {
      text += i == 0 ? "" : ", ";
      if (i == 16) {
        text += "...";
        break;
      }
      text += toString(values[i]);
    }
    return text + "]";
  }
};
