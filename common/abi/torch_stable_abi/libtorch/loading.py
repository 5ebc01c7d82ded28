"""Loads a library into the libtorch that LD_LIBRARY_PATH has, as Python would,
and prints as JSON the ops that it registered, and those that it has kernels for, or
why it was refused. If it crashes, the line "libtorch said: " has libtorch's last error.

    loading.py LIBTORCH_CPU LIBRARY             all its functions are looked up
    loading.py LIBTORCH_CPU LIBRARY FUNCTION... these alone
"""

import ctypes
import json
import os
import signal
import sys

RTLD_LAZY, RTLD_NOW = 1, 2


class String(ctypes.Structure):  # std::string of libstdc++
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t),
                ("short", ctypes.c_char * 16)]


class Name(ctypes.Structure):  # c10::OperatorName
    _fields_ = [("name", String), ("overload", String)]


class Names(ctypes.Structure):  # std::vector<c10::OperatorName>
    _fields_ = [("begin", ctypes.c_void_p), ("end", ctypes.c_void_p),
                ("capacity", ctypes.c_void_p)]


# Of every libtorch from 2.9 to 2.15. No function of the C shim lists ops.
DISPATCHER = "_ZN3c1010Dispatcher13realSingletonEv"
ALL_OPS = "_ZN3c1010Dispatcher13getAllOpNamesEv"
OPS_OF_KEY = "_ZN3c1010Dispatcher27getAllOpNamesForDispatchKeyENS_11DispatchKeyE"
LAST_ERROR = "torch_exception_get_what_without_backtrace"  # of a thread
KEYS = 256  # more than there are in any


def ops(torch) -> set[str]:
    """Return the ops that have a schema."""
    list_them = torch[ALL_OPS]
    list_them.restype, list_them.argtypes = Names, [ctypes.c_void_p]
    return read_names(list_them(dispatcher(torch)))


def ops_with_kernels(torch) -> set[str]:
    """Return the ops that have a kernel for any key."""
    list_them = torch[OPS_OF_KEY]
    list_them.restype = Names
    list_them.argtypes = [ctypes.c_void_p, ctypes.c_uint16]
    return {name for key in range(KEYS)
            for name in read_names(list_them(dispatcher(torch), key))}


def dispatcher(torch) -> int:
    find = torch[DISPATCHER]
    find.restype = ctypes.c_void_p
    return find()


def read_names(names: Names) -> set[str]:
    def text(string):
        return ctypes.string_at(string.data, string.size).decode()

    if not names.begin:
        return set()
    count = (names.end - names.begin) // ctypes.sizeof(Name)
    return {".".join(filter(None, (text(n.name), text(n.overload))))
            for n in (Name * count).from_address(names.begin)}


def say_last_error_in_a_crash(torch):
    """Let SIGABRT and SIGSEGV print libtorch's last error, which since 2.13 nothing
    else prints. Returns what must be kept."""
    process = ctypes.CDLL(None)

    def handle(number):
        process.signal(number, None)  # so that it ends the process after this
        if hasattr(torch, LAST_ERROR):
            what = torch[LAST_ERROR]
            what.restype = ctypes.c_char_p
            os.write(1, b"\nlibtorch said: " + (what() or b"") + b"\n")
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(handle)
    for number in (signal.SIGABRT, signal.SIGSEGV):
        process.signal(number, handler)
    return handler


def main() -> None:
    torch = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
    kept = say_last_error_in_a_crash(torch)  # noqa: F841
    before = ops(torch)
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
        print(json.dumps({"ops": sorted(ops(torch) - before),
                          "kernels": sorted(ops_with_kernels(torch) - before)}),
              flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
