"""What people answered in a study, in one SQLite file: who they are is not asked and not kept.

    person   a random name for a sitting
    round    what was shown to whom, on which side the better classifier stood, and what was picked

A round is written when a sitting begins and answered once: a second answer to the same round changes nothing.
Rounds of one person are not independent, so beside the rounds of all stands how many people they are of. The
interval is the exact binomial one (Clopper & Pearson 1934).
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from heedful.core.errors import HeedfulError
from heedful.stats.intervals import share_of_count

STUDIES = ("choose-the-classifier",)
EXPLANATIONS, ACCURACY = "explanations", "accuracy"
SEES = (EXPLANATIONS, ACCURACY)
SCHEMA = """
CREATE TABLE IF NOT EXISTS person (name TEXT PRIMARY KEY, study TEXT NOT NULL, began REAL NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS round (
  person TEXT NOT NULL REFERENCES person (name), number INTEGER NOT NULL, material INTEGER NOT NULL,
  sees TEXT NOT NULL, better TEXT NOT NULL, shown REAL, picked TEXT, seconds REAL,
  PRIMARY KEY (person, number)
) STRICT;
"""


@dataclass(frozen=True)
class StudyQuestion:
    """A round as it is put to one person."""

    number: int
    material: int  # which of the study's rounds
    sees: str  # one of SEES
    better: str  # "left" or "right"


@dataclass(frozen=True)
class StudyShare:
    """How often people who saw one thing picked the better classifier."""

    sees: str
    people: int
    rounds: int
    right: int
    share: float | None  # None: nobody answered
    interval: tuple[float, float]


class AnswerFile:
    """The file; a connection is opened for each call, so threads need no lock of their own."""

    def __init__(self, path: str | Path, study: str) -> None:
        self.path, self.study = Path(path), study
        with self._open() as base:
            base.executescript(SCHEMA)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=10)) as base, base:  # one transaction
                yield base
        except sqlite3.Error as error:  # also a full disk
            fix = "Give another --database FILE"
            raise HeedfulError(f"{self.path} cannot be used for the answers", str(error), fix) from None

    def begin(self, asked: Sequence[StudyQuestion]) -> str:
        """A sitting: its rounds are written down; its random name comes back."""
        name = secrets.token_urlsafe(16)
        with self._open() as base:
            base.execute("INSERT INTO person VALUES (?, ?, ?)", (name, self.study, time.time()))
            base.executemany(
                "INSERT INTO round (person, number, material, sees, better) VALUES (?, ?, ?, ?, ?)",
                [(name, each.number, each.material, each.sees, each.better) for each in asked],
            )
        return name

    def next(self, person: str) -> tuple[StudyQuestion | None, int]:
        """The first round that is not answered, and how many there are: 0 for a stranger. It counts as
        shown from now on, unless it was before."""
        with self._open() as base:
            whose = "FROM round JOIN person ON name = person WHERE name = ? AND study = ?"
            (total,) = base.execute(f"SELECT count(*) {whose}", (person, self.study)).fetchone()
            row = base.execute(
                f"SELECT number, material, sees, better {whose} AND picked IS NULL ORDER BY number LIMIT 1",
                (person, self.study),
            ).fetchone()
            if row is None:
                return None, total
            base.execute(
                "UPDATE round SET shown = coalesce(shown, ?) WHERE person = ? AND number = ?",
                (time.time(), person, row[0]),
            )
        return StudyQuestion(*row), total

    def answer(self, person: str, number: int, picked: str) -> bool:
        """Write an answer down; False where the round was not shown or is answered."""
        with self._open() as base:
            done = base.execute(
                "UPDATE round SET picked = ?, seconds = ? - shown "
                "WHERE person = ? AND number = ? AND picked IS NULL AND shown IS NOT NULL",
                (picked, time.time(), person, number),
            )
        return done.rowcount == 1

    def shares(self, person: str | None = None) -> list[StudyShare]:
        """What was seen -> how often the better one was picked; of one person, or of all."""
        who = "" if person is None else " AND person = ?"
        given = (self.study,) if person is None else (self.study, person)
        with self._open() as base:
            rows = base.execute(
                "SELECT sees, count(DISTINCT person), count(*), sum(picked = better) FROM round "
                "JOIN person ON person.name = round.person "
                f"WHERE picked IS NOT NULL AND study = ?{who} GROUP BY sees",
                given,
            ).fetchall()
        results = {row[0]: row[1:] for row in rows}
        return [_share(sees, *results.get(sees, (0, 0, 0))) for sees in SEES]


def _share(sees: str, people: int, rounds: int, right: int) -> StudyShare:
    if not rounds:
        return StudyShare(sees=sees, people=0, rounds=0, right=0, share=None, interval=(0.0, 1.0))
    share, interval = share_of_count(right, rounds)
    return StudyShare(sees=sees, people=people, rounds=rounds, right=right, share=share, interval=interval)
