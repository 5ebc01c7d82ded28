"""How many megabytes a process has gained by 50 calls of an op of torchcodec that
are given the name of a file, a megabyte long, that is not there."""

from pathlib import Path

import torch
import torchcodec  # noqa: F401  which loads the library

MEGABYTE = 1 << 20
name = "/" + "x" * MEGABYTE


def calls(times):
    for _ in range(times):
        try:
            torch.ops.torchcodec_ns.create_wav_decoder_from_file(name)
        except RuntimeError:
            continue
        raise AssertionError("was not refused")


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / MEGABYTE


calls(5)
before = resident()
calls(50)
print(round(resident() - before))
