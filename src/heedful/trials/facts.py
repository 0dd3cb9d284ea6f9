"""What is known of the tests of a trial without importing them: help and lists come up at once."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.core.declarations import declarations, import_plugins
from heedful.core.errors import HeedfulError

PACKAGE = "heedful.trials.tests"
TRAINING_TEXTS, TERMS = "training texts", "terms"  # what a test may need besides capabilities of the model
LAST = 100  # order of a test that names none


@dataclass(frozen=True)
class TrialFacts:
    """One test."""

    name: str
    title: str  # the question it answers
    needs: frozenset[str]
    cite: str
    order: int = LAST
    default: bool = True  # whether it runs when no test is named

    @property
    def trains(self) -> bool:
        return TRAINING_TEXTS in self.needs

    @property
    def on_request(self) -> bool:
        """Whether it runs only where terms to train with are given."""
        return TERMS in self.needs


_declared: dict[str, TrialFacts] = {}


def declare(facts: TrialFacts) -> TrialFacts:
    """Put a test on the list, as the decorator does when its file is imported."""
    _declared[facts.name] = facts
    return facts


def trial_facts() -> dict[str, TrialFacts]:
    """Every test by name, in the order they run; ours as their source declares them."""
    import_plugins()
    known = {
        each.name: TrialFacts(name=each.name, **{**each.facts, "needs": frozenset(each.facts["needs"])})
        for each in declarations(PACKAGE, "trial_test")
    }
    return dict(sorted((known | _declared).items(), key=lambda item: (item[1].order, item[0])))


def choose(names: Sequence[str]) -> list[str]:
    """Names of tests as they are registered, in the order they run; hyphens will do for spaces."""
    known = [name for name, facts in trial_facts().items() if not facts.on_request]
    by_plain = {_plain(name): name for name in known}
    for name in map(_plain, names):
        if name not in by_plain:
            close = difflib.get_close_matches(name, by_plain, n=1)
            hint = f"Did you mean {by_plain[close[0]]!r}? " if close else ""
            raise HeedfulError(f"there is no test {name!r}", fix=f"{hint}Use some of: {', '.join(known)}")
    wanted = {by_plain[_plain(name)] for name in names}
    return [name for name in known if name in wanted]


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", " ")
