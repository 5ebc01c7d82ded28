"""Changes a character of each of many schemas, and prints as JSON how many libtorch
refuses, how many of these find_fault names, and what it names in right ones."""

import json
import random
import re

import torch

from torch_stable_abi.schemas import schema

random.seed(1)
texts = [str(s).partition("::")[2] for s in torch._C._jit_get_all_schemas()
         if str(s).startswith("aten::")]
texts = [t for t in texts if not re.search(r"\bt\d?\b|\btVal\b|__torch__|\.\.\.", t)]
wrong = [t for t in texts if schema.find_fault(t)]
refused = found = 0
for n, text in enumerate(random.sample(texts, 600)):
    at = random.randrange(len(text))
    inserted = random.choice(["", random.choice(" ,()[]!?=x*") + text[at],
                              text[at].swapcase()])
    text = text[:at] + inserted + text[at + 1:]
    if not re.match(r"[\w.]+\(", text):
        continue
    library = torch.library.Library(f"mutated{n}", "DEF")
    try:
        library.define(text)
        wrong += [text] if schema.find_fault(text) else []
    except (RuntimeError, IndexError):  # IndexError: a number too large
        refused += 1
        found += bool(schema.find_fault(text))
    library._destroy()
print(json.dumps({"refused": refused, "found": found, "found in right ones": wrong}))
