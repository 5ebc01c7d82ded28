"""Loads a library into the libtorch that LD_LIBRARY_PATH has, as Python would,
and prints as JSON what it registered, or why it was refused. If it crashes, the line
"libtorch said: " has libtorch's last error.

    loading.py LIBTORCH_CPU LIBRARY             all its functions are looked up
    loading.py LIBTORCH_CPU LIBRARY FUNCTION... these alone
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterator

RTLD_LAZY, RTLD_NOW = 1, 2


class String(ctypes.Structure):  # std::string of libstdc++
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t),
                ("short", ctypes.c_char * 16)]


class Name(ctypes.Structure):  # c10::OperatorName
    _fields_ = [("name", String), ("overload", String)]

    def __str__(self) -> str:
        return ".".join(ctypes.string_at(part.data, part.size).decode()
                        for part in (self.name, self.overload) if part.size)


class Names(ctypes.Structure):  # std::vector<c10::OperatorName>
    _fields_ = [("begin", ctypes.c_void_p), ("end", ctypes.c_void_p),
                ("capacity", ctypes.c_void_p)]

    def __len__(self) -> int:
        return ((self.end or 0) - (self.begin or 0)) // ctypes.sizeof(Name)

    def __iter__(self) -> Iterator[Name]:
        if self.begin:
            yield from (Name * len(self)).from_address(self.begin)


class Handle(ctypes.Structure):  # std::optional<c10::OperatorHandle>
    _fields_ = [("op", ctypes.c_void_p), ("place", ctypes.c_void_p),
                ("engaged", ctypes.c_bool)]


# Of every libtorch from 2.9 to 2.15. No function of the C shim lists ops.
DISPATCHER = "_ZN3c1010Dispatcher13realSingletonEv"
ALL_OPS = "_ZN3c1010Dispatcher13getAllOpNamesEv"
OPS_OF_KEY = "_ZN3c1010Dispatcher27getAllOpNamesForDispatchKeyENS_11DispatchKeyE"
FIND_SCHEMA = "_ZN3c1010Dispatcher10findSchemaERKNS_12OperatorNameE"
NAME_OF_KEY = "_ZN3c108toStringENS_11DispatchKeyE"
LAST_ERROR = "torch_exception_get_what_without_backtrace"  # of a thread
KEYS = range(1, 256)  # more than there are in any
UNKNOWN = "UNKNOWN_TENSOR_TYPE_ID"  # is no key


def find_function(torch, name: str, result, *arguments):
    function = torch[name]
    function.restype, function.argtypes = result, arguments
    return function


def find_dispatcher(torch) -> int:
    return find_function(torch, DISPATCHER, ctypes.c_void_p)()


def list_ops(torch) -> Names:
    """Return the ops that have a schema or a kernel."""
    return find_function(torch, ALL_OPS, Names, ctypes.c_void_p)(
        find_dispatcher(torch))


def has_schema(torch, name: Name) -> bool:
    find = find_function(torch, FIND_SCHEMA, Handle, ctypes.c_void_p,
                         ctypes.POINTER(Name))
    return find(find_dispatcher(torch), ctypes.byref(name)).engaged


def list_kernels(torch) -> dict[str, Names]:
    """Return the ops that have a kernel for each dispatch key."""
    list_them = find_function(torch, OPS_OF_KEY, Names, ctypes.c_void_p,
                              ctypes.c_uint16)
    name_of = find_function(torch, NAME_OF_KEY, ctypes.c_char_p, ctypes.c_uint16)
    names = {key: name_of(key).decode() for key in KEYS}
    return {name: list_them(find_dispatcher(torch), key)
            for key, name in names.items() if name != UNKNOWN}


def find_new(before: dict[str, Names], after: dict[str, Names]) -> dict[str, list[str]]:
    """Return {op: the keys for which it has a kernel now}."""
    kernels: dict[str, list[str]] = {}
    for key, ops in after.items():
        if len(ops) != len(before[key]):
            for op in sorted(set(map(str, ops)) - set(map(str, before[key]))):
                kernels.setdefault(op, []).append(key)
    return kernels


def say_last_error_in_a_crash(torch):
    """Let SIGABRT and SIGSEGV print libtorch's last error, which since 2.13 nothing
    else prints. Returns what must be kept."""
    process = ctypes.CDLL(None)

    def handle(number):
        process.signal(number, None)  # so that it ends the process after this
        if hasattr(torch, LAST_ERROR):
            what = torch[LAST_ERROR]
            what.restype = ctypes.c_char_p
            if text := what():
                os.write(1, b"\nlibtorch said: " + text + b"\n")
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(handle)
    for number in (signal.SIGABRT, signal.SIGSEGV):
        process.signal(number, handler)
    return handler


def load_python_half(library: str) -> None:
    """Load libtorch_python.so, if a library needs it and it is there: it registers ops
    itself."""
    with open(library, "rb") as file, contextlib.suppress(OSError):
        if b"\0libtorch_python.so\0" in file.read():
            ctypes.CDLL(os.path.join(os.path.dirname(sys.argv[1]),
                                     "libtorch_python.so"))


def main() -> None:
    torch = ctypes.CDLL(sys.argv[1])  # its names are for who needs it, as in Python
    load_python_half(sys.argv[2])
    kept = say_last_error_in_a_crash(torch)  # noqa: F841
    before, kernels = set(map(str, list_ops(torch))), list_kernels(torch)
    process = ctypes.CDLL(None)
    process.dlopen.restype = ctypes.c_void_p
    process.dlerror.restype = ctypes.c_char_p
    wanted = sys.argv[3:]
    mode = RTLD_LAZY if wanted else RTLD_NOW
    missing = [name for name in wanted if not hasattr(torch, name)]
    if missing:
        print(json.dumps({"refused": f"undefined symbol: {missing[0]}"}), flush=True)
    elif not process.dlopen(os.fsencode(os.path.abspath(sys.argv[2])), mode):
        print(json.dumps({"refused": process.dlerror().decode()}), flush=True)
    else:
        new = {str(name): has_schema(torch, name) for name in list_ops(torch)
               if str(name) not in before}
        print(json.dumps({
            "ops": sorted(op for op, defined in new.items() if defined),
            "undefined": sorted(op for op, defined in new.items() if not defined),
            "kernels": find_new(kernels, list_kernels(torch))}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
