#include "bindings.h"

#include "op.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>
#include <utility>
#include <vector>

namespace workbook::trace {

namespace {

// A function of the shim that a library calls, and the address that it has.
struct Binding {
  const char* library;
  const char* function;
  const void* address;
};

bool is_shim(const char* name) {
  return std::strncmp(name, "aoti_torch_", 11) == 0 ||
      std::strncmp(name, "torch_", 6) == 0;
}

// Appends the bindings of a library, from its dynamic section.
void append_bindings(
    const dl_phdr_info& library,
    const ElfW(Dyn) * dynamic,
    std::vector<Binding>& bindings) {
  uint64_t values[DT_NUM] = {};
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    if (dynamic->d_tag < DT_NUM) {
      values[dynamic->d_tag] = dynamic->d_un.d_val;
    }
  }
  const auto* const symbols =
      reinterpret_cast<const ElfW(Sym)*>(values[DT_SYMTAB]);
  const auto* const names = reinterpret_cast<const char*>(values[DT_STRTAB]);
  const std::pair<uint64_t, uint64_t> tables[] = {
      {values[DT_RELA], values[DT_RELASZ]},
      {values[DT_JMPREL], values[DT_PLTRELSZ]}};
  for (const auto& [begin, size] : tables) {
    const auto* const end = reinterpret_cast<const ElfW(Rela)*>(begin + size);
    for (const auto* at = reinterpret_cast<const ElfW(Rela)*>(begin); at < end;
         ++at) {
      const auto& symbol = symbols[ELF64_R_SYM(at->r_info)];
      const char* const name = names + symbol.st_name;
      if (symbol.st_shndx == SHN_UNDEF && is_shim(name)) {
        bindings.push_back(
            {library.dlpi_name,
             name,
             *reinterpret_cast<void**>(library.dlpi_addr + at->r_offset)});
      }
    }
  }
}

int append_bindings(dl_phdr_info* library, size_t, void* bindings) {
  for (size_t i = 0; i < library->dlpi_phnum; ++i) {
    const auto& part = library->dlpi_phdr[i];
    // The kernel's own library, whose name is no path, is not where its table
    // says that it is.
    if (part.p_type == PT_DYNAMIC &&
        std::strchr(library->dlpi_name, '/') != nullptr) {
      append_bindings(
          *library,
          reinterpret_cast<const ElfW(Dyn)*>(library->dlpi_addr + part.p_vaddr),
          *static_cast<std::vector<Binding>*>(bindings));
    }
  }
  return 0;
}

} // namespace

std::string find_untraced_library() {
  std::vector<Binding> bindings;
  if (in_libtorch("aoti_torch_abi_version") != nullptr) {
    dl_iterate_phdr(&append_bindings, &bindings);
  }
  for (const auto& [library, function, address] : bindings) {
    const void* const real = in_libtorch(function);
    const void* const traced = dlsym(RTLD_DEFAULT, function);
    if (address == real && traced != nullptr && traced != real) {
      const char* const slash = std::strrchr(library, '/');
      return slash == nullptr ? library : slash + 1;
    }
  }
  return "";
}

} // namespace workbook::trace
