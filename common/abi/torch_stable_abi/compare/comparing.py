"""Says what differs between the results of two libraries."""

import re
from pathlib import Path
from typing import Any


def compare_case(old: dict, new: dict) -> list[str]:
    """Return what differs, a line for each thing."""
    for kind in ("case", "ended", "error"):
        if kind in old or kind in new:
            return _compare_ends(kind, old, new)
    lines = _differ(old["value"], new["value"], "the result")
    lines += _differ(old["arguments"], new["arguments"], "an argument after the call")
    lines += _differ(old["gradients"], new["gradients"], "a gradient")
    for name, what in (("versions", "the arguments' version counters"),
                       ("aliases", "which results are an argument's memory"),
                       ("warnings", "warnings")):
        if old[name] != new[name]:
            lines.append(f"{what}: {old[name]} -> {new[name]}")
    return lines


def _compare_ends(kind: str, old: dict, new: dict) -> list[str]:
    def text(one: dict) -> str:
        end = one.get(kind) or one.get("case") or one.get("ended") or one.get("error")
        if end is None:
            return "a result"
        return ": ".join(end) if isinstance(end, list) else end
    if kind == "ended" and old.get(kind) == new.get(kind):
        return [f"nothing to compare: it {old[kind]}, with both"]
    if kind == "case":
        return [f"the case itself fails: {text(old if 'case' in old else new)}"]
    if _without_place(old.get(kind)) != _without_place(new.get(kind)):
        return [f"{text(old)}", f"-> {text(new)}"]
    return _differ(old.get("arguments"), new.get("arguments"),
                   "an argument after the error")


def _without_place(error: Any) -> Any:
    """Return an error without what STD_TORCH_CHECK puts in front of every text: the
    function, the file and the line."""
    if not isinstance(error, list):
        return error
    return [error[0], re.sub(r"^[^,\n]+, [^\n:]+:\d+, ", "", error[1])]


def _differ(old: Any, new: Any, what: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict) and "tensor" in old and \
            "tensor" in new:
        return [f"{what}: {text}" for text in _differ_as_tensors(old, new)]
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [line for key in old
                for line in _differ(old[key], new[key], f"{what}[{key!r}]")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [line for a, b in zip(old, new) for line in _differ(a, b, what)]
    if isinstance(old, (dict, list)) or isinstance(new, (dict, list)) or old != new:
        return [f"{what}: {_shorten(old)} -> {_shorten(new)}"]
    return []


def _shorten(value: Any) -> str:
    if isinstance(value, dict) and "tensor" in value:
        return f"a tensor of {tuple(value['tensor'].shape)}"
    if isinstance(value, list):
        return f"{value[0]} of {len(value) - 1}" if value else "nothing"
    return str(value)[:60]


def _differ_as_tensors(old: dict, new: dict) -> list[str]:
    import torch
    a, b = old["tensor"], new["tensor"]
    for name in ("dtype", "shape"):
        if getattr(a, name) != getattr(b, name):
            return [f"{name} {getattr(a, name)} -> {getattr(b, name)}"]
    lines = [f"{name} {old[name]} -> {new[name]}" for name in ("strides", "device")
             if old[name] != new[name]]
    same = a.contiguous().reshape(-1).view(torch.uint8).equal(
        b.contiguous().reshape(-1).view(torch.uint8)) if a.numel() else True
    if not same:
        bits = (a != b) if a.is_complex() or not a.is_floating_point() else \
            (a != b) & ~(a.isnan() & b.isnan())
        count = int(bits.sum())
        lines.append(f"{count} of {a.numel()} values differ, by "
                     f"{_find_largest_difference(a[bits], b[bits]):g} at most"
                     if count else "the bits of zeros or NaNs differ")
    return lines


def _find_largest_difference(a: Any, b: Any) -> float:
    if a.is_complex():
        return float((a - b).abs().max())
    if a.is_floating_point():
        return float((a.double() - b.double()).abs().nan_to_num().max())
    return float(max(abs(int(x) - int(y)) for x, y in zip(a.tolist(), b.tolist())))


def read(folder: Path) -> dict[str, dict]:
    import torch
    return {path.stem: torch.load(path, weights_only=True)
            for path in sorted(folder.glob("*.pt"), key=lambda p: p.stat().st_mtime_ns)}
