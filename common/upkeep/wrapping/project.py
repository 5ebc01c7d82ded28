"""A project around sources: the files of ours, and theirs."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from torch_stable_abi.port import porting
from torch_stable_abi.port.drafts import draft_functions
from torch_stable_abi.port.report import DONE, LEFT
from torch_stable_abi.port.syntax import HEADERS, Source
from torch_stable_abi.programs import CannotRun
from upkeep.wrapping import writing
from upkeep.wrapping.devices import DEVICE_CODE, Devices
from upkeep.wrapping.registering import TODO, Op, Registrar
from upkeep.wrapping.taking import take

_MARK = re.compile(rf"(?://|#) ({re.escape(TODO)}.*)")


@dataclass
class Project:
    ours: dict[str, str]  # texts by their paths
    theirs: dict[str, str]
    ops: list[Op]
    done: int  # places that port has rewritten
    left: int


def wrap(number: str, name: str, files: dict[str, str], given: list[str],
         target: Path) -> Project:
    """Return a project of template `number`, of whose files `files` are for any op,
    around the sources that are named."""
    core = {PurePosixPath(path).name for path in files
            if "core" in PurePosixPath(path).parts}
    taken = take(given, target, core)
    if number == "04" and (device := [path for place, path in taken.items()
                                      if place.endswith(DEVICE_CODE)]):
        raise CannotRun(f"{device[0]} is for CUDA, which template 04 has not: "
                        "take --from 07")
    if all(place.endswith(HEADERS) for place in taken):
        raise CannotRun("these are headers alone: name the sources that include them")
    devices = Devices({place: path.read_bytes().decode()
                       for place, path in taken.items()}, number != "04")
    if name in devices.outside:
        raise CannotRun(
            f"{taken[devices.outside[name]]} has a function {name}, and the project's "
            "C++ namespace would have the same name: choose another one")
    space = "TORCH_EXTENSION_NAME" if number == "08" else name
    project = _register(taken, given, Registrar(space, [], devices.find))
    ours = {PurePosixPath(path).name for path in files if path.endswith(".h")}
    project.theirs = {place: _mark_includes(place, text, set(taken), devices.folders(),
                                            ours)
                      for place, text in project.theirs.items()}
    project.ours = dict(files)
    writing.write_files(number, project.ours, name, project.ops, devices)
    return project


def _register(taken: dict[str, Path], given: list[str], registrar: Registrar
              ) -> Project:
    """Port the sources and register their ops: what they export or else their public
    functions."""
    places = {path: place for place, path in taken.items()}
    ported, drafts = porting.port(given)
    ported = [one for one in ported if one.path in places]
    registrar.drafts = {(one.name, one.function): one for one in drafts}
    texts = {places[one.path]: registrar.register(places[one.path], one)
             for one in ported}
    if not registrar.ops:
        for one in ported:
            place = places[one.path]
            drafts = [] if place.endswith(HEADERS) else draft_functions(
                [Source(one.old.encode(), one.path)])
            if drafts:
                texts[place] = registrar.append(place, texts[place], drafts)
    return Project({}, texts, registrar.list_ops(),
                   sum(one.count(DONE) for one in ported),
                   sum(one.count(*LEFT) for one in ported))


def _mark_includes(place: str, text: str, taken: set[str], folders: list[str],
                   core: set[str]) -> str:
    """Mark each #include of a header that was not taken in."""
    around = [str(PurePosixPath(place).parent), *folders]

    def mark(found: re.Match) -> str:
        name = found[2]
        if name in core or any(_join(folder, name) in taken for folder in around):
            return found[0]
        return f"// {TODO} {name} is not among the sources.\n{found[0]}"
    return re.sub(r'(?m)^([ \t]*#[ \t]*include[ \t]*")([^"\n]+)"', mark, text)


def _join(folder: str, name: str) -> str:
    parts: list[str] = []
    for part in (*PurePosixPath(folder).parts, *PurePosixPath(name).parts):
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def list_marks(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return the marks at which a person must decide, each as "csrc/a.cpp:12: ..."."""
    return [f"{path}:{number}: {found[1].removeprefix(TODO).strip()}"
            for path, text in texts
            for number, line in enumerate(text.split("\n"), 1)
            if (found := _MARK.search(line))]
