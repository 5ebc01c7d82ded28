"""torchvision's, with their gradients; and its pictures."""

import tempfile

import torch
import torchvision
from torchvision import io, ops

torch.manual_seed(0)
raw = torch.ops.torchvision
said = []


def refused(what, *arguments):
    try:
        what(*arguments)
    except (RuntimeError, ValueError) as error:
        said.append(str(error).splitlines()[0])
    else:
        raise AssertionError("was not refused")


def boxes(n, dtype=torch.float32):
    corners = torch.rand(n, 2) * 20
    return torch.cat([corners, corners + torch.rand(n, 2) * 9 + 1], 1).to(dtype)


for dtype in torch.float32, torch.float64:
    for _ in range(3):
        b = boxes(30, dtype)
        said.append(ops.nms(b, torch.rand(30, dtype=dtype), 0.3).tolist())
        refused(ops.nms, b, torch.rand(29, dtype=dtype), 0.3)
        rois = torch.cat([torch.zeros(30, 1, dtype=dtype), b], 1)
        for pool in ops.roi_align, ops.roi_pool, ops.ps_roi_align, ops.ps_roi_pool:
            x = torch.randn(1, 8, 32, 32, dtype=dtype, requires_grad=True)
            y = pool(x, rois, 2)
            y.square().sum().backward()
            said.append((y.sum().item(), x.grad.norm().item()))
        refused(raw.roi_align, x, rois[:, :4], 1.0, 2, 2, -1, False)
        refused(raw.ps_roi_pool, x, rois[:, :4], 1.0, 2, 2)
        x = torch.randn(2, 4, 9, 9, dtype=dtype, requires_grad=True)
        offset = torch.randn(2, 18, 7, 7, dtype=dtype, requires_grad=True)
        weight = torch.randn(6, 4, 3, 3, dtype=dtype, requires_grad=True)
        mask = torch.rand(2, 9, 7, 7, dtype=dtype, requires_grad=True)
        for bias in None, torch.randn(6, dtype=dtype):
            for m in None, mask:
                y = ops.deform_conv2d(x, offset, weight, bias, mask=m)
                y.sum().backward()
                said.append((y.sum().item(), x.grad.norm().item()))
        refused(ops.deform_conv2d, x, offset[:1], weight)
quantized = torch.quantize_per_tensor(torch.rand(1, 2, 16, 16), 0.1, 0, torch.quint8)
try:
    rois = torch.cat([torch.zeros(4, 1), boxes(4)], 1)
    q = torch.quantize_per_tensor(rois, 0.1, 0, torch.quint8)
    said.append(ops.roi_align(quantized, q, 2).dequantize().sum().item())
except RuntimeError as error:
    said.append(str(error).splitlines()[0])
try:
    rotated = torch.rand(3, 5) * 9
    said.append(raw.box_iou_rotated(rotated, rotated).sum().item())
except RuntimeError as error:
    said.append(str(error).splitlines()[0])

picture = torch.randint(0, 255, (3, 17, 23), dtype=torch.uint8)
for mode in io.ImageReadMode.UNCHANGED, io.ImageReadMode.GRAY, io.ImageReadMode.RGB:
    said.append(io.decode_png(io.encode_png(picture), mode).sum().item())
    said.append(io.decode_jpeg(io.encode_jpeg(picture), mode).sum().item())
    said.append(io.decode_image(io.encode_png(picture[:1]), mode).sum().item())
with tempfile.TemporaryDirectory() as folder:
    io.write_file(f"{folder}/picture", io.encode_png(picture))
    said.append(io.read_file(f"{folder}/picture").sum().item())
junk = torch.zeros(20, dtype=torch.uint8)
refused(io.decode_png, junk)
refused(io.decode_jpeg, junk)
refused(lambda: io.decode_jpeg([junk], device="cuda"))
refused(io.read_file, "/no/such/file")
refused(io.encode_png, picture.float())

compiled = torch.compile(lambda b, s: ops.nms(b, s, 0.5) + 1, backend="aot_eager")
said.append(compiled(boxes(9), torch.rand(9)).tolist())
roi = torch.compile(lambda x, r: ops.roi_align(x, r, 2).sum(), backend="aot_eager")
said.append(roi(torch.randn(1, 2, 16, 16), torch.cat(
    [torch.zeros(4, 1), boxes(4)], 1)).item())
print(torchvision.__version__, said)
