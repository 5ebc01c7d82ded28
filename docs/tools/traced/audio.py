"""torchaudio's ops of the boundary, on right and wrong input."""

import torch
import torchaudio
from torchaudio import functional as F

torch.manual_seed(0)
ops = torch.ops.torchaudio
said = []


def refused(what, *arguments):
    try:
        what(*arguments)
    except (RuntimeError, ValueError) as error:
        said.append(str(error).splitlines()[0])
    else:
        raise AssertionError("was not refused")


for dtype in torch.float32, torch.float64:
    for ints in torch.int32, torch.int64:
        for _ in range(3):
            logs = torch.randn(1, 20, 6, dtype=dtype).log_softmax(-1)
            labels = torch.tensor([[1, 2, 2, 3]], dtype=ints)
            path, score = F.forced_align(logs, labels)
            said.append((path.tolist(), score.sum().item()))
            refused(F.forced_align, logs, labels * 0)
            refused(ops.forced_align, logs.long(), labels, torch.tensor([20]),
                    torch.tensor([4]), 0)
for dtype in torch.float32, torch.float16:
    logits = torch.randn(2, 5, 4, 6).to(dtype).requires_grad_(dtype == torch.float32)
    words = [torch.randint(1, 6, (2, 3), dtype=torch.int32),
             torch.tensor([5, 4], dtype=torch.int32),
             torch.tensor([3, 2], dtype=torch.int32)]
    loss = F.rnnt_loss(logits, *words, blank=0)
    said.append(loss.item())
    if logits.requires_grad:
        loss.backward()
        said.append(logits.grad.double().norm().item())
    refused(F.rnnt_loss, logits, words[0].long(), *words[1:])
for dtype in torch.float32, torch.float64:
    wave = torch.rand(2, 4000, dtype=dtype) - 0.5
    a = torch.tensor([[1.0, -0.5, 0.2], [1.0, 0.3, 0.1]], dtype=dtype)
    b = torch.tensor([[0.4, 0.2, 0.1], [0.3, 0.2, 0.1]], dtype=dtype)
    wave.requires_grad_()
    filtered = F.lfilter(wave, a, b)
    filtered.square().sum().backward()
    said.append((filtered.sum().item(), wave.grad.norm().item()))
    said.append(F.overdrive(wave.detach()).sum().item())
    refused(ops._lfilter_core_loop, wave.detach(), a, wave.detach())
wave = torch.rand(1, 400)
for _ in range(20):
    F.bandpass_biquad(wave, 16000, 800.0)
compiled = torch.compile(lambda x: F.lfilter(x, a.float()[0], b.float()[0]) * 2,
                         backend="aot_eager")
try:
    said.append(compiled(wave).sum().item())
except Exception as error:  # what torch.compile says of these ops
    said.append(type(error).__name__)
said.append((torch.ops._torchaudio.cuda_version(),
             torch.ops._torchaudio.is_align_available()))
print(torchaudio.__version__, said)
