"""A variant of a Hub kernel, against the Hub's rules, as chapter 08 has them."""

import ast
import base64
import re
import sys

from torch_stable_abi.audit.elf import Library
from torch_stable_abi.audit.findings import FAIL, OK, WARN, Report, join
from torch_stable_abi.audit.platforms import find_policy
from torch_stable_abi.audit.python_files import check_all, find_modules, read_imports
from torch_stable_abi.audit.subject import VARIANT, Subject
from torch_stable_abi.libtorch.versions import numbers

REQUIRED = {"name": str, "id": str, "version": int, "license": str,
            "python-depends": list, "backend": dict}
BACKENDS = ("cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu")
# What a kernel may import besides the standard library, torch and itself: the name in
# python-depends, the module, and the backend, if it is of one.
DEPENDS = {"einops": ("einops", ""), "helion": ("helion", ""),
           "tvm-ffi": ("tvm_ffi", ""), "nvidia-cutlass-dsl": ("cutlass", "cuda"),
           "onednn": ("onednn", "xpu"), "nki": ("nki", "neuron")}
# What the loader lets a layer have: the members of nn.Module, and two flags.
OF_MODULES = {"has_backward", "can_torch_compile", *"""
T_destination _apply _call_impl _compiled_call_impl _get_backward_hooks
_get_backward_pre_hooks _get_name _load_from_state_dict
_maybe_warn_non_full_backward_hook _named_members _register_load_state_dict_pre_hook
_register_state_dict_hook _replicate_for_data_parallel _save_to_state_dict
_slow_forward _version _wrapped_call_impl add_module apply bfloat16 buffers
call_super_init children compile cpu cuda double dump_patches eval extra_repr float
forward get_buffer get_extra_state get_parameter get_submodule half ipu
load_state_dict modules mtia named_buffers named_children named_modules
named_parameters parameters register_backward_hook register_buffer
register_forward_hook register_forward_pre_hook register_full_backward_hook
register_full_backward_pre_hook register_load_state_dict_post_hook
register_load_state_dict_pre_hook register_module register_parameter
register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
set_extra_state set_submodule share_memory state_dict to to_empty train type xpu
zero_grad""".split()}
NAME = re.compile(r"[a-z][-a-z0-9]*[a-z0-9]")
PYTHON_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NEWEST_MANYLINUX, NEWEST_PYTHON = (2, 28), (3, 9)


def check_variant(subject: Subject, reports: list[Report], floor: str | None,
                  report: Report) -> None:
    name = VARIANT.fullmatch(subject.variant)
    if not name:
        report.add("variant-name", FAIL, f"{subject.variant} is no name of a variant: "
                   "the loader passes it over. One is torch-stable-abi210-cpu-x86_64-"
                   "linux")
    _check_metadata(subject, report)
    backend = (name["backend"] if name else None) or ""
    said = re.match(r"torch(?:-stable-abi)?(\d)(\d+)-", subject.variant)
    if said and floor:
        target = f"{said[1]}.{said[2]}"
        report.add("variant-libtorch", OK if numbers(floor) <= numbers(target)
                   else FAIL, f"says libtorch {target}, and needs {floor}")
    if name and name["machine"]:
        wrong = {lib.machine for lib in subject.libraries} - {name["machine"]}
        if wrong:
            report.add("variant-machine", FAIL,
                       f"says {name['machine']}, and holds {join(wrong)}")
    elif subject.libraries and re.fullmatch(r"torch-[a-z]+", subject.variant):
        report.add("variant-machine", FAIL, f"{subject.variant} is for every machine, "
                   f"and holds {subject.libraries[0].name}")
    if subject.libraries:
        _check_platform(subject, reports, report)
        _check_module(subject, report)
        if backend:
            _check_backend(subject, backend, report)
    _check_imports(subject, report)


