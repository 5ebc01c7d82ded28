"""Benchmark tables for the pages: one Markdown file from each JSON result.

    make_tables.py OUTPUT_FOLDER RESULT.json ...
"""

import json
import sys
from pathlib import Path


def table(result: dict) -> str:
    hardware, software = result["hardware"], result["software"]
    lines = [
        "Time over the floor's, median (first to third quartile) of the "
        f"repetitions. {hardware['cpu']}, {hardware['cores']} cores, "
        f"{hardware['isa']}; {software['compiler']}; libtorch "
        f"{software['libtorch']}; {result['date']}.", "",
        "| shape | cache | threads | floor GB/s | member | ratio |",
        "|---|---|---|---|---|---|"]
    for group in result["groups"]:
        for member in group["members"]:
            if member["role"] == "floor":
                continue
            ratio = f"{member['ratio']:.2f} ({member['low']:.2f} to " \
                    f"{member['high']:.2f})"
            if member["role"] == "subject":
                ratio = f"**{ratio}**"
            lines.append(
                f"| {group['dtype']} {group['shape']} | {group['cache']} | "
                f"{group['threads']} | {group['floor_gb_per_s']:.0f} | "
                f"{member['name']} | {ratio} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        result = json.loads(Path(name).read_text())
        (folder / f"{Path(name).stem}.md").write_text(table(result))


if __name__ == "__main__":
    main()
