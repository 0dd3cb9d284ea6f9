"""Write text for a dictionary of SmolLM2: python docs/examples/make_corpus.py corpus.jsonl held.jsonl.

Film reviews and passages of State of the Union speeches in random order, about three million words; the
held-out file has reviews and speeches of which nothing is in the other. Both come from the archives that
zoo/data.py reads (fetched once; the reviews carry no licence to pass them on, so neither file is kept here).
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "zoo"))
import data

WORDS = 400  # of a passage
REVIEWS = {"train": 6000, "test": 300}


def mixed(part: str) -> list[dict[str, str]]:
    rows = []
    for name, text in data.speeches()[part]:
        words = text.split(" ")
        passages = (" ".join(words[i : i + WORDS]) for i in range(0, len(words), WORDS))
        rows += [{"text": passage, "source": name} for passage in passages]
    rows += [{"text": text, "source": "review"} for text, _ in data.imdb()[part][: REVIEWS[part]]]
    random.Random(0).shuffle(rows)
    return rows


def main() -> None:
    for path, part in zip(sys.argv[1:3], ("train", "test"), strict=True):
        rows = mixed(part)
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        Path(path).write_text("".join(lines), encoding="utf-8")
        print(f"{path}: {len(rows):,} texts, {sum(len(r['text'].split()) for r in rows):,} words")


if __name__ == "__main__":
    main()
