"""Compares what the ops of docs/examples/names.cpp give with what the page says and
PyTorch gives: LIBRARY, and the minor versions of its headers and its target."""

import ctypes
import sys

import torch
from pytest import raises

path, headers, target = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.ops.load_library(path)
o = torch.ops.examples
x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

# Devices
assert o.about_device(torch.device("cpu")) == [0, -1, 0, 1, 0, 1, 1]
assert o.about_device(torch.device("cuda:1")) == [1, 1, 1, 0, 1, 0, 0]
assert o.types_that_cross() == [1] * 6 + [0] * 15
assert (o.index_of("cuda:3"), o.index_of("cpu")) == (3, -1)
with raises(RuntimeError, match="Expected one of cpu, cuda, ipu" if headers >= 14
            else "parse_device_string"):
    o.index_of("gpu")

# What a tensor is
text = o.describe(x.t()[1:])
assert text.startswith(
    "2 dimensions, 4 elements of 4 bytes, Float, 2 by 1, 2 by 3, last 2 by 3, "
    "offset 1, not contiguous, CPU, index -1"), text
assert o.describe(torch.tensor(1.0)).startswith("0 dimensions, 1 elements")
assert o.describe_undefined() == "undefined"
assert (", strided" in text) == (headers >= 11)
assert (", with a storage" in text) == (target >= 14)
assert (", another layout" in o.describe(x.to_sparse())) == (headers >= 11)
assert o.shapes(x) == [2, 2, 3, 3, 1, 0, 1]

# Data pointers
out = torch.empty(2, 3)
o.add_one(x, out)
assert torch.equal(out, x + 1)
with raises(RuntimeError, match="expected scalar type .*Float but found Double"):
    o.add_one(x.double(), out)
with raises(RuntimeError, match="expected scalar type .*Float but found Half"):
    o.add_one(x, out.half())

# Making tensors
zeros, sevens, longs, halves, image = o.make(x)
assert torch.equal(zeros, torch.zeros(2, 3))
assert torch.equal(sevens, torch.full([2], 7.0))
assert torch.equal(longs, torch.zeros(2, dtype=torch.int64))
assert torch.equal(halves, torch.full([2, 2], 0.5, dtype=torch.float64))
assert image.is_contiguous(memory_format=torch.channels_last)
assert image.dtype == torch.float16
assert torch.equal(o.around_a_table(), x)
if target >= 11:
    a = o.around_an_array(5)
    b = a[1:]
    del a
    assert o.freed_elements() == 0 and torch.equal(b, torch.zeros(4, dtype=torch.int64))
    del b
    assert o.freed_elements() == 5

# Changing and viewing
wanted = [x.view(3, 2), x.reshape(-1), x.t(), x[:, :2], x[-1], x[None], x, x.flatten()]
for got, want in zip(o.views(x), wanted, strict=True):
    assert torch.equal(got, want)
    assert got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
with raises(RuntimeError, match="Use .reshape|aten::view"):
    o.views(x.t().contiguous().t())
wanted = [x + x, x, x.double(), x, x.t(), x.sum(0), x.sum(), x.double().sum(0, True),
          x.amax(1), x.amax((0, 1), True), x @ x.t(),
          torch.nn.functional.pad(x, (1, 2), value=9)]
for got, want in zip(o.copies(x), wanted, strict=True):
    assert got.dtype == want.dtype and torch.equal(got, want)
    assert got.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
