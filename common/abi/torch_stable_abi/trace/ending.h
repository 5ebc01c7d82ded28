// How a process ends, and what its end destroys.
#pragma once

namespace workbook::trace {

// From now on, what is held is looked at before anything is destroyed.
void watch_end();

} // namespace workbook::trace
