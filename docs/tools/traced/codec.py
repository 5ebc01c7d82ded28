"""torchcodec's: films and sounds are written, and read in each way."""

import tempfile
from pathlib import Path

import torch
import torchcodec
from torchcodec.decoders import AudioDecoder, VideoDecoder
from torchcodec.encoders import AudioEncoder, VideoEncoder

torch.manual_seed(0)
said = []


def refused(what, *arguments):
    try:
        what(*arguments)
    except (RuntimeError, ValueError, IndexError) as error:
        said.append(str(error).splitlines()[0].replace(str(folder), ""))
    else:
        raise AssertionError("was not refused")


temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)
frames = torch.randint(0, 255, (20, 3, 64, 64), dtype=torch.uint8)
VideoEncoder(frames, frame_rate=10).to_file(folder / "video.mp4")
coded = VideoEncoder(frames, frame_rate=10).to_tensor("mp4")
refused(VideoEncoder(frames, frame_rate=10).to_tensor, "no such format")
for mode in "exact", "approximate":
    for source in folder / "video.mp4", coded, coded.numpy().tobytes():
        for order in "NCHW", "NHWC":
            decoder = VideoDecoder(source, dimension_order=order, seek_mode=mode,
                                   num_ffmpeg_threads=1)
            said.append((decoder.metadata.num_frames, decoder[3].sum().item()))
            said.append(decoder[2:12:3].sum().item())
            said.append(decoder.get_frames_at([1, 5, 5]).data.sum().item())
            said.append(decoder.get_frames_played_at([0.1, 0.75]).data.sum().item())
            said.append(decoder.get_frames_played_in_range(0.2, 0.9).data.sum().item())
            refused(decoder.__getitem__, 20)
            refused(decoder.get_frames_at, [1, 50])
            refused(decoder.get_frame_played_at, -5)
refused(VideoDecoder, folder / "nothing.mp4")
refused(VideoDecoder, torch.zeros(100, dtype=torch.uint8))
sound = torch.rand(2, 8000) - 0.5
for form in "wav", "flac":
    coded = AudioEncoder(sound, sample_rate=8000).to_tensor(form)
    for rate in None, 4000:
        samples = AudioDecoder(coded, sample_rate=rate).get_samples_played_in_range(
            0.1, 0.6)
        said.append((tuple(samples.data.shape), samples.data.abs().sum().item()))
refused(AudioEncoder(sound, sample_rate=8000).to_tensor, "no such format")
print(torchcodec.__version__, said)
