"""xformers' three ops for the CPU, on 2:4 sparse masks."""

import torch
import xformers
import xformers.ops  # which loads the library

torch.manual_seed(0)
ops = torch.ops.xformers
said = [ops._nvcc_build_version()]
for _ in range(3):
    mask = torch.zeros(64, 32, 4, dtype=torch.bool)
    mask[..., :2] = True
    mask = mask.view(64, 128)
    packed = ops._sparse24_pack_mask(mask)
    said.append((tuple(packed.shape), packed.dtype, packed.long().sum().item()))
    meta = ops._sparse24_reorder_meta(packed)
    said.append((tuple(meta.shape), meta.dtype))
    for dtype in torch.float16, torch.bfloat16:
        try:
            a = ops._sparse24_pack_tensor_according_to_mask(
                torch.randn(64, 128).to(dtype), meta)
            said.append((tuple(a.shape), a.float().sum().item()))
        except RuntimeError as error:
            said.append(str(error).splitlines()[0])
    for wrong in mask.float(), mask.fill_(True):
        try:
            ops._sparse24_pack_mask(wrong)
        except RuntimeError as error:
            said.append(str(error).splitlines()[0])
print(xformers.__version__, said)
