"""Writes the text that labs train and measure on: State of the Union speeches (PDDL / CC0), one JSON a line.

    train   those of zoo:lm's training part given since 1982
    held    those of its held-out parts given since 1941: zoo:lm never saw them

Whole speeches, chosen by year only. The archive holds no time of writing, so that it is the same every time.
Run: python zoo/write_speeches.py
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import data

TARGET = Path(__file__).resolve().parent.parent / "src" / "heedful" / "labs" / "speeches.jsonl.gz"
SINCE = {"train": 1982, "validation": 1941, "test": 1941}


def main() -> None:
    lines = []
    for part, speeches in data.speeches().items():
        for name, text in speeches:
            if int(name[:4]) >= SINCE[part]:
                row = {"name": name, "part": "train" if part == "train" else "held", "text": text}
                lines.append(json.dumps(row, ensure_ascii=False))
    body = ("\n".join(sorted(lines)) + "\n").encode()
    TARGET.write_bytes(gzip.compress(body, 9, mtime=0))


if __name__ == "__main__":
    main()
