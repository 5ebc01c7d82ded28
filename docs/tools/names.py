"""The public names of the stable surface, by header, as the reference's pages show
them."""

import re
from functools import cache

import base  # noqa: F401  (lets the package be imported)
from base.project import ROOT
from tables import table
from torch_stable_abi.libtorch import surface
from torch_stable_abi.migration import ROWS

PAGES = sorted((ROOT / "docs").glob("[0-9][0-9]_*.md")) + [
    ROOT / f"docs/{name}.md" for name in (
        "migration", "port_ops", "port_build", "port_cuda", "port_python",
        "names_by_example")]
ONLY_IN_2_9 = ("DeleterFnPtr", "Tensor")  # in no namespace


@cache
def old_names() -> dict[str, list[str]]:
    """Return {a name: what it stands for}, of the migration table."""
    found: dict[str, list[str]] = {}
    for row in ROWS:
        for old, *new in row.get("port", []):
            first = re.sub(r"\[\[(.*?)(\|.*?)?\]\]", r"\1", old)
            name = re.match(r"[\w:]+|\$\w+\.\w+", first)
            if not new or not name:
                continue
            short = re.sub(r"^\$\w+", "", name[0])
            for one in re.findall(r"(?:torch::)?[A-Za-z_]\w*(?:::\w+)*", new[0]):
                if short not in found.setdefault(one, []) and short != one:
                    found[one].append(short)
    return found


@cache
def words() -> dict[str, set[str]]:
    """Return the words in the code of each page; those of methods also as .name, of
    members of a name as ::name, of what is called as name(, and alone as `name`."""
    def of(text: str) -> set[str]:
        blocks = re.findall(r"^```(\w*).*?\n(.*?)^```", text, re.M | re.S)
        code = [block for language, block in blocks
                if language not in ("sh", "console", "text")]
        code += re.findall(r"`[^`\n]+`", re.sub(r"^```.*?^```", "", text,
                                               flags=re.M | re.S))
        return {word for pattern in (r"\w+", r"`\w+`", r"\w+\(", r"::\w+",
                                     r"\.\w+(?=[(<])")
                for word in re.findall(pattern, "\n".join(code))}
    return {path.name: of(path.read_text()) for path in PAGES}


# Pages of names whose last word means something else on earlier pages.
TOLD_IN = {
    "torch::stable::Tensor::size": "04_boxed_kernels.md",
    "torch::stable::Tensor::stride": "migration.md",
    "torch::stable::Tensor::dim": "09_port_an_extension.md",
    "torch::stable::Generator::get": "names_by_example.md",
    "torch::stable::accelerator::Stream": "06_version_gating.md",
    "torch::stable::amax": "migration.md",
    "torch::stable::detail::to": "02_stableivalue_conversions.md",
    "torch::stable::empty": "migration.md",
    "torch::stable::full": "migration.md",
    "torch::stable::narrow": "05_torch_call_dispatcher.md",
    "torch::stable::to": "04_boxed_kernels.md",
    "to": "04_boxed_kernels.md"}


def told_in(row: dict) -> str:
    """Return a link to the first page that has a name, or "-"."""
    last = row["name"].rpartition("::")[2]
    if page := TOLD_IN.get(row["name"]):
        assert last in words()[page], f"{page} has no {last}"
        return link_to(page)
    wanted = {"method": {f".{last}"}, "enumerator": {f"::{last}"},
              "function": {f"{last}(", f"::{last}", f"`{last}`"}}.get(
                  row["kind"], {last})
    for page, found in words().items():
        if wanted & found:
            return link_to(page)
    return "-"


def link_to(page: str) -> str:
    """Return a link to a page, by its chapter's number or its name."""
    return f"[{page.partition('_')[0] if page[0].isdigit() else page[:-3]}]({page})"


def since(row: dict) -> str:
    def text(version: str) -> str:
        return "2.10" if version == "2.9" else version
    headers, target = text(row["headers"]), text(row["target"])
    return headers if headers == target else f"{headers}, target {target}"


def names(*prefixes: str) -> str:
    """Return a table for each header whose path begins with one of these."""
    headers: dict[str, list[dict]] = {}
    for row in surface.names():
        if row["header"].startswith(prefixes) and row["name"] not in ONLY_IN_2_9:
            headers.setdefault(row["header"], []).append(row)
    parts = []
    for header, rows in sorted(headers.items()):
        lines = [[f'<a id="{row["name"].replace("::", "-")}"></a>`{row["name"]}`',
                  row["kind"] + (f", with `{row['define']}`" if row["define"] else ""),
                  since(row),
                  ", ".join(f"`{old}`" for old in old_names().get(row["name"], [])[:6])
                  or "-", told_in(row)] for row in rows]
        parts.append(f"## {header.rpartition('/')[2]}\n\n`{header}`\n\n" + table(
            ["name", "kind", "headers since", "stands for", "told in"], lines))
    return "\n".join(parts)
