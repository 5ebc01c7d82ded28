"""The report of a chapter's tests: doctest's XML; tests in Python write the same. It
ends early where their process does, and is read as far as it goes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from base.project import ROOT

LOOK = re.compile(r"look at ([^\s:]+): ?(.*)")
BYTES = 2**26  # a report has less, if the code that is tested has not written it
LATER = "exception thrown in subcase"  # what was thrown is said at its end


@dataclass
class Failure:
    expression: str = ""  # as it stands in the test, or a text of its own
    values: str = ""  # the same with values
    exception: str = ""  # what was thrown instead
    context: list[str] = field(default_factory=list)  # what INFO() said
    file: str = ""
    line: int = 0
    subcase: str = ""  # "outer, inner"

    @property
    def looks(self) -> list[tuple[str, str]]:
        """Return file and text of each LOOK_AT() that holds, the outermost first."""
        found = [LOOK.fullmatch(said) for said in self.context]
        return [(m[1], m[2]) for m in found if m]


@dataclass
class Case:
    name: str
    description: str = ""  # what it means if it fails
    ended: bool = False
    failures: list[Failure] = field(default_factory=list)
    said: list[tuple[str, str]] = field(default_factory=list)  # subcase, MESSAGE()

    @property
    def notes(self) -> list[str]:
        return [text for _, text in self.said]


def read(file: Path) -> list[Case] | None:
    """Return the cases that began; None if none did, or if there is no report."""
    if not file.is_file() or file.stat().st_size > BYTES:  # something else by now
        return None
    cases: list[Case] = []
    subcases: list[str] = []
    left, began = "", False
    for event, element in _events(file.read_text(errors="replace")):
        began, tag = True, element.tag
        if event == "start":
            if tag == "TestCase" and "skipped" not in element.attrib:
                cases.append(Case(element.get("name", ""),
                                  element.get("description", "")))
                left = ""
            elif tag == "SubCase":
                subcases.append(element.get("name", ""))
        elif tag == "SubCase":
            subcases.pop()
        elif tag == "TestCase" and "skipped" not in element.attrib:
            cases[-1].ended = True
        elif tag == "Message" and element.get("type") == "WARNING":
            cases[-1].said.append((", ".join(subcases), _text(element, "Text")))
        elif tag in ("Expression", "Message") and cases:
            cases[-1].failures.append(Failure(
                _text(element, "Original") or _text(element, "Text"),
                _text(element, "Expanded"), _text(element, "Exception"),
                [_text(info) for info in element.iter("Info")],
                element.get("filename", ""), int(element.get("line", 0)),
                ", ".join(subcases)))
        elif tag == "Exception" and "crash" in element.attrib:
            if _text(element).startswith(LATER):
                left = ", ".join(subcases)
            else:
                cases[-1].failures.append(
                    Failure(exception=_text(element), subcase=left))
    return cases if began else None


def in_words(failure: Failure) -> list[str]:
    """Return what a check found. The test's own code is shown only where it is a short
    expression, and no value that equals itself."""
    lines = []
    code, values = failure.expression, failure.values
    if failure.exception:
        thrown = failure.exception.removeprefix('"').removesuffix('"')
        # A table of the op's kernels follows, or where to report a bug of PyTorch.
        thrown = re.split(r" If you are a |[.,]? [Pp]lease file an issue", thrown)[0]
        lines.append(f"your code threw: {thrown}")
    elif values in ("", code):
        lines.append(code)  # a text of the test's own
    else:
        lines += _of_values(code, values)
    if failure.subcase:
        lines.append(f"in: {failure.subcase}")
    context = [said for said in failure.context if not LOOK.fullmatch(said)]
    if context:
        lines.append("with: " + "; ".join(context).replace(" := ", " = "))
    return [tidy(line) for line in lines]


def _of_values(code: str, values: str) -> list[str]:
    left, sign, right = code.partition(" == ")
    got, _, wanted = (s.strip() for s in f" {values} ".partition(" == "))
    if not sign or " == " in right:
        shown = code if _short(code) else "what the test asks"
        return [f"{shown} is {values}" if values in ("true", "false")
                else f"{shown} does not hold: {values}"]
    name = f"{left} is" if _short(left) else "got"
    contains = re.fullmatch(r"Contains\( (.*) \)", wanted, re.S)
    about = re.fullmatch(r"Approx\( (.*) \)", wanted)
    if right == '""':
        return [got]  # a sentence on what is wrong
    if contains and got == "(nothing was thrown)":
        return [f"nothing was thrown; an error that names {contains[1]} was "
                "expected"]
    if wanted == "(nothing was thrown)":
        return [f"this is right, and it is refused: {got}"]
    if contains:
        return [f"the text is: {got}", f"it should contain: {contains[1]}"]
    if got == wanted:
        return [f"{left} is not {right}, in what is not printed"]
    return [f"{name} {got or 'empty'}, and should be " +
            (f"about {about[1]}" if about else wanted or "empty")]


def tidy(text: str) -> str:
    """Take out folders, and the function that STD_TORCH_CHECK puts first.
    A later step's TODO is not the one to do now."""
    text = text.replace(f"{ROOT}/", "/")  # which may have a space
    text = re.sub(r"(?<!\S)[^\s,]+, /\S*/([\w.]+:\d+), ", r"\1: ", text)
    text = re.sub(r"(?<![\w.])/\S*/([\w.-]+)", r"\1", text)
    return re.sub(r"TODO\((\d\d\.\d)\): (.*)",
                  r"\2 (step \1's; what is right before it never comes there)", text)


def _short(code: str) -> bool:
    return len(code) <= 60 and not re.search(r"\[[&=]?\]|\[&|\n|^\(", code)


def _events(text: str) -> Iterator:
    # doctest writes what XML forbids.
    parser: XMLPullParser = XMLPullParser(("start", "end"))
    parser.feed(re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]",
                       "?", text))
    try:
        yield from parser.read_events()
    except ParseError:
        return  # what came before counts


def _text(element: Element, child: str = "") -> str:
    text = element.findtext(child, "") if child else element.text or ""
    return text.strip()
