// A function that a loaded library calls, replaced by another for a while: how
// the library would fare with an older libtorch, say, or on another machine.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace workbook {

// Writes to the slots through which the library calls other libraries, so it
// works on nothing that the library itself defines. Without such a slot it
// does nothing.
class Replaced {
 public:
  // `inside` is any address in the library.
  template <class Function>
  Replaced(const void* inside, const char* name, Function* by) {
    Dl_info info;
    link_map* map = nullptr;
    if (dladdr1(
            inside, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP)) {
      collect(*map, name);
    }
    for (const auto& [slot, old] : slots_) {
      write(slot, reinterpret_cast<ElfW(Addr)>(by));
    }
  }
  ~Replaced() {
    for (const auto& [slot, old] : slots_) {
      write(slot, old);
    }
  }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  using Slot = ElfW(Addr) *;

  void collect(const link_map& map, const char* name) {
    const auto entry = [&map](ElfW(Sxword) tag) -> ElfW(Addr) {
      for (const ElfW(Dyn)* at = map.l_ld; at->d_tag != DT_NULL; ++at) {
        if (at->d_tag == tag) {
          return at->d_un.d_ptr;
        }
      }
      return 0;
    };
    const auto* symbols = reinterpret_cast<ElfW(Sym)*>(entry(DT_SYMTAB));
    const auto* names = reinterpret_cast<const char*>(entry(DT_STRTAB));
    for (const auto& [table, size] :
         {std::pair{DT_JMPREL, DT_PLTRELSZ}, std::pair{DT_RELA, DT_RELASZ}}) {
      const auto* first = reinterpret_cast<ElfW(Rela)*>(entry(table));
      const size_t count = first ? entry(size) / sizeof(ElfW(Rela)) : 0;
      for (size_t i = 0; i < count; ++i) {
        const uint64_t symbol = ELF64_R_SYM(first[i].r_info);
        if (symbol != 0 && first[i].r_addend == 0 &&
            std::strcmp(names + symbols[symbol].st_name, name) == 0) {
          const auto slot =
              reinterpret_cast<Slot>(map.l_addr + first[i].r_offset);
          slots_.emplace_back(slot, *slot);
        }
      }
    }
  }

  static void write(Slot slot, ElfW(Addr) value) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t begin = reinterpret_cast<uintptr_t>(slot) & ~(page - 1);
    mprotect(reinterpret_cast<void*>(begin), page, PROT_READ | PROT_WRITE);
    *slot = value;
  }

  std::vector<std::pair<Slot, ElfW(Addr)>> slots_;
};

} // namespace workbook
