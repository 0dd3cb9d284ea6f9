"""Labelled text that comes with the package, so that labs need no network: film sentences graded by people.

`grade` is the mean of some twenty ratings from -4 to 4; sentences nearer to zero than 1 are left out. `held`
holds sentences no embedded model saw; zoo:sentiment may have learnt from sentences of `train`. Chosen by
zoo/write_reviews.py. From vaderSentiment 3.3.2 (MIT licence, Copyright (c) 2016 C.J. Hutto; Hutto & Gilbert
2014), whose readme says that they come from Rotten Tomatoes, after Pang & Lee.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from heedful.io.datasets.jsonl_file import bundled


@dataclass(frozen=True)
class Review:
    """A sentence, whether it is positive (1) or negative (0), and its mean rating."""

    text: str
    label: int
    grade: float


@cache
def reviews(part: str) -> tuple[Review, ...]:
    """The sentences of "train" or "held"; in order of grade, so draw from them."""
    kept = [row for row in bundled("heedful.labs.data", "reviews.jsonl.gz") if row["part"] == part]
    return tuple(Review(row["text"], int(row["grade"] > 0), row["grade"]) for row in kept)
