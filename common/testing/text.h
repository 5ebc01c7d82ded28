// Regular expressions, of ECMAScript. <regex> would take a third of the time
// that a test takes to compile: it is compiled here, once for all.
#pragma once

#include <string>
#include <vector>

namespace workbook {

// Each match in the text: its first group, or all of it if there is none.
std::vector<std::string> matches(
    const std::string& text, const std::string& pattern);

// The first match; "" for none.
std::string matched(const std::string& text, const std::string& pattern);

// The text with each match replaced by `by`, in which $1 is the first group.
std::string replaced(
    const std::string& text, const std::string& pattern, const std::string& by);

// What the author of a check wrote: without the "function, file:line, " that
// STD_TORCH_CHECK puts before it.
std::string without_place(const std::string& said);

} // namespace workbook
