"""The rows of torch_stable_abi.migration, as a page shows them: what goes and what
comes, as a diff, and a note."""

import textwrap

import base  # noqa: F401  (lets the package be imported)
from torch_stable_abi.migration import OPS, ROWS


def since(row: dict) -> str:
    if "stable" not in row:
        return "**None.**"
    if row["headers"] == row["target"]:
        return f"*From {row['target']}.*"
    return f"*From headers {row['headers']}, target {row['target']}.*"


def group(name: str) -> str:
    text = []
    for row in ROWS:
        if row["group"] == name:
            code = "".join(
                textwrap.indent(row[kind].strip() + "\n", sign, lambda _: True)
                for kind, sign in (("unstable", "-"), ("stable", "+"))
                if kind in row)
            title = row["what"][0].upper() + row["what"][1:]
            text.append(f"### {title}\n\n```diff\n{code}```\n\n"
                        f"{since(row)} {row.get('note', '')}".rstrip() + "\n")
    return "\n".join(text)


def ops(name: str) -> str:
    """The ops of a group in one diff, and their notes as a list."""
    pairs, notes = [], []
    for op in OPS:
        if op["group"] == name:
            pairs.append(f"-{op['unstable']}\n" + textwrap.indent(
                op["stable"].strip() + "\n", "+", lambda _: True))
            if "note" in op:
                notes.append(textwrap.fill(
                    f"- `{op['unstable']}`: {op['note']}", 80,
                    subsequent_indent="  ", break_on_hyphens=False))
    text = "```diff\n" + "\n".join(pairs) + "```\n"
    return text + "\n" + "\n".join(notes) + "\n" if notes else text
