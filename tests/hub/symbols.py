"""The symbols of a library, and the rules of manylinux for them."""

import io
import re
import subprocess

from elftools.elf.elffile import ELFFile

# manylinux_2_28: the newest version of each that AlmaLinux 8 has.
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11),
          "GCC": (7, 0, 0)}
NEEDED = r"libtorch(_cpu|_cuda)?\.so|libc10(_cuda)?\.so|libcudart\.so\.\d+|" \
         r"libstdc\+\+\.so\.6|libgcc_s\.so\.1|libc\.so\.6|libm\.so\.6|ld-linux"
STRONG = 1  # the binding of a symbol that others find: STB_GLOBAL


def read_elf(library, *options):
    """Return what readelf prints."""
    return subprocess.run(["readelf", "-W", *options, library], text=True,
                          capture_output=True, check=True).stdout


def list_symbols(library, *options):
    """Return what nm prints."""
    return subprocess.run(["nm", *options, library], text=True,
                          capture_output=True, check=True).stdout


def demangle(symbols):
    """Return the names in C++, without parameters and template arguments."""
    text = subprocess.run(["c++filt"], input="\n".join(symbols), text=True,
                          capture_output=True, check=True).stdout
    while (less := re.sub(r"\([^()]*\)|<[^<>]*>|\[abi:\w+\]", "", text)) != text:
        text = less
    return ", ".join(text.splitlines())


def find_too_new(symbols):
    """Return the name and version of each symbol that manylinux_2_28 lacks. `symbols`
    is readelf's list of the dynamic ones."""
    return sorted(
        (name, f"{tag}_{version}") for name, tag, version in re.findall(
            r"UND (\w+)@+([A-Z]+)_([\d.]+)", symbols)
        if tag in NEWEST and tuple(map(int, version.split("."))) > NEWEST[tag])


def find_slot(library, name):
    """Return where the dynamic linker writes the address of another library's
    function, from the library's beginning; 0 if it does not."""
    file = ELFFile(io.BytesIO(library.read_bytes()))
    names = file.get_section_by_name(".dynsym")
    return next((relocation["r_offset"] for part in (".rela.plt", ".rela.dyn")
                 if (found := file.get_section_by_name(part))
                 for relocation in found.iter_relocations()
                 if names.get_symbol(relocation["r_info_sym"]).name == name), 0)


def read_byte(library, name):
    """Return the value of a variable of one byte; 0 where it is not there, or in
    no section that the file holds."""
    file = ELFFile(io.BytesIO(library.read_bytes()))
    for symbol in file.get_section_by_name(".symtab").get_symbol_by_name(name) or []:
        section = file.get_section(symbol["st_shndx"])
        if section["sh_type"] != "SHT_NOBITS":
            return section.data()[symbol["st_value"] - section["sh_addr"]]
    return 0


def list_visible(library):
    """Return what another kernel in the process could be bound to, without names
    that are the same in all kernels: those of std, of torch and of CUDA."""
    names = re.findall(r" ([A-Zu]) (.*)",
                       list_symbols(library, "-DC", "--defined-only"))
    return {name for kind, name in names if kind not in "WVu" or re.search(
        r"wb::|silu|gelu|launch|functional", name)} - {
            "__bss_start", "_edata", "_end"}
