"""torch-quickfps: samples of points."""

import torch
import torch_quickfps as fps

torch.manual_seed(0)
said = []
for dtype in torch.float32, torch.float64, torch.float16, torch.bfloat16:
    for dim in 2, 3, 5:
        x = torch.rand(2, 200, dim).to(dtype)
        mask = torch.rand(2, 200) < 0.8
        mask[:, 0] = True
        for sample in fps.sample_idx, fps.sample_idx_baseline:
            for options in ({}, {"start_idx": 0}, {"start_idx": 0, "mask": mask}):
                try:
                    said.append(sample(x, 16, **options).sum().item()
                                if "start_idx" in options else
                                tuple(sample(x, 16, **options).shape))
                except RuntimeError as error:
                    said.append(str(error).splitlines()[0])
x = torch.rand(1, 50, 3, requires_grad=True)
points, _ = fps.sample(x, 8, start_idx=0, low_d=2)
points.sum().backward()
said.append(x.grad.sum().item())
for wrong in (x[0, 0], 8), (x, 51):
    try:
        fps.sample(*wrong)
    except RuntimeError as error:
        said.append(str(error).splitlines()[0])
try:
    compiled = torch.compile(lambda x: fps.sample_idx(x, 8, start_idx=0) + 1,
                             backend="aot_eager")
    said.append(compiled(x.detach()).tolist())
except Exception as error:
    said.append(type(error).__name__)
print(said)
