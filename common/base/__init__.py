"""The modules that the rooms of the tool share. Importing base makes the package of the
tools for anyone's extension importable as well."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "abi"))
