// What a loaded library shows to others, and what it needs of them: its symbols
// as `nm -D --defined-only` and `nm -D --undefined-only` print them. And what
// it keeps from call to call.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace workbook {

// Returns the symbols of the library in which `inside` is any address; with
// `required` without the weak ones, which need not be there.
inline std::vector<std::string> symbols(
    const void* inside, bool defined, bool required = false) {
  Dl_info info;
  if (dladdr(inside, &info) == 0) {
    return {};
  }
  std::ifstream stream(info.dli_fname, std::ios::binary | std::ios::ate);
  std::vector<char> file(static_cast<size_t>(stream.tellg()));
  stream.seekg(0).read(file.data(), static_cast<std::streamsize>(file.size()));
  const auto at = [&file](size_t offset, auto& value) {
    std::memcpy(&value, file.data() + offset, sizeof(value));
  };
  ElfW(Ehdr) header;
  at(0, header);
  std::vector<ElfW(Shdr)> sections(header.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i) {
    at(header.e_shoff + i * sizeof(ElfW(Shdr)), sections[i]);
  }
  std::vector<std::string> found;
  for (const auto& section : sections) {
    if (section.sh_type == SHT_DYNSYM) {
      const char* const names =
          file.data() + sections[section.sh_link].sh_offset;
      for (size_t i = 0; i < section.sh_size; i += sizeof(ElfW(Sym))) {
        ElfW(Sym) symbol;
        at(section.sh_offset + i, symbol);
        if ((symbol.st_shndx != SHN_UNDEF) == defined &&
            !(required && ELF64_ST_BIND(symbol.st_info) == STB_WEAK)) {
          found.emplace_back(names + symbol.st_name);
        }
      }
    }
  }
  return found;
}

inline std::vector<std::string> defined_symbols(const void* inside) {
  return symbols(inside, true);
}

inline std::vector<std::string> undefined_symbols(const void* inside) {
  return symbols(inside, false);
}

// Without these the library does not load.
inline std::vector<std::string> required_symbols(const void* inside) {
  return symbols(inside, false, true);
}

// Returns the libraries that it was linked with and needs, "libc10.so" and
// others.
inline std::vector<std::string> needed_libraries(const void* inside) {
  Dl_info info;
  void* extra = nullptr;
  if (dladdr1(inside, &info, &extra, RTLD_DL_LINKMAP) == 0) {
    return {};
  }
  const auto* const begin = static_cast<const link_map*>(extra)->l_ld;
  const char* names = nullptr;
  for (const ElfW(Dyn)* at = begin; at->d_tag != DT_NULL; ++at) {
    if (at->d_tag == DT_STRTAB) { // glibc has made an address of it
      names = reinterpret_cast<const char*>(at->d_un.d_ptr);
    }
  }
  std::vector<std::string> found;
  for (const ElfW(Dyn)* at = begin; at->d_tag != DT_NULL; ++at) {
    if (at->d_tag == DT_NEEDED) {
      found.emplace_back(names + at->d_un.d_val);
    }
  }
  return found;
}

// "" unless something of namespace wb is visible to other libraries: the first
// one that is loaded would then answer for all.
inline std::string not_hidden(const void* inside) {
  for (const std::string& symbol : defined_symbols(inside)) {
    if (symbol.find("N2wb") != std::string::npos) {
      return "what is in namespace wb is not hidden: other libraries of the "
             "process see " +
          symbol;
    }
  }
  return "";
}

// A checksum of the static variables, which all threads share. Between two of
// them AddressSanitizer has bytes that are not for others to read.
__attribute__((no_sanitize("address"))) inline uint64_t static_checksum(
    const void* inside) {
  Dl_info info;
  if (dladdr(inside, &info) == 0) {
    return 0;
  }
  const auto* const base = static_cast<const unsigned char*>(info.dli_fbase);
  ElfW(Ehdr) header;
  std::memcpy(&header, base, sizeof(header));
  uint64_t sum = 0;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    std::memcpy(
        &segment, base + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0) {
      const volatile unsigned char* const bytes = base + segment.p_vaddr;
      for (size_t j = 0; j < segment.p_memsz; ++j) {
        sum = (sum ^ bytes[j]) * 0x100000001b3;
      }
    }
  }
  return sum;
}

} // namespace workbook
