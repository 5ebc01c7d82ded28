"""Imports the library as a module once, twice, and by another path, as where one
kernel is loaded from two places.

    python check_module.py LIBRARY FOLDER SLOT

FOLDER is empty, and at SLOT the library holds the address of PyModule_Create2."""

import ctypes
import mmap
import sys
import warnings
from pathlib import Path

from load_library import load_library, read_id


def load_without_warning(library):
    try:
        return load_library(library)
    except RuntimeWarning:
        raise AssertionError(
            "PyModule_Create2 is told of another ABI than Python's stable one, which "
            "has number 3") from None
    except SystemError as error:
        raise AssertionError(
            f"Python says: {error}. It reads the PyModuleDef after PyInit has "
            "returned: is it static?") from None


def check_definition_is_static(module):
    pointer = ctypes.pythonapi.PyModule_GetDef
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object]
    assert ctypes.CDLL(None).dladdr(
        ctypes.c_void_p(pointer(module)), (ctypes.c_void_p * 4)()), \
        "the PyModuleDef is in no library, but on a stack or a thread's own, and " \
        "Python keeps its address: make it static"


def check_imports_again(module, library, folder):
    name = read_id(library)
    assert module.__name__ == load_library(library).__name__ == name, \
        f"the module is {module.__name__}, and should be {name}"
    other = folder / library.name
    other.symlink_to(library)
    assert load_library(other) is not module, \
        "imported by another path it is the first module again: each call has to " \
        "return what PyModule_Create2 makes, which its caller then owns"


def check_told_abi(library, slot):
    """Import it once more, by way of a function that notes the ABI that it is
    told of."""
    create, told = ctypes.pythonapi.PyModule_Create2, []
    create.argtypes = [ctypes.c_void_p, ctypes.c_int]
    create.restype = ctypes.py_object

    @ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
    def create_and_note(definition, abi):
        told.append(abi)
        return create(definition, abi)

    write_slot(find_start(library) + slot, create_and_note)
    init = getattr(ctypes.PyDLL(str(library)), f"PyInit_{read_id(library)}")
    init.restype = ctypes.py_object
    init()
    assert told == [3], \
        f"PyModule_Create2 is told of the ABI {told}; that of Python's stable one is 3"


def find_start(library):
    """Return the address that the library was loaded to."""
    with open("/proc/self/maps") as maps:
        return min(int(line.split("-")[0], 16) for line in maps
                   if line.rstrip().endswith(f"/{library.name}"))


def write_slot(address, function):
    page = ctypes.c_size_t(mmap.PAGESIZE)
    writable = ctypes.c_int(3)
    ctypes.CDLL(None).mprotect(
        ctypes.c_void_p(address & -mmap.PAGESIZE), page, writable)
    ctypes.c_void_p.from_address(address).value = ctypes.cast(
        function, ctypes.c_void_p).value


if __name__ == "__main__":
    library, folder, slot = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("error", RuntimeWarning)
    module = load_without_warning(library)
    check_definition_is_static(module)
    check_imports_again(module, library, folder)
    check_told_abi(library, slot)
