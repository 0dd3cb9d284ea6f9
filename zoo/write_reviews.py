"""Writes the graded film sentences that labs train and measure on (MIT), one JSON a line.

    held    sentences that share no six successive words with any Rotten Tomatoes sentence of the carrier that
            zoo:sentiment learnt from: no embedded model saw them
    train   all others

Kept are 5 to 40 words and mean ratings of at least 1 or at most -1. The archive is the same every time.
Run: python zoo/write_reviews.py
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import data

TARGET = Path(__file__).resolve().parent.parent / "src" / "heedful" / "labs" / "reviews.jsonl.gz"
CLEAR = 1.0  # the mean rating, of -4 to 4, from which a sentence has a label


def main() -> None:
    known = set().union(*(data.runs(text) for part in data.sentences().values() for text, _ in part))
    lines = set()
    for grade, text in data.graded():
        if 5 <= len(text.split()) <= 40 and abs(grade) >= CLEAR and "\ufffd" not in text:
            part = "train" if data.runs(text) & known else "held"
            row = {"part": part, "grade": round(grade, 2), "text": text}
            lines.add(json.dumps(row, ensure_ascii=False))
    TARGET.write_bytes(gzip.compress(("\n".join(sorted(lines)) + "\n").encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
