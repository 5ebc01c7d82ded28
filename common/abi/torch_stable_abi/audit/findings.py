"""An audit reports findings. Each is made by a rule, about libraries of a subject."""

from dataclasses import dataclass, field

OK, NOTE, WARN, FAIL = LEVELS = "ok", "note", "warn", "FAIL"

# Each rule, and the topic under which a reader sees it. docs/audit.md has a heading for
# each, which the formats for machines link to.
RULES = {
    "oldest-libtorch": "libtorch", "bound-to-one-libtorch": "libtorch",
    "uses-no-libtorch": "libtorch", "unknown-function": "libtorch",
    "can-do-without": "libtorch", "library-for-each-torch": "libtorch",
    "symbols-of-the-shim": "symbols", "unstable-symbols": "symbols",
    "undefined-symbols": "symbols", "needless-libtorch-python": "symbols",
    "calls-by-name": "calls", "op-is-missing": "calls", "schema-changed": "calls",
    "calls-are-declared": "calls", "calls-no-op": "calls",
    "defines": "defines", "schema-is-malformed": "defines",
    "type-cannot-cross": "defines", "refused-by-compile": "defines",
    "dropped-by-compile": "defines", "defined-twice": "defines",
    "in-place-name": "defines", "dispatch-key": "defines",
    "namespace-is-a-macro": "defines",
    "kernels-for-other-ops": "defines", "op-without-kernel": "defines",
    "kernel-of-another-shape": "defines", "namespace-of-the-hub": "defines",
    "platform": "platform", "newer-than-manylinux": "platform",
    "instruction-set": "platform",
    "python": "Python", "private-python": "Python", "newer-python": "Python",
    "module-name": "Python", "imports-no-module": "Python",
    "loads-no-library": "Python", "python-cannot-read": "Python",
    "requires-no-package": "Python", "before-torch": "Python",
    "all-names-nothing": "Python", "refused-by-torch": "Python",
    "one-python-by-name": "Python",
    "needless-python-tag": "Python",
    "cuda-code": "CUDA", "cuda-exact-gpu": "CUDA", "cuda-no-ptx": "CUDA",
    "cuda-ptx-alone": "CUDA", "needs-cuda-torch": "CUDA", "cuda-major": "CUDA",
    "needs-driver": "CUDA",
    "needs-other-library": "linked", "library-is-not-found": "linked",
    "needs-a-place": "linked", "needs-other-version": "linked",
    "brings-libtorch": "linked", "hides-libtorch": "linked",
    "names-no-libtorch": "linked", "rpath": "linked", "cannot-be-opened": "linked",
    "executable-stack": "linked", "code-relocations": "linked",
    "static-tls": "linked", "libcxx": "linked", "no-libstdcxx": "linked",
    "instrumented": "linked", "fast-math": "linked", "debug-information": "linked",
    "gnu-unique": "exports", "visible-symbols": "exports", "name-of-libc": "exports",
    "beside": "beside", "not-read": "beside", "damaged-library": "beside",
    "wheel-machine": "wheel", "wheel-manylinux": "wheel", "wheel-metadata": "wheel",
    "wheel-record": "wheel", "torch-requirement": "wheel",
    "variant-name": "variant", "variant-metadata": "variant",
    "variant-digest": "variant", "variant-libtorch": "variant",
    "variant-backend": "variant", "variant-manylinux": "variant",
    "variant-machine": "variant", "variant-python": "variant",
    "variant-module": "variant", "variant-imports": "variant",
    "variant-layer": "variant",
    "acceptance": "accepted",
}


@dataclass
class Finding:
    rule: str
    level: str
    text: str
    more: list[str] = field(default_factory=list)
    accepted: str = ""  # the reason, if the subject's owner accepts it

    @property
    def topic(self) -> str:
        return RULES[self.rule]


@dataclass
class Report:
    """The findings on libraries that are alike or, without a name, on what holds them
    all."""
    names: list[str]
    findings: list[Finding] = field(default_factory=list)
    floor: str | None = None  # the oldest libtorch
    bound: bool = False  # to the libtorch that it was built with
    python: str = ""  # "any", "one", or the oldest limited API

    def add(self, rule: str, level: str, text: str, more=()) -> None:
        self.findings.append(Finding(rule, level, text, list(more)))

    @property
    def level(self) -> str:
        return worst(self.findings)


def worst(findings) -> str:
    return max((f.level for f in findings if not f.accepted), key=LEVELS.index,
               default=OK)


def join(given, most: int = 4) -> str:
    """Return "a, b, c, d and 3 more"."""
    given = list(given)
    return ", ".join(given[:most]) + (
        f" and {len(given) - most} more" if len(given) > most else "")


def count(things, what: str) -> str:
    return f"{len(things)} {what}{'s' * (len(things) != 1)}"
