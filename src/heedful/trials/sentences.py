"""A trial in words: the answer, what each test showed and did not show, and what they come to.

Each test's own file has its sentences, and the rules and thresholds they follow from. Here they are put
together.
"""

from __future__ import annotations

from heedful.trials.formatting import unmoved
from heedful.trials.registry import Rows, trial_tests
from heedful.trials.rows import BESIDE_ALL_WORDS, BESIDE_ONE_WORD, TrialStatement, by_test, of_key

UNDECIDED = "These tests do not show whether attention explains the predictions"


def statements(rows: Rows) -> tuple[TrialStatement, ...]:
    """One per test that was held, in order."""
    known = trial_tests()
    return tuple(known[test].statement(own, rows) for test, own in by_test(rows).items() if test in known)


def answer(rows: Rows) -> str:
    """The headline: what the test that concludes says in a few words."""
    if _indifferent(rows):
        return UNDECIDED
    grouped, count = by_test(rows), len(_against(rows))
    for name, test in trial_tests().items():
        if test.words.answer and (said := test.words.answer(grouped.get(name, []), rows, count)):
            return said
    return UNDECIDED


def conclusion(rows: Rows, texts: int) -> str:
    """A few sentences: what the test that concludes says, and what the others saw that speaks against it."""
    if _indifferent(rows):
        return (
            f"On these {texts:,} texts neither other attention nor deleting words changes the answers. So "
            "nothing is said about attention as a whole."
        )
    grouped, against = by_test(rows), _against(rows)
    words = {name: test.words for name, test in trial_tests().items()}
    concluding = [(own.conclude, grouped.get(name, [])) for name, own in words.items() if own.conclude]
    return " ".join(conclude(own, texts, against) for conclude, own in concluding)


def _against(rows: Rows) -> list[str]:
    """What the tests saw that speaks against attention as an explanation, one sentence per test."""
    grouped = by_test(rows)
    tests = trial_tests().items()
    each = [test.words.against(grouped.get(name, []), rows) for name, test in tests if test.words.against]
    return [sentence for sentence in each if sentence]


def _indifferent(rows: Rows) -> bool:
    """The answers hang neither on attention nor on the words: all words, or one where that was not tried."""
    changed = of_key(rows, BESIDE_ALL_WORDS) or of_key(rows, BESIDE_ONE_WORD)
    return bool(changed) and all(map(unmoved, changed))
