"""The needs of a file in Python: packages, and a version of Python."""

import ast

# What later versions brought, of which these are the likeliest here.
LATER = {"tomllib": "3.11", "file_digest": "3.11", "pairwise": "3.10",
         "batched": "3.12", "StrEnum": "3.11", "TypeAlias": "3.10"}


def find_imports(file):
    """Yield the packages that a file imports by name."""
    for node in ast.walk(ast.parse(file.read_text(), feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


def find_newer_than_3_9(file):
    """Yield, as a text each, what Python 3.9 does not know."""
    try:
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
    except SyntaxError as error:
        yield f"in line {error.lineno} Python 3.9 says: {error.msg}"
        return
    for node in ast.walk(tree):
        names = {getattr(node, "attr", ""), getattr(node, "module", "")} | {
            alias.name for alias in getattr(node, "names", [])
            if isinstance(alias, ast.alias)}
        yield from (f"{name}, which came with Python {LATER[name]}, in line "
                    f"{node.lineno}" for name in names & set(LATER))
        for part in (getattr(node, "annotation", None),
                     getattr(node, "returns", None)):
            if part and any(isinstance(n, ast.BitOr) for n in ast.walk(part)) and \
                    "import annotations" not in file.read_text():
                yield f"{ast.unparse(part)} in line {part.lineno} is a TypeError " \
                    "before Python 3.10"
