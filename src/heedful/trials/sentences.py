"""A trial in words: what each test showed, what it did not, and what they come to.

Each test's own file has its sentences, and the rules and thresholds they follow from. Here they are put
together.
"""

from __future__ import annotations

from heedful.trials.formatting import unmoved
from heedful.trials.registry import Rows, trial_tests
from heedful.trials.rows import BESIDE_ALL_WORDS, BESIDE_ONE_WORD, TrialStatement, by_test, of_key


def statements(rows: Rows) -> tuple[TrialStatement, ...]:
    """One per test that was held, in order."""
    known = trial_tests()
    return tuple(known[test].statement(own, rows) for test, own in by_test(rows).items() if test in known)


def conclusion(rows: Rows, texts: int) -> str:
    """A few sentences: what the test that concludes says, and what the others saw that speaks against it."""
    if _indifferent(rows):
        return (
            f"On these {texts:,} texts neither other attention nor deleting words changes the answers: "
            "nothing is said about attention as a whole."
        )
    grouped = by_test(rows)
    words = {name: test.words for name, test in trial_tests().items()}
    each = [own.against(grouped.get(name, []), rows) for name, own in words.items() if own.against]
    against = [sentence for sentence in each if sentence]
    concluding = [(own.conclude, grouped.get(name, [])) for name, own in words.items() if own.conclude]
    return " ".join(conclude(own, texts, against) for conclude, own in concluding)


def _indifferent(rows: Rows) -> bool:
    """The answers hang neither on attention nor on the words: all words, or one where that was not tried."""
    changed = of_key(rows, BESIDE_ALL_WORDS) or of_key(rows, BESIDE_ONE_WORD)
    return bool(changed) and all(map(unmoved, changed))
