// What a test found out about the libtorch that is running, for the
// documentation's tables.
#pragma once

#include <string>

namespace workbook {

// Writes {"event": "fact", "what": ..., "value": ...} to the --report.
void fact(const std::string& what, const std::string& value);

} // namespace workbook
