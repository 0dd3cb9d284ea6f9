"""The tests of a trial register themselves: one file declares all there is to know about one test.

    @trial_test("permutation", title="Does the output change when ...?", needs={"attentions", "edits"},
                cite="Jain & Wallace 2019", order=2, words=TrialWords(showed), chart=chart)
    def run(suite: TrialSuite) -> TrialOutcome:
        '''What is done.

        Control: ...  Cost: ...  Not shown: ...  (a paragraph each)'''

Title, needs and the like are written as literals, as help and lists read them without importing a test.
Third parties add theirs through the entry-point group "heedful.plugins".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Protocol

from heedful.core.charts import Scatter
from heedful.core.declarations import import_plugins
from heedful.trials.facts import LAST, PACKAGE, TrialFacts, declare
from heedful.trials.rows import TrialRow, TrialStatement

if TYPE_CHECKING:
    from heedful.trials.suite import TrialSuite

Rows = Sequence[TrialRow]


class TrialOutcome(Protocol):
    """What a test returns."""

    def findings(self) -> list[TrialRow]: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class TrialWords:
    """A test in words: functions of its own rows and of all rows of the trial."""

    showed: Callable[[Rows, Rows], str]  # the answer in a sentence or two, with its control
    more: Callable[[Rows, Rows], str] | None = None  # further sentences for those who look closer
    against: Callable[[Rows, Rows], str] | None = None  # why not to read attention as the reason, or ""
    conclude: Callable[[Rows, int, Sequence[str]], str] | None = None  # own rows, texts, what speaks against
    answer: Callable[[Rows, Rows, int], str] | None = None  # the headline; of how many tests speak against
    axes: Mapping[str, str] = field(default_factory=dict)  # unit -> what a high value means


@dataclass(frozen=True)
class TrialTest:
    """A registered test."""

    facts: TrialFacts
    run: Callable[[TrialSuite], TrialOutcome]
    words: TrialWords
    chart: Callable[[Any], Scatter] | None = None  # of what `run` returned

    def paragraph(self, label: str) -> str:
        """The paragraph of its docstring that begins so, or ""; "" for the first."""
        parts = [part.replace("\n", " ") for part in (inspect.getdoc(self.run) or "").split("\n\n")]
        return next((part.removeprefix(label).strip() for part in parts if part.startswith(label)), "")

    def statement(self, own: Rows, every: Rows) -> TrialStatement:
        """What it showed, and what it did not."""
        return TrialStatement(
            test=self.facts.name,
            title=self.facts.title,
            showed=self.words.showed(own, every),
            not_shown=self.paragraph("Not shown:"),
            more=self.words.more(own, every) if self.words.more else "",
            axes=self.words.axes,
        )


_tests: dict[str, TrialTest] = {}
Run = Callable[["TrialSuite"], Any]


def trial_test(
    name: str,
    *,
    title: str,
    needs: set[str],
    cite: str,
    words: TrialWords,
    order: int = LAST,
    default: bool = True,
    chart: Callable[[Any], Scatter] | None = None,
) -> Callable[[Run], Run]:
    """Register a function `(suite) -> TrialOutcome`.

    title     the question it answers
    needs     capabilities of the model, "training texts" to train on, "terms" to train with
    order     its place among the tests
    default   False: it runs only when named
    words     what it says; chart: of what it returned
    """

    def register(function: Run) -> Run:
        if name in _tests and _tests[name].run.__module__ != function.__module__:
            raise ValueError(f"two tests of the trial are called {name!r}")
        facts = TrialFacts(
            name=name, title=title, needs=frozenset(needs), cite=cite, order=order, default=default
        )
        _tests[name] = TrialTest(declare(facts), function, words, chart)
        return function

    return register


def trial_tests() -> dict[str, TrialTest]:
    """Every test by name, in the order they run."""
    import_plugins()
    for module in iter_modules(import_module(PACKAGE).__path__):
        import_module(f"{PACKAGE}.{module.name}")
    return dict(sorted(_tests.items(), key=lambda item: (item[1].facts.order, item[0])))
