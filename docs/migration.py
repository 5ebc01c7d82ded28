"""The rows of tests/migration.toml, as code to compile and as HTML tables."""

import html
import re
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROWS = tomllib.loads((Path(__file__).resolve().parents[1] /
                      "tests/migration.toml").read_text())["row"]
for row in ROWS:
    row.setdefault("headers", "2.10")
    row.setdefault("target", "2.10")

UNSTABLE_HEADERS = [
    "ATen/ATen.h", "ATen/Dispatch.h", "ATen/OpMathType.h", "ATen/Parallel.h",
    "ATen/cpu/vec/vec.h", "ATen/native/cpu/Loops.h",
    "c10/core/impl/VirtualGuardImpl.h", "torch/custom_class.h",
    "torch/csrc/autograd/custom_function.h", "torch/library.h"]
PARAMETERS = "{0} x, {0} y, {0} out, int64_t n, std::string s, void* p"


def _placed(rows: list[dict], kind: str, tensor: str) -> str:
    """Snippets where they may stand. Rows do not see each other, and what the
    compiler says of the third is said of a file "row_3"."""
    text = ""
    for i, row in enumerate(rows):
        code = row[kind].strip()
        if row.get("scope") != "file":
            code = f"void f({PARAMETERS.format(tensor)}) {{\n{code}\n}}"
        text += f'#line 1 "row_{i}"\nnamespace row_{i} {{\n{code}\n}}\n'
    return text


def unstable_code(rows: list[dict]) -> str:
    names = list(UNSTABLE_HEADERS)
    if any(row.get("python") for row in rows):
        names.append("torch/extension.h")
    return "".join(f"#include <{name}>\n" for name in names) + \
        _placed(rows, "unstable", "at::Tensor")


def stable_code(rows: list[dict], kind: str = "stable") -> str:
    """`kind` of each row, with the rows' own includes, as far as these exist,
    and those of the parameters around."""
    names = [name for row in rows for name in row["include"]]
    if any(row.get("scope") != "file" for row in rows):
        names += ["torch/csrc/stable/tensor.h", "cstdint", "string"]
    defines = {name for row in rows for name in row.get("define", [])}
    return "".join(f"#define {name}\n" for name in sorted(defines)) + "".join(
        f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n"
        for name in dict.fromkeys(names)) + \
        _placed(rows, kind, "torch::stable::Tensor")


def groups() -> list[str]:
    return list(dict.fromkeys(row["group"] for row in ROWS))


def name(group: str) -> str:
    """Of the file that holds the group's table."""
    return "migration_" + re.sub(r"\W+", "_", group.lower())


def _text(text: str) -> str:
    return re.sub(r"`(.*?)`", r"<code>\1</code>", html.escape(text))


def _code(code: str) -> str:
    return f"<pre>{html.escape(code.strip())}</pre>"


def _minima(row: dict) -> str:
    if "stable" not in row:
        return ""
    if row["headers"] == row["target"]:
        return row["target"]
    return f"headers&nbsp;{row['headers']}, target&nbsp;{row['target']}"


def table(group: str) -> str:
    lines = ['<table class="migration"><thead><tr><th>What</th><th>Unstable'
             '</th><th>Stable</th><th>From</th></tr></thead><tbody>']
    for row in ROWS:
        if row["group"] != group:
            continue
        stable = _code(row["stable"]) if "stable" in row else "<b>none</b>"
        note = f"<p>{_text(row['note'])}</p>" if "note" in row else ""
        lines.append(
            f"<tr><th>{_text(row['what'])}</th><td>{_code(row['unstable'])}"
            f"</td><td>{stable}{note}</td><td>{_minima(row)}</td></tr>")
    return "\n".join([*lines, "</tbody></table>"]) + "\n"
