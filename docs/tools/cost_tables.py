"""Tables of what the boundary costs, from docs/results/cost.json."""

import textwrap

from tables import of, read, table
from torch_stable_abi.libtorch.versions import numbers


def shorten(ratio: float) -> str:
    """Return three digits of it, and no more than two behind the point."""
    return f"{ratio:.{0 if ratio >= 100 else 1 if ratio >= 10 else 2}f}"


def ratio_of(ways: dict, how: str) -> str:
    return shorten(ways[how]["ratio"]) if how in ways else ""


def show_made(_) -> str:
    result = read("cost")
    return textwrap.fill(
        f"{of(result)[:-1]}. Python {result['software']['python']}, one thread, the "
        f"median of {result['rounds']} rounds. The machine's load was "
        f"{result['load']} at the start.", 88) + "\n"


def show_arguments(group: dict) -> str:
    def added(what: str, how: str) -> str:
        base = {"nothing": None, "a tensor": "nothing"}.get(what, "a tensor")
        if base is None or how not in group[what]:
            return ""
        more = group[what][how]["ratio"] - group[base][how]["ratio"]
        return f"{more:+.2f}"
    return table(["the op takes", "stable", "adds", "unstable", "adds"], (
        [what, *(cell for how in ("stable", "unstable")
                 for cell in (ratio_of(ways, how), added(what, how)))]
        for what, ways in group.items()))


def show_inside(group: dict) -> str:
    return table(["in the kernel", "stable", "ATen"], (
        [f"`{what.replace(' by name', '')}`" + " by name" * what.endswith(" by name")
         if "(" in what else what,
         ratio_of(ways, "stable"), ratio_of(ways, "unstable")]
        for what, ways in group.items()))


def show_calls(group: dict) -> str:
    return table(["called from Python", "stable", "unstable", "pybind11"], (
        [what, *(ratio_of(ways, how)
                 for how in ("stable op", "unstable op", "pybind11"))]
        for what, ways in group.items()))


def show_gradients(group: dict) -> str:
    names = dict.fromkeys(how for ways in group.values() for how in ways)
    return table(["the gradient", *group], (
        [how, *(ratio_of(ways, how) for ways in group.values())] for how in names))


def show_ways(group: dict) -> str:
    """Show each way, and how many times as long as the first it takes."""
    rows = []
    for what, ways in group.items():
        first = next(iter(ways.values()))["ratio"]
        for i, (how, one) in enumerate(ways.items()):
            rows.append(["" if i else what, how, shorten(one["ratio"]),
                         f"**{shorten(one['ratio'] / first)}**" if i else ""])
    return table(["what", "how", "empty ops", "over the first"], rows)


def show_bill(_) -> str:
    """Show what the slowest port is made of."""
    groups = read("cost")["groups"]
    arguments, inside = groups["arguments"], groups["inside"]
    calls = {what: ways["stable op"]["ratio"]
             for what, ways in groups["calls"].items() if "stable op" in ways}
    tensor = arguments["a tensor"]["stable"]["ratio"]
    [stacked] = [ways["stack, then sum"]["ratio"] for what, ways in
                 groups["ways"].items() if "`a + b` of int64, 16 " in what]
    parts = {
        "the call from Python, with a tensor": calls["an op of a tensor"],
        "a second tensor": arguments["two tensors"]["stable"]["ratio"] - tensor,
        "a `Tensor?`": arguments["a tensor, `Tensor?`"]["stable"]["ratio"] - tensor,
        "`index_select` by name":
            inside["index_select(x, 0, i) by name"]["stable"]["ratio"],
        "`neg` by name": inside["neg(x) by name"]["stable"]["ratio"],
        "`stack` by name, then `sum`": stacked,
        "a new tensor for Python": calls["an op that returns a new tensor"] -
            calls["an op of a tensor"] - inside["empty_like(x)"]["stable"]["ratio"]}
    whole = groups["ported"]["with an index"]["each op by name"]["ratio"]
    rows = [[part, shorten(ratio)] for part, ratio in parts.items()]
    return table(["part", "empty ops"], [
        *rows, ["all parts", f"**{shorten(sum(parts.values()))}**"],
        ["measured", f"**{shorten(whole)}**"]])


def show_wrappers(_) -> str:
    """Show the newest headers' wrappers."""
    versions = read("cost")["wrappers"]
    newest = max(versions, key=numbers)
    return table([f"inside, in {newest.rsplit('.', 1)[0]}", "the wrapper"],
                 ([how, ", ".join(f"`{name}`" for name in names)]
                  for how, names in versions[newest].items()))


PARTS = {"made": show_made, "arguments": show_arguments, "inside": show_inside,
         "calls": show_calls, "gradients": show_gradients, "ways": show_ways,
         "ported": show_ways, "bill": show_bill, "wrappers": show_wrappers}


def cost(part: str) -> str:
    return PARTS[part](read("cost")["groups"].get(part, {}))