if headers >= 14:
    i = torch.tensor([2, 1])
    wanted = [x.t(), x[:, i], x // x, i & i, i | i, i << i, i >> i]
    if headers >= 15:
        wanted += x.sort(1, True)
    for got, want in zip(o.newer(x, i), wanted, strict=True):
        assert torch.equal(got, want)

# Registration
assert o.digits.default.tags == ([torch.Tag.pt2_compliant_tag] if target >= 12 else [])
pystub = ("examples.fakes", "") if target >= 13 else None
assert torch._C._dispatch_pystub("examples::digits", "") == pystub
with raises(NotImplementedError, match="import the 'examples.fakes' Python module to "
            "load the fake impl" if target >= 13 else "no fake impl"):
    o.digits(x.to("meta"))

# Checks
with raises(RuntimeError, match=r"^check, .*names.cpp:\d+, check: how is 0, x has 2 "):
    o.check(x, 0)
with raises(RuntimeError, match=r"^check, .*names.cpp:\d+, $"):
    o.check(x, 1)
call = r"aoti_torch_get_size\(x.get\(\), 9, &size\) API call failed at .*names.cpp, "
with raises(RuntimeError, match="^" + call):
    o.check(x, 2)
if headers >= 13:
    with raises(RuntimeError, match=r"^Dimension out of range .* but got 9\) "
                r"\(originally from " + call):
        o.check(x, 3)

# Dtypes
assert o.list_of_types() == (
    "Byte 1, Char 1, Short 2, Int 4, Long 8, Float 4, Double 8, Half 2, BFloat16 2, "
    "ComplexFloat 8, ComplexDouble 16, Float8_e5m2 1, Float8_e4m3fn 1, "
    "Float8_e5m2fnuz 1, Float8_e4m3fnuz 1, Float8_e8m0fnu 1, QInt8 1, QUInt8 1, "
    "QInt32 4, QUInt4x2 1, QUInt2x4 1, 5 integers, QUInt8 is Byte, 0")

# Dispatch
for dtype in (torch.uint8, torch.int64, torch.float64, torch.half, torch.bfloat16):
    assert torch.equal(o.twice(x.to(dtype)), x.to(dtype) * 2)
with raises(RuntimeError, match="\"twice\" not implemented for 'Bool'"):
    o.twice(x.bool())
assert (o.digits(x), o.digits(x.half())) == (24, 11)
with raises(RuntimeError, match="\"digits\" not implemented for 'Double'"):
    o.digits(x.double())

# Accessors
assert o.total(x.t()) == 21 and o.packed(x, 1) == [3, 1, 2, 3]
for bad in (2, -1):
    with raises(RuntimeError, match=f"Index {bad} is not within bounds of a tensor of "
                "dimension 2"):
        o.packed(x, bad)

# Number types
nan = "nan"
largest = 448 if headers >= 13 else nan
for value, wanted in {
        1.1: [1.099609375, 1.1015625, 1.125, 1.125, 1, 1, 1],
        464.1: [464, 464, largest, nan, 448, 448, 512],
        60000.0: [60000, 59904, largest, nan, 57344, 57344, 65536],
        70000.0: ["inf", 70144, largest, nan, "inf", nan, 65536],
        -3.0: [-3, -3, -3, -3, -3, -3, 4]}.items():
    assert list(map(str, o.rounded(value)[:7])) == [str(w) if w in (nan, "inf") else
                                                    str(float(w)) for w in wanted]
got = o.rounded(1.1)
assert got[7:10] == [0, torch.tensor(1.1).item(), 2.099609375] and got[10] == got[11]
assert got[10] == torch.tensor(1.1).half().view(torch.int16).item()
if headers >= 15:
    assert o.converted(2.9) == [2, 2.9, 1, 2] and o.converted(-2.9) == [-2, -2.9, 1, -2]
    with raises(RuntimeError, match="value cannot be converted to type int8_t without "
                "overflow"):
        o.converted(300.0)

# The C shim
assert o.dimensions(x) == 2 and o.dimensions(torch.tensor(1)) == 0
y = x.clone()
o.diagonal(y).zero_()
assert y.tolist() == [[0, 2, 3], [4, 0, 6]]
y = torch.arange(12.0).view(4, 3)[1:]
assert torch.equal(o.diagonal(y), y.diagonal())  # the offset is relative
assert torch.equal(o.zeros_by_column(2, 3), torch.zeros(2, 3))
assert o.zeros_by_column(2, 3).stride() == (1, 2)
assert o.items(torch.tensor(2.5), torch.tensor([2.9]), torch.tensor(2)) == [2.5, 2, 1]
with raises(RuntimeError, match="cannot be converted to Scalar|item_float64"):
    o.items(x, x, x)
real, whole = o.scalars(2.5, 7)
assert (real.dtype, whole.dtype) == (torch.float64, torch.int64)
assert (real.shape, real.item(), whole.item()) == (torch.Size([]), 2.5, 7)
assert o.is_strided(x) and not o.is_strided(x.to_sparse())
with torch.autograd.profiler.profile(use_kineto=False) as profile:
    assert o.modes(x.t()) == [1, 0]
assert "examples_range" in [event.key for event in profile.key_averages()]
assert torch.is_grad_enabled()
with torch.no_grad():
    assert o.modes(x) == [0, 0]
assert torch.is_grad_enabled()

# Slots
assert torch.equal(o.sum_by_name(x, 1), x.sum(1, keepdim=True))
assert o.there_and_back("a\0b") == "a\0b"

# Threads
torch.set_num_threads(2)
got = o.who(6).tolist()
assert got.pop() == 2 and set(got) <= {0, 1}
torch.set_num_threads(1)
assert o.who(4).tolist() == [0, 0, 0, 0, 1]

# An accelerator
if not torch.accelerator.is_available():
    for how, call in enumerate(("create_device_guard", "get_current_stream",
                                "get_current_device_index")):
        with raises(RuntimeError, match="aoti_torch_" + call):
            o.ask_accelerator(how)

# A generator
if target >= 13:
    g, h = (torch.Generator().manual_seed(3) for _ in "gh")
    for n in (4, 2):
        want = torch.empty(n, dtype=torch.float64).uniform_(generator=h)
        assert torch.equal(o.draw(g, n), want)
    assert o.shares_its_state(g)

# A newer function
if headers >= 14:
    new = torch.__version__ >= "2.14"
    assert o.has_storage(x) == (1 if new else -1)

# Objects of Python
if target >= 14:
    library = ctypes.PyDLL(path)
    zeros = library.examples_zeros_like
    zeros.argtypes, zeros.restype = [ctypes.py_object], ctypes.py_object
    before = sys.getrefcount(x)
    assert torch.equal(zeros(x), torch.zeros(2, 3)) and sys.getrefcount(x) == before
    with raises(ValueError):
        zeros(1)