def _check_metadata(subject: Subject, report: Report) -> None:
    found = subject.metadata
    if not isinstance(found, dict):
        text = found if isinstance(found, str) and "metadata.json" in found else \
            f"metadata.json holds {type(found).__name__}, where an object is expected"
        report.add("variant-metadata", FAIL, text)
        return
    wrong = [f"it lacks {key}" if key not in found else f"{key} is "
             f"{found[key]!r:.40}, where {kind.__name__} is expected"
             for key, kind in REQUIRED.items()
             if not isinstance(found.get(key), kind) or found.get(key) is True]
    if not wrong:
        if not NAME.fullmatch(found["name"]):
            wrong.append(f"the name {found['name']!r} is not of small letters, digits "
                         "and hyphens")
        if not PYTHON_NAME.fullmatch(found["id"]):
            wrong.append(f"the id {found['id']!r} is no name in Python")
        backend = found["backend"].get("type")
        if backend not in BACKENDS:
            wrong.append(f"backend.type is {backend!r}, and no backend of the Hub")
        wrong += [f"python-depends has {name!r}, which the Hub does not admit" + (
            f" for {backend}" if name in DEPENDS else "")
            for name in map(str, found["python-depends"])
            if DEPENDS.get(name, ("", "none"))[1] not in ("", backend)]
    least = found.get("kernels-minver")
    if least is not None and not (
            isinstance(least, str) and re.fullmatch(r"\d+\.\d+\.\d+", least)):
        wrong.append(f"kernels-minver is {least!r:.40}, where three numbers are "
                     "expected, as in 0.17.0")
    for text in wrong:
        report.add("variant-metadata", FAIL, f"metadata.json: {text}")
    _check_digest(subject, found.get("digest"), report)


def _check_digest(subject: Subject, digest, report: Report) -> None:
    if digest is None:
        report.add("variant-digest", WARN, "metadata.json has no digest, which the Hub "
                   "asks for: nobody can tell whether the files are yours")
        return
    files = digest.get("files") if isinstance(digest, dict) else None
    if not isinstance(files, dict) or digest.get("algorithm") not in (
            "sha256", "sha512"):
        report.add("variant-digest", FAIL, "the digest of metadata.json is not "
                   '{"algorithm": "sha256", "files": {...}}, nor that with sha512')
        return
    there = {name: base64.b64encode(sum).decode() for name, sum in subject.sums.items()
             if name not in ("metadata.json", "metadata.json.sigstore")}
    wrong = [f"{n} has its hash in hex, where the loader wants base64"
             if files[n] == subject.sums[n].hex() else f"{n} is another one"
             for n in files if n in there and files[n] != there[n]]
    wrong += [f"{n} is not here" for n in files if n not in there]
    wrong += [f"it does not have {n}" for n in there if n not in files]
    if wrong:
        report.add("variant-digest", FAIL, "the digest is not of these files: "
                   f"{wrong[0]}" + (f" and {len(wrong) - 1} more" if wrong[1:] else ""),
                   wrong)


def _check_platform(subject: Subject, reports: list[Report], report: Report) -> None:
    policy = find_policy(subject.libraries)
    if policy:
        good = not policy.name.startswith("linux") and \
            numbers(policy.name)[:2] <= NEWEST_MANYLINUX
        report.add("variant-manylinux", OK if good else FAIL,
                   f"the Hub takes manylinux_2_28; this needs {policy.name}")
    pythons = [r.python for r in reports if r.python not in ("any", "")]
    if any(p == "one" or numbers(p) > NEWEST_PYTHON for p in pythons):
        report.add("variant-python", FAIL,
                   "the Hub takes the limited API of 3.9 or older")


