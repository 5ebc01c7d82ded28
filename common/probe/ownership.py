"""Who owns what after a call, as the test of chapter 03 finds it on the libtorch
that is running: prints the JSON that docs/results/ownership/ holds.

    [LD_LIBRARY_PATH=...] python3 common/probe/ownership.py TEST LIBRARY
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def facts(test: str, library: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.jsonl"
        subprocess.run([test, f"--library={library}", f"--report={report}"],
                       check=True, stdout=subprocess.DEVNULL)
        events = [json.loads(line) for line in report.read_text().splitlines()]
    found = {e["what"]: e["value"] for e in events if e["event"] == "fact"}
    return {"libtorch": found.pop("libtorch"), "facts": found}


if __name__ == "__main__":
    print(json.dumps(facts(sys.argv[1], sys.argv[2]), indent=1))
