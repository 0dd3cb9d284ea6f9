"""Writes the held-out speeches that tests/zoo re-measures (public domain, CC0) to tests/zoo/data.

Run: python zoo/write_slice.py
"""

from __future__ import annotations

import json
from pathlib import Path

import data
from train_lm import SLICE

TARGET = Path(__file__).resolve().parent.parent / "tests" / "zoo" / "data" / "held_out_speeches.json"


def main() -> None:
    speeches = {name: text for name, text in data.speeches()["test"] if name in SLICE}
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps(speeches, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
