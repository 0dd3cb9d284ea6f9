"""The frame of the labs: a lab is a function that is handed a `LabRun` and tells it what it finds.

    @lab("superposition", title="Toy models of superposition", minutes=3.0, cite="Elhage et al. 2022")
    def superposition(run: LabRun) -> None: ...

Every module of `heedful.labs` that has such a function is a lab. The decorator's arguments are read from the
source, as literals, so a list of labs imports none of them. Third parties add theirs through the entry-point
group "heedful.plugins". A lab draws from `run.seed` alone; `run_lab` puts back the global random state.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from heedful.core.charts import Chart
from heedful.core.declarations import declarations, import_plugins
from heedful.core.document import Figure, Paragraph
from heedful.core.errors import HeedfulError
from heedful.core.lab_report import FIGURE_NAME, Claim, LabReport, NumberTable, Part, Value
from heedful.core.progress import Progress, Report, counting
from heedful.core.whole_numbers import check_seed


@dataclass(eq=False)
class LabRun:
    """What a lab is handed: how to run, and where to tell what it finds."""

    fast: bool = False
    seed: int = 0
    report: Report | None = None
    parts: list[Part] = field(default_factory=list)

    def progress(self, done: int, total: int, what: str = "working") -> None:
        self.progress_of(what)(done, total)

    def progress_of(self, what: str) -> Progress:
        """For work that counts by itself: takes (done, total)."""
        return counting(self.report, what)

    def say(self, text: str) -> None:
        """A paragraph of the report."""
        self.parts.append(Paragraph(" ".join(text.split())))

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Rows as long as there are columns; numbers are rounded when they are shown, not here."""
        made = tuple(tuple(map(_plain, row)) for row in rows)
        if bad := next((row for row in made if len(row) != len(columns)), None):
            raise ValueError(f"table {title!r} has {len(columns)} columns and a row {bad}")
        self.parts.append(NumberTable(title, tuple(columns), made))

    def figure(self, name: str, chart: Chart, caption: str) -> None:
        """A chart of heedful.core.charts; `name` is that of its file."""
        if not FIGURE_NAME.fullmatch(name) or any(
            isinstance(p, Figure) and p.name == name for p in self.parts
        ):
            raise ValueError(
                f"a figure's name must be unique and have only small letters, digits, hyphens: {name!r}"
            )
        from heedful.io.chart_codec import plain_chart  # when a lab draws: listing labs needs none of it

        self.parts.append(Figure(plain_chart(chart), caption, name))

    def claim(
        self,
        sentence: str,
        *,
        value: float | int,
        holds: bool,
        interval: tuple[float, float] | None = None,
        against: float | int | None = None,
        control: str = "",
        exact: bool = False,
    ) -> None:
        """A sentence that held or failed, with its number.

        interval   95 %, over what was drawn: seeds, instances, samples; of a claim about every one of them
                   their range. Or `exact`: nothing was drawn
        against    the control the number is read by; `control` says what it is
        The sentence must not hold digits that change with the seed: another seed ends in the same sentences.
        """
        if exact == (interval is not None):
            raise ValueError(f"{sentence!r}: a claim has an interval, or is exact")
        span = None if interval is None else (float(interval[0]), float(interval[1]))
        beside = None if against is None else float(against)
        words = " ".join(sentence.split())
        self.parts.append(
            Claim(
                sentence=words,
                value=float(value),
                holds=bool(holds),
                interval=span,
                against=beside,
                control=control,
            )
        )


Work = Callable[[LabRun], None]


@dataclass(frozen=True)
class Lab:
    """A lab as the list shows it; its module is imported when it runs."""

    name: str
    title: str
    minutes: float  # of the full run, on two cores
    cite: str
    module: str


_works: dict[str, tuple[Lab, Work]] = {}


def lab(name: str, *, title: str, minutes: float, cite: str) -> Callable[[Work], Work]:
    """Register a function `(run) -> None`; every argument is written out, as it is read without importing."""

    def register(function: Work) -> Work:
        if name in _works and _works[name][1].__module__ != function.__module__:
            raise ValueError(f"two labs are called {name!r}")
        _works[name] = Lab(name, title, minutes, cite, function.__module__), function
        return function

    return register


def labs() -> dict[str, Lab]:
    """Every lab by name."""
    import_plugins()
    results = {each.name: each for each in (*_written(), *(registered for registered, _ in _works.values()))}
    return dict(sorted(results.items()))


@cache
def _written() -> tuple[Lab, ...]:
    """The labs of this package, from their source."""
    return tuple(
        Lab(name=each.name, module=each.module, **each.facts) for each in declarations("heedful.labs", "lab")
    )


def _work(name: str) -> tuple[Lab, Work]:
    known = labs()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise HeedfulError(f"there is no lab {name!r}", fix=f"{hint}Known: {', '.join(known)}")
    import_module(known[name].module)
    return _works[name]


def run_lab(
    name: str,
    *,
    fast: bool = False,
    seed: int = 0,
    out: str | Path | None = None,
    progress: Report | None = None,
) -> LabReport:
    """Run a lab: it repeats an experiment or tests a theorem from the literature, and checks the claims.

    Parameters
    ----------
    name
        Name of the lab. `heedful lab list` shows all names.
    fast
        Run a smaller version, which takes about one minute at most.
    seed
        Random seed.
    out
        Folder for the report, its numbers and its figures. If `None`, nothing is written.
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.

    Returns
    -------
    LabReport
        `report.holds` is True if the results confirm all claims.

    Examples
    --------
    >>> import heedful
    >>> report = heedful.run_lab("attention-by-hand", fast=True)
    >>> report.holds
    True
    """
    check_seed(seed)
    entry, work = _work(name)
    from heedful.core.versions import versions

    run, began = LabRun(fast, seed, progress), time.perf_counter()
    with own_randomness(seed):
        work(run)
    settings = {"fast": fast, "seed": seed, "seconds": time.perf_counter() - began, "versions": versions()}
    report = LabReport(entry.name, entry.title, entry.cite, tuple(run.parts), settings)
    if not report.claims:
        raise ValueError(f"the lab {name!r} claims nothing")
    if out is not None:
        report.save(out)
    return report


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """What draws without a generator (fresh layers do) draws from the seed, and nothing outside notices."""
    import numpy as np
    import torch

    before = np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


def _plain(value: Any) -> Value:
    """Numbers of numpy and torch become Python's; a number that is not finite becomes None."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return value if value - value == 0 else None
    return value if isinstance(value, str | int) or value is None else str(value)