def _check_module(subject: Subject, report: Report) -> None:
    """Look for the module that _ops.py imports, by its file and its PyInit."""
    if not subject.id:
        return
    file = f"{subject.id}.abi3.so"
    module = next((lib for lib in subject.libraries
                   if lib.name in (file, f"{_package(subject)}/{file}")), None)
    if module is None:
        report.add("variant-module", FAIL, f"there is no {file}, which Python imports; "
                   f"there is {join(lib.name for lib in subject.libraries)}")
        return
    words = set(re.findall(r"\w+", " ".join(subject.python.values())))
    for library in subject.libraries:
        own = re.fullmatch(r"(\w+)\.abi3\.so", library.file)
        if own and library is not module and own[1] not in words and \
                f"PyInit_{own[1]}" in library.exports:
            report.add("variant-module", WARN, f"{library.name} is a module that no "
                       "Python file names: was it left by an older build?")
    if f"PyInit_{subject.id}" not in module.exports:
        other = [n for n in module.exports if n.startswith("PyInit_")]
        report.add("variant-module", FAIL, f"{file} has no PyInit_{subject.id}" + (
            f" but {join(other)}" if other else "") + ": Python does not import it")


def _package(subject: Subject) -> str:
    """Return the folder in which the loader looks if there is no __init__.py above."""
    metadata = subject.metadata if isinstance(subject.metadata, dict) else {}
    return str(metadata.get("name", "")).replace("-", "_")


def _check_backend(subject: Subject, backend: str, report: Report) -> None:
    kind = {"cu": "cuda", "xpu": "xpu", "rocm": "rocm", "cann": "cann"}.get(
        re.sub(r"\d+$", "", backend), re.sub(r"\d+$", "", backend))
    said = subject.metadata.get("backend") if isinstance(subject.metadata, dict) else 0
    type = said.get("type") if isinstance(said, dict) else None
    if isinstance(type, str) and type != kind:
        report.add("variant-backend", FAIL, f"the folder says {backend}, and "
                   f"metadata.json {type}")
    gpu = [lib.name for lib in subject.libraries if _is_for_gpu(lib)]
    if kind == "cpu" and gpu:
        report.add("variant-backend", FAIL, f"says cpu, and {gpu[0]} needs CUDA")
    if kind != "cuda":
        return
    if not gpu:
        report.add("variant-backend", FAIL,
                   f"says {backend}, and no library in it has code for a GPU")
    archs = said.get("archs") if isinstance(said, dict) else None
    code = {f"{m[1]}.{m[2]}" for lib in subject.libraries for a in lib.cuda
            if (m := re.fullmatch(r"\w+_(\d+)(\d[af]?)", a))}
    ptx = {f"{m[1]}.{m[2]}+PTX" for lib in subject.libraries for a in lib.cuda
           if (m := re.fullmatch(r"compute_(\d+)(\d[af]?)", a))}
    lacking = [a for a in map(str, archs if isinstance(archs, list) else ())
               if a not in code | ptx]
    if lacking and code:
        found = f", and PTX for {join(sorted(ptx))}" if ptx else ", and no PTX"
        report.add("variant-backend", WARN, "metadata.json lists the archs "
                   f"{join(lacking)}, and the libraries have code for "
                   f"{join(sorted(code), 9)}" + (
                       found if any("+" in a for a in lacking) else ""))
    major = re.sub(r"\D", "", backend)[:-1]
    other = sorted({n for lib in subject.libraries for n in lib.needed
                    if (m := re.fullmatch(r"libcudart\.so\.(\d+).*", n))
                    and m[1] != major})
    if other:
        report.add("variant-backend", FAIL, f"says {backend}, which is CUDA "
                   f"{major}.{backend[-1]}, and needs {join(other)}")


def _is_for_gpu(library: Library) -> bool:
    return bool(library.cuda) or any(
        re.match(r"lib(cudart|torch_cuda|c10_cuda)\b", n) for n in library.needed)


