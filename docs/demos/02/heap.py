import ctypes


class _Mallinfo2(ctypes.Structure):  # glibc's struct mallinfo2
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks "
        "keepcost").split()]


_mallinfo2 = ctypes.CDLL(None).mallinfo2
_mallinfo2.restype = _Mallinfo2


def in_use() -> int:
    """The bytes that malloc has given out, and that nobody has freed."""
    return _mallinfo2().uordblks
