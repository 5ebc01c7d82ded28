// operator new and delete of the whole process, libtorch's too, which tell the
// ledger. Linked as objects, since a library's would not be taken.
#include "ledger.h"

#include <new>

void* operator new(size_t bytes) {
  return workbook::Ledger::allocate(bytes);
}
void operator delete(void* address) noexcept {
  workbook::Ledger::deallocate(address);
}
void operator delete(void* address, size_t) noexcept {
  workbook::Ledger::deallocate(address);
}