def _check_imports(subject: Subject, report: Report) -> None:
    """Find imports of the package by its name, and of what the Hub does not admit."""
    metadata = subject.metadata if isinstance(subject.metadata, dict) else {}
    listed = metadata.get("python-depends")
    admitted = {DEPENDS[n][0] for n in listed if isinstance(n, str) and n in DEPENDS} \
        if isinstance(listed, list) else set()
    own = {subject.id, "_ops", str(metadata.get("name", "")).replace("-", "_")} | {
        name.split("/")[0].removesuffix(".py") for name in subject.python}
    if subject.python and not {"__init__.py", f"{_package(subject)}/__init__.py"} & \
            subject.python.keys():
        report.add("variant-imports", FAIL, "there is no __init__.py, and none in "
                   f"{_package(subject)}/")
    backend = metadata.get("backend")
    brought = set() if isinstance(backend, dict) and backend.get("type") == "cpu" \
        else {"triton"}  # which a torch for a GPU requires
    there = find_modules(subject)
    layers = [n for n in subject.python if re.fullmatch(r"(\w+/)?layers(\.py|/.*)", n)]
    whole = "".join(text for n, text in subject.python.items() if n not in layers)
    if layers and "layers" not in whole and "import *" not in whole:
        report.add("variant-layer", WARN, f"no file imports {layers[0]}: the loader "
                   "looks for layers in what __init__.py imports")
    for name, text in sorted(subject.python.items()):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            report.add("variant-imports", FAIL, f"{name}: Python cannot read it: "
                       f"{error}")
            continue
        if re.fullmatch(r"(.*/)?layers(\.py|/.*)", name):
            _check_layers(name, tree, report)
        check_all(name, tree, subject, report)
        for _, line, module in read_imports(name, subject, there):
            if module:
                report.add("variant-imports", FAIL, f"{name}:{line} imports {module}, "
                           "which is not here")
        for module, line in _find_imports(tree):
            if module in own:
                report.add("variant-imports", FAIL, f"{name}:{line} imports {module} "
                           "by its name, which finds another one or none. The dots "
                           "of a relative import find this one")
            elif module not in {"torch", *brought, *admitted, *sys.stdlib_module_names}:
                report.add("variant-imports", FAIL, f"{name}:{line} imports {module}, "
                           "which is not of the standard library, torch or "
                           "python-depends")


def _check_layers(file: str, tree: ast.Module, report: Report) -> None:
    """Warn of a layer with a constructor, or with a member that nn.Module has not: the
    loader puts it into no model."""
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}

    def find_bodies(one: ast.ClassDef, seen: frozenset[str] = frozenset()):
        """Return the class and what it inherits here, or [] if it is no module."""
        found, is_module = [one], False
        for base in map(ast.unparse, one.bases):
            inner = find_bodies(classes[base], seen | {base}) \
                if base in classes and base not in seen else []
            found += inner
            is_module |= bool(inner) or base in ("nn.Module", "torch.nn.Module",
                                                 "Module")
        return found if is_module else []

    for layer in classes.values():
        if layer.name.startswith("_"):
            continue
        for node in [n for one in find_bodies(layer) for n in one.body]:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                report.add("variant-layer", WARN, f"{file}:{node.lineno}: {layer.name} "
                           "has a constructor, so that kernelize refuses it")
            own = [node.name] if isinstance(node, ast.FunctionDef) else \
                [t.id for t in node.targets if isinstance(t, ast.Name)] \
                if isinstance(node, ast.Assign) else [ast.unparse(node.target)] \
                if isinstance(node, ast.AnnAssign) and node.value else []
            for name in own:
                if not name.startswith("__") and name not in OF_MODULES:
                    report.add("variant-layer", WARN, f"{file}:{node.lineno}: "
                               f"{layer.name} has {name}, which nn.Module has not, so "
                               "that kernelize refuses it")


def _find_imports(tree: ast.AST):
    typing = {inner for node in ast.walk(tree) if isinstance(node, ast.If) and
              ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"
              for top in node.body for inner in ast.walk(top)}
    for node in ast.walk(tree):
        if node in typing:
            continue
        if isinstance(node, ast.Import):
            yield from ((a.name.split(".")[0], node.lineno) for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0], node.lineno
