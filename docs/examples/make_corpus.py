"""Write text for a dictionary of SmolLM2: python docs/examples/make_corpus.py corpus.jsonl held.jsonl.

Half film reviews, half passages of State of the Union speeches, in random order; the held-out file has
reviews and speeches of which nothing is in the other. Both come from the archives that zoo/data.py reads
(fetched once; the reviews carry no licence to pass them on, so neither file is kept here).
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "zoo"))
import data

WORDS = 230  # of a passage: as long as a review is on average
TRAIN, HELD = 7000, 800  # passages and reviews together


def passages(speech: str) -> Iterator[str]:
    """Successive passages of a speech that end with a sentence and have at least WORDS words."""
    kept: list[str] = []
    for word in speech.split():
        kept.append(word)
        if len(kept) >= WORDS and word[-1] in ".!?":
            yield " ".join(kept)
            kept = []


def mixed(part: str, most: int) -> list[dict[str, str]]:
    rng = random.Random(0)
    reviews = [{"text": text, "source": "review"} for text, _ in data.imdb()[part]]
    speeches = [
        {"text": passage, "source": name}
        for name, text in data.speeches()[part]
        for passage in passages(text)
    ]
    rows = rng.sample(reviews, most // 2) + rng.sample(speeches, min(most // 2, len(speeches)))
    rng.shuffle(rows)
    return rows


def main() -> None:
    for path, part, most in ((sys.argv[1], "train", TRAIN), (sys.argv[2], "test", HELD)):
        rows = mixed(part, most)
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        print(f"{path}: {len(rows):,} texts, {sum(len(r['text'].split()) for r in rows):,} words")


if __name__ == "__main__":
    main()
