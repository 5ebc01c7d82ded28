"""The reader of headers sees what an author may write, and nothing else; and what
was recorded is what the installed headers have."""

import re

import pytest

from base.project import ROOT
from base.requirements import install
from names import ONLY_IN_2_9
from torch_stable_abi.libtorch import headers, runtimes, surface
from torch_stable_abi.libtorch.installed import torch_root
from torch_stable_abi.libtorch.versions import numbers

SHIM = """
#define AOTI_TORCH_SHIM
#define THO_AP_1(x) x
#define CALL(x) x
extern "C" {
typedef struct ThingOpaque* ThingHandle;
int aoti_record_thing(
    ThingHandle handle);
#if TORCH_TARGET_VERSION >= 0x020b000000000000
int torch_newer(ThingHandle);
#endif
#ifdef USE_CUDA
int torch_of_cuda(ThingHandle);
#endif
// int torch_in_a_comment(ThingHandle);
}
"""
WRAPPER = """
namespace torch::stable {
namespace detail { int hidden(); }
enum class Kind { One };
class Thing {
 public:
  int size() const;
  template <typename T> T* data() const;
 private:
  int secret();
};
inline int Thing::size() const { return 1; }
template <typename T> T make(Kind kind) { return T(); }
using Number = long;
}
"""


@pytest.fixture
def include(tmp_path):
    for name, text in (("torch/csrc/stable/c/shim.h", SHIM),
                       ("torch/csrc/stable/thing.h", WRAPPER),
                       ("torch/other.h", "int not_stable();")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.full
def test_names_of_a_header(include):
    install("headers")

    def names(target, *defines):
        return {name.name: name.kind for name in
                headers.parse(include, target, defines)}
    of_2_10 = names(10)
    assert of_2_10 == {
        "CALL": "macro", "ThingHandle": "type", "aoti_record_thing": "C function",
        "torch::stable::Kind": "type", "torch::stable::Kind::One": "enumerator",
        "torch::stable::Thing": "type", "torch::stable::Thing::size": "method",
        "torch::stable::Thing::data": "method", "torch::stable::make": "function",
        "torch::stable::Number": "type"}
    assert names(11) == of_2_10 | {"torch_newer": "C function"}
    assert names(10, "USE_CUDA") == of_2_10 | {"torch_of_cuda": "C function"}


@pytest.mark.full
def test_what_was_recorded_is_in_the_installed_headers():
    install("headers")
    minor = numbers(runtimes.installed())[1]
    found = {name.name for name in headers.parse(
        torch_root() / "include", minor, headers.DEFINES)}
    recorded = {row["name"] for row in surface.names()
                if int(row["headers"].split(".")[1]) <= minor
                and int(row["target"].split(".")[1]) <= minor}
    twins = {name for name in found if name.startswith("c10::")}
    dropped = recorded - found
    assert found - twins <= recorded, sorted(found - twins - recorded)
    assert dropped == {*ONLY_IN_2_9}, sorted(dropped)


def test_macros_that_the_solutions_use_are_public_names():
    defined = {name for folder in headers.FOLDERS
               for header in (torch_root() / "include" / folder).rglob("*.h")
               for name in re.findall(r"#define (\w+)", header.read_text())}
    used = {name for path in (ROOT / "solutions").rglob("*")
            if path.suffix in (".h", ".cpp", ".cu", ".cuh")
            for name in re.findall(r"\b[A-Z]+_\w+", path.read_text())}
    names = {row["name"] for row in surface.names() if row["kind"] == "macro"}
    used.remove("TORCH_TARGET_VERSION")  # which the author defines
    assert defined & used <= names, sorted(defined & used - names)


def test_names_that_patterns_did_not_see():
    """A name that does not begin with torch_, one under USE_CUDA, and a method."""
    rows = {row["name"]: row for row in surface.names()}
    assert surface.since("aoti_record_function_start") == "2.9"
    assert rows["aoti_torch_get_current_cuda_stream"]["define"] == "USE_CUDA"
    assert rows["torch::stable::accelerator::Stream::nativeHandle"]["target"] == "2.13"
    assert rows["torch::stable::permute"]["headers"] == "2.14"
    assert rows["torch::stable::permute"]["target"] == "2.10"
    assert "torch::stable::add" not in rows
