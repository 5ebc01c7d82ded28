"""Running what is not ours: for a limited time, and with all that it starts."""

import subprocess
import sys
import tempfile
from pathlib import Path

from torch_stable_abi import supervising
from torch_stable_abi.programs import run

KEPT = 2**16  # characters of what it prints, at the beginning and at the end
GRACE = 2 * supervising.PATIENCE  # seconds, to end all that was started


def run_limited(command: list, seconds: float, title: str,
                env: dict[str, str]) -> subprocess.CompletedProcess:
    """Run to the end; then end all that the command has started. Of a long output the
    middle is left out. Raises TimeoutExpired after `seconds`."""
    with tempfile.TemporaryDirectory() as folder:
        status = Path(folder, "status")
        done = run([sys.executable, "-I", "-S", supervising.__file__, seconds, status,
                    *command], title=title, env=env, timeout=seconds + GRACE)
        if not status.exists():
            raise subprocess.TimeoutExpired(command, seconds)
        output = done.stdout
        if len(output) > 2 * KEPT:
            output = f"{output[:KEPT]}\n...\n{output[-KEPT:]}"
        return subprocess.CompletedProcess(command, int(status.read_text()), output)
