"""Says which sources, and which functions of theirs, are for CUDA."""

import re
from pathlib import PurePosixPath

from torch_stable_abi.port import syntax
from torch_stable_abi.port.syntax import HEADERS, Source, above, join_name, walk

DEVICE_CODE = (".cu", ".cuh")
_CUDA = re.compile(r"\b(cuda[A-Z]\w*|cublas\w*|CUDA(Guard|Stream\w*|Context|Blas\w*)|"
                   r"getCurrentCUDA\w*|__global__|__device__)\b|<cuda|cuda_runtime")
_OF_A_DEVICE = re.compile(r"\b(is_cuda|DeviceGuard|kCUDA)\b")
_CHOOSES = re.compile(r"\b(is_cuda|is_cpu)\s*\(|\.device\(\)\.type\(\)|kCUDA|kCPU")


class Devices:
    """Knows what each source of a project runs on. `texts` has them by their places."""

    def __init__(self, texts: dict[str, str], with_cuda: bool) -> None:
        self.texts = texts
        self.bodies: dict[str, tuple[str, str]] = {}  # (place, text of the body)
        self.choosing: set[str] = set()
        self.outside: dict[str, str] = {}  # {function of no namespace: its place}
        for place, text in texts.items():
            self._read(place, Source(text.encode()))
        code = {place: re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
                for place, text in texts.items()}
        strong = {place for place in texts
                  if place.endswith(DEVICE_CODE) or _CUDA.search(code[place])}
        found = strong | {place for place in texts if _OF_A_DEVICE.search(code[place])}
        self.for_cuda = self._spread(found) if with_cuda and strong else set()

    def _read(self, place: str, source: Source) -> None:
        for node in walk(source.root):
            body = syntax.field(node, "body") if node.type == "function_definition" \
                else None
            declarator = next((one for one in walk(node) if
                               one.type == "function_declarator"), None)
            name = declarator and syntax.field(declarator, "declarator")
            if body is None or name is None:
                continue
            short = join_name(source, name).rpartition("::")[2]
            if not any(one.type == "namespace_definition" for one in above(node)):
                self.outside.setdefault(short, place)
            self.bodies.setdefault(short, (place, source.text_of(body)))
            if any(one.type in ("if_statement", "conditional_expression") and
                   (condition := syntax.field(one, "condition")) is not None and
                   _CHOOSES.search(source.text_of(condition)) for one in walk(body)):
                self.choosing.add(short)

    def _spread(self, found: set[str]) -> set[str]:
        """Add the sources that include one of these, or call what only these define."""
        while True:
            names = {PurePosixPath(place).name for place in found
                     if place.endswith(HEADERS)}
            defined = {name for name, (place, _) in self.bodies.items()
                       if place in found and not place.endswith(HEADERS)}
            more = {place for place, text in self.texts.items() if place not in found
                    and (names & {PurePosixPath(one).name for one in re.findall(
                        r'#\s*include\s*"([^"]+)"', text)}
                    or defined & set(re.findall(r"(\w+)\s*(?:<[^;{}]*>)?\s*\(", text)))}
            if not more:
                return found
            found = found | more

    def find(self, function: str, place: str) -> tuple[str, ...]:
        """Return the dispatch keys of a function that is registered at a place."""
        short = function.rpartition("::")[2]
        place = self.bodies.get(short, (place, ""))[0]
        if place not in self.for_cuda or short.endswith("_cpu"):
            return ("CPU",)
        return ("CPU", "CUDA") if short in self.choosing else ("CUDA",)

    def compiled(self, cuda: bool) -> list[str]:
        """Return the sources that nvcc compiles if `cuda`, else the others."""
        return sorted(place for place in self.texts if not place.endswith(HEADERS)
                      and (place in self.for_cuda) == cuda)

    def folders(self) -> list[str]:
        """Return the folders in which an #include finds headers."""
        return sorted({str(PurePosixPath(place).parent) for place in self.texts} |
                      {place.partition("/")[0] for place in self.texts})
