"""Write film sentences to train on: python docs/examples/make_training.py train.csv [4000].

Rotten Tomatoes sentences of the carrier that zoo/data.py reads (fetched once, no licence to pass them on: not
kept here). No snippet of reviews.csv shares six successive words with any of them.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "zoo"))
import data

LABELS = ("negative", "positive")


def main() -> None:
    out, most = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows((text, LABELS[label]) for text, label in data.sentences()["train"][:most])


if __name__ == "__main__":
    main()
