"""Prints, as JSON, what a library calls by name and the schemas that the
running libtorch has for it. It needs C shims alone, and no Python of torch.

    running.py LIBTORCH_CPU LIBRARY     LD_LIBRARY_PATH chooses the version

    --lazy          functions are looked up when they are called
    --load OTHER    is loaded before, for the ops that it defines
    --op NAME       of these ops, such as aten::sum, and of no library
"""

import argparse
import ctypes
import json
import os
import sys

RTLD_LAZY, RTLD_NOW = 1, 2
VISIT = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
KERNEL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)


def find_declared(library) -> list[str]:
    lines = []
    try:
        list_them = library.call_op_declared
    except AttributeError:
        sys.exit("the library declares no call")
    list_them(VISIT(lambda call: lines.append(call.decode())))
    return sorted(set(lines))


def schema(torch, name: str) -> str:
    """Return what libtorch says of an op, or "" if there is no such op. A kernel that
    is registered a second time is warned of, with the schema; and only once in a
    process: hence the fork."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 2)
        namespace, op = name.split("::")
        library, kernel = ctypes.c_void_p(), KERNEL(lambda *_: None)
        torch.aoti_torch_library_init_impl(  # Vulkan: a key that nobody uses
            namespace.encode(), b"Vulkan", b"", 0, ctypes.byref(library))
        for _ in range(2):
            torch.torch_library_impl(
                library, op.encode(), kernel,
                ctypes.c_uint64(torch.aoti_torch_abi_version()))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, errors="replace") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    for line in text.splitlines():
        _, found, rest = line.partition("operator: ")
        if found and rest.startswith(name + "("):
            return rest
    return ""


def open_library(path: str, lazy: bool):
    process = ctypes.CDLL(None)
    process.dlopen.restype = ctypes.c_void_p
    process.dlerror.restype = ctypes.c_char_p
    handle = process.dlopen(os.fsencode(os.path.abspath(path)),
                            RTLD_LAZY if lazy else RTLD_NOW)
    if not handle:
        print(json.dumps({"refused": process.dlerror().decode()}), flush=True)
        os._exit(0)
    return ctypes.CDLL(path, handle=handle)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("libtorch")
    parser.add_argument("library", nargs="?")
    parser.add_argument("--lazy", action="store_true")
    parser.add_argument("--load", action="append", default=[])
    parser.add_argument("--op", action="append", default=[])
    given = parser.parse_args()
    torch = ctypes.CDLL(given.libtorch, ctypes.RTLD_GLOBAL)
    torch.aoti_torch_abi_version.restype = ctypes.c_uint64
    version = torch.aoti_torch_abi_version()
    for path in given.load:
        open_library(path, given.lazy)
    calls = given.op or find_declared(open_library(given.library, given.lazy))
    if not schema(torch, "aten::empty_like"):  # which every version has
        sys.exit("this libtorch does not print schemas as those before did")
    print(json.dumps({
        "libtorch": f"{version >> 56}.{version >> 48 & 255}",
        "calls": calls,
        "schemas": {call: schema(torch, call.partition("(")[0])
                    for call in calls}}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
