"""Tries each shape of schema on the torch of this Python, and prints as JSON what
eager, opcheck, torch.compile and export make of it.

    running.py LIBRARY
"""

import json
import sys
import warnings

import torch

WIDTH = 240  # characters of a message that are kept
X = torch.tensor([1.0, 2.0, 3.0])
Y, Z = X + 1, X + 2  # what the kernels compute: of x, and of that


def out():
    return torch.zeros(3)


# name, schema, tag, a call that returns what the user sees, what that should be,
# arguments for opcheck. `ops` is torch.ops.shapes.
SHAPES = [
    ("fresh", "(Tensor x) -> Tensor", None,
     lambda ops, x, o: ops.fresh(x), [Y], lambda: (X,)),
    ("list", "(Tensor x) -> Tensor[]", None,
     lambda ops, x, o: ops.list(x), [Y, Z], lambda: (X,)),
    ("number", "(Tensor x) -> int", None,
     lambda ops, x, o: x * ops.number(x), [3 * X], lambda: (X,)),
    ("view", "(Tensor(a) x) -> Tensor(a)", None,
     lambda ops, x, o: ops.view(x), [X[:1]], lambda: (X,)),
    ("write", "(Tensor(a!) out, Tensor x) -> ()", None,
     lambda ops, x, o: (ops.write(o, x), o)[1], [Y], lambda: (out(), X)),
    ("write_optional", "(Tensor(a!)? out, Tensor x) -> ()", None,
     lambda ops, x, o: (ops.write_optional(o, x), o)[1], [Y], lambda: (out(), X)),
    ("write_each", "(Tensor(a!)[] outs, Tensor x) -> ()", None,
     lambda ops, x, o: (ops.write_each([o], x), o)[1], [Y], lambda: ([out()], X)),
    ("write_fresh", "(Tensor(a!) out, Tensor x) -> Tensor", None,
     lambda ops, x, o: [ops.write_fresh(o, x), o], [Z, Y], lambda: (out(), X)),
    ("write_two", "(Tensor(a!) out, Tensor x) -> (Tensor, Tensor)", None,
     lambda ops, x, o: [*ops.write_two(o, x), o], [Z, Y, Y], lambda: (out(), X)),
    ("write_list", "(Tensor(a!) out, Tensor x) -> Tensor[]", None,
     lambda ops, x, o: [*ops.write_list(o, x), o], [Z, Y, Y], lambda: (out(), X)),
    ("write_int", "(Tensor(a!) out, Tensor x) -> int", None,
     lambda ops, x, o: [x * ops.write_int(o, x), o], [3 * X, Y],
     lambda: (out(), X)),
    ("write_return", "(Tensor(a!) out, Tensor x) -> Tensor(a!)", None,
     lambda ops, x, o: ops.write_return(o, x), [Y], lambda: (out(), X)),
    ("plain.out", "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", None,
     lambda ops, x, o: ops.plain(x, out=o), [Y], lambda: (X, out())),
    ("tagged.out", "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", "out",
     lambda ops, x, o: ops.tagged(x, out=o), [Y], lambda: (X, out())),
    ("variant.out", "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", "out_variant",
     lambda ops, x, o: ops.variant(x, out=o), [Y], lambda: (X, out())),
    ("in_place_", "(Tensor(a!) x) -> Tensor(a!)", None,
     lambda ops, x, o: ops.in_place_(o + x), [Y], lambda: (X.clone(),)),
    ("tagged_in_place_", "(Tensor(a!) x) -> Tensor(a!)", "inplace",
     lambda ops, x, o: ops.tagged_in_place_(o + x), [Y], lambda: (X.clone(),)),
    ("unmarked", "(Tensor out, Tensor x) -> ()", None,
     lambda ops, x, o: (ops.unmarked(o, x), o)[1], [Y], lambda: (out(), X)),
    ("unmarked_optional", "(Tensor? out, Tensor x) -> ()", None,
     lambda ops, x, o: (ops.unmarked_optional(o, x), o)[1], [Y],
     lambda: (None, X)),
]
FAKES = {
    "fresh": lambda x: torch.empty_like(x),
    "list": lambda x: [torch.empty_like(x), torch.empty_like(x)],
    "number": lambda x: x.numel(), "view": lambda x: x[:1],
    "write_fresh": lambda out, x: torch.empty_like(x),
    "write_two": lambda out, x: (torch.empty_like(x), torch.empty_like(x)),
    "write_list": lambda out, x: [torch.empty_like(x), torch.empty_like(x)],
    "write_int": lambda out, x: out.numel(),
    "write_return": lambda out, x: out,
    "plain.out": lambda x, *, out: out, "tagged.out": lambda x, *, out: out,
    "variant.out": lambda x, *, out: out,
    "in_place_": lambda x: x, "tagged_in_place_": lambda x: x,
}


def try_out(attempt, expected=None) -> str:
    """Return "ok", "wrong" or "refused: why"."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = attempt()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = next((s for s in lines if not s.startswith("backend=")), "")
        return f"refused: {why or type(error).__name__}"[:WIDTH]
    if expected is None:
        return "ok"
    found = [found] if isinstance(found, torch.Tensor) else list(found)
    same = len(found) == len(expected) and all(map(torch.equal, found, expected))
    return "ok" if same else "wrong"


def try_shape(name, call, expected, arguments) -> dict[str, str]:
    ops = torch.ops.shapes

    def use(x, o):
        return call(ops, x, o)

    class Model(torch.nn.Module):
        def forward(self, x, o):
            return use(x, o)

    def compiled(backend):
        torch._dynamo.reset()
        return torch.compile(use, backend=backend, fullgraph=True)(X, out())

    packet, _, overload = name.partition(".")
    op = getattr(getattr(ops, packet), overload or "default")
    keywords = {}
    if overload:
        first, second = arguments()
        arguments, keywords = (lambda: (first,)), {"out": second}
    return {
        "eager": try_out(lambda: use(X, out()), expected),
        "opcheck": try_out(lambda: torch.library.opcheck(op, arguments(), keywords)
                           and None),
        "aot_eager": try_out(lambda: compiled("aot_eager"), expected),
        "inductor": try_out(lambda: compiled("inductor"), expected),
        "export": try_out(lambda: torch.export.export(
            Model(), (X, out())).run_decompositions({}).module()(X, out()),
            expected)}


def main() -> None:
    library = torch.library.Library("shapes", "DEF")
    shapes = [s for s in SHAPES if s[2] is None or hasattr(torch.Tag, s[2])]
    for name, schema, tag, *_ in shapes:
        library.define(name + schema,
                       tags=(getattr(torch.Tag, tag),) if tag else ())
    torch.ops.load_library(sys.argv[1])
    for name, *_ in shapes:
        torch.library.register_fake(
            f"shapes::{name}", FAKES.get(name, lambda *_, **__: None))
    print(json.dumps({
        name: {"schema": schema, "tag": tag,
               **try_shape(name, call, expected, arguments)}
        for name, schema, tag, call, expected, arguments in shapes}))


if __name__ == "__main__":
    main()
