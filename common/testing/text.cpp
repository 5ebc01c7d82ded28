#include "text.h"

#include <regex>

namespace workbook {

std::vector<std::string> matches(
    const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator i(text.begin(), text.end(), regex), end; i != end;
       ++i) {
    found.push_back(i->str(i->size() > 1 ? 1 : 0));
  }
  return found;
}

std::string matched(const std::string& text, const std::string& pattern) {
  const std::vector<std::string> found = matches(text, pattern);
  return found.empty() ? "" : found.front();
}

std::string replaced(
    const std::string& text,
    const std::string& pattern,
    const std::string& by) {
  return std::regex_replace(text, std::regex(pattern), by);
}

std::string without_place(const std::string& said) {
  static const std::regex place("^[^,]+, [^,]*:[0-9]+, ");
  return std::regex_replace(said, place, "");
}

} // namespace workbook
