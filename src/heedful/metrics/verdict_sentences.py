"""A verdict in plain sentences. Fields decide what is said; words come last.

The answer is one sentence: "Use occlusion: it beat random orders on 47 of 50 texts." One line each says which
methods are as good, better than random, too, not proven better, not shown better than a control that does not
look at the model, and left out. The grounds are for the
details: disagreement, distances, power, operators, and how sure it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heedful.core.defaults import MIN_COMPARED_TEXTS, MIN_TEXTS
from heedful.core.numbers import at_most, fixed, percent
from heedful.core.phrases import InputWords, listed

if TYPE_CHECKING:
    from heedful.metrics.verdict_types import MethodVerdict, Verdict

PROMISE = "In about 95 % of audits, all statements of the verdict are true."
PROMISE_WITH_CONTROLS = "In about 92.5 % of audits, all statements of the verdict are true."  # one test more
CANNOT = "It cannot be settled with this many"
UNIT = "standard deviations of random orders"  # of gaps and distances
MIN_SHOWN_DIFFERENCE = 0.1  # shares of families or operators that differ by more are shown
FAMILIES = {"remove-top": "removing its top {}", "keep-top": "keeping its top {} alone"}
TEXT = InputWords()


def sentences(verdict: Verdict) -> list[str]:
    """The headline first."""
    return [*answer(verdict), *grounds(verdict)]


def answer(verdict: Verdict) -> list[str]:
    """What to use, and which methods are better than random orders."""
    if not verdict.methods:
        return [_nothing(verdict), *_left_out(verdict)]
    if verdict.flat:
        same = f"Nothing to compare: on {_texts(verdict)} every order of {verdict.words.parts} did the same."
        return [same, *_left_out(verdict)]
    if verdict.n < MIN_TEXTS:
        few = f"{_texts(verdict)} {'is' if verdict.n == 1 else 'are'} too few for a verdict"
        return [f"{few}: at least {MIN_TEXTS} are needed.", *_left_out(verdict)]
    lines = [_headline(verdict), *_compared(verdict), *_rest(verdict), *_not_shown_better(verdict)]
    return [*lines, *_left_out(verdict)]


def grounds(verdict: Verdict) -> list[str]:
    """How the verdict was reached and how sure it is."""
    if not verdict.methods or verdict.flat or verdict.n < MIN_TEXTS:
        return []
    found = [*_disagree(verdict), *_distance(verdict), *_best(verdict), *_shown_better(verdict)]
    promise = PROMISE_WITH_CONTROLS if verdict.controlled else PROMISE
    return [*found, _settled(verdict), _judged(verdict), promise]


def _texts(verdict: Verdict) -> str:
    return verdict.words.counted(verdict.n)


def _nothing(verdict: Verdict) -> str:
    if not verdict.cells:
        return "Which method to use was not measured: no metric of the verdict ran."
    if verdict.left_out:
        return "Nothing to compare: no method can take part in the verdict."
    return f"Nothing to compare: no {verdict.words.noun} has {verdict.words.parts} to remove."


def _headline(verdict: Verdict) -> str:
    if not verdict.better:
        return f"No method is proven better than a random order on this model ({_texts(verdict)})."
    if not verdict.use:
        names = listed(verdict.better)
        are = "is" if len(verdict.better) == 1 else "are"
        return f"{names} {are} better than random orders on these {_texts(verdict)}."
    one, words = verdict[verdict.use], verdict.words
    limits = ["not certified"] if verdict.compared and not verdict.certified else []
    limits += [f"not shown better than {_either(one.not_shown_better)}"] if one.not_shown_better else []
    unsure = f", {' and '.join(limits)}" if limits else ""
    return f"Use {verdict.use}{unsure}: it beat random orders on {one.won:,} of {words.counted(one.texts)}."


def _compared(verdict: Verdict) -> list[str]:
    """How the recommended method compares with the others, in one line."""
    if not verdict.better:
        return []
    if not verdict.use:
        controls = [f"with {listed([one.control for one in verdict.controls])}"] if verdict.controls else []
        others = f" {listed(['with each other', *controls])}" if controls else ""
        few = f"To compare methods{others}, at least {verdict.words.counted(MIN_COMPARED_TEXTS)} are needed"
        if verdict.common < verdict.n:
            few += f" on which all have scores; there are {verdict.common:,}"
        return [f"{few}."]
    if not verdict.compared:
        return ["It is the only method that was judged."]
    if not verdict.certified:
        most = at_most(verdict[verdict.use].gap)
        return [f"It has the highest mean, but another method may be better by up to {most} {UNIT}."]
    same = as_good(verdict)
    if not same:
        limit = _no_better(verdict, verdict[verdict.use].gap)
        return [f"{limit[0].upper()}{limit[1:]}."]
    are = "is" if len(same) == 1 else "are"
    gap = max(verdict[name].gap for name in (verdict.use, *same))
    return [f"{listed(same)} {are} as good: {_no_better(verdict, gap)}."]


def as_good(verdict: Verdict) -> list[str]:
    """Methods beside the recommended one that may be the best and are certified: no method is better than
    them by more than the limit of docs/verdict.md."""
    if not verdict.certified:
        return []
    return [e.method for e in verdict.methods if e.certified and e.may_be_best and e.method != verdict.use]


def _no_better(verdict: Verdict, gap: float) -> str:
    who = "no method that was judged" if verdict.left_out else "no method"
    return f"{who} is better" if gap <= 0 else f"{who} is better by more than {at_most(gap)} {UNIT}"


def _rest(verdict: Verdict) -> list[str]:
    """Who else is better than random, and who is not proven to be."""
    lines = []
    named = {verdict.use, *as_good(verdict)}
    if verdict.use and (others := [name for name in verdict.better if name not in named]):
        lines.append(f"Better than random, too: {', '.join(others)}.")
    if verdict.better and verdict.not_proven:
        lines.append(f"Not proven better: {', '.join(verdict.not_proven)}.")
    return lines


def _not_shown_better(verdict: Verdict) -> list[str]:
    """Which methods are not shown better than a control that does not look at the model."""
    if not verdict.controls:
        return []
    if not verdict.controlled:
        if verdict.better and not verdict.use:
            return []  # said with the comparison of methods
        names = listed([one.control for one in verdict.controls])
        counted = verdict.words.counted(MIN_COMPARED_TEXTS)
        return [f"To compare with {names}, which do not look at the model, at least {counted} are needed."]
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in verdict.methods:
        if one.not_shown_better:
            groups.setdefault(one.not_shown_better, []).append(one.method)
    return [f"Not shown better than {_either(controls)}: {', '.join(m)}." for controls, m in groups.items()]


def _shown_better(verdict: Verdict) -> list[str]:
    """What the controls reached, and which methods are better than all of them."""
    if not verdict.controls:
        return []
    words = verdict.words
    won = [f"{one.control} on {one.won:,} of {words.counted(one.texts)}" for one in verdict.controls]
    lines = [f"Without looking at the model, random orders were beaten by {listed(won)}."]
    better = [one.method for one in verdict.methods if one.against and not one.not_shown_better]
    if better:
        names, count = listed([one.control for one in verdict.controls]), verdict.controlled
        lines.append(f"Better than {names} on {words.counted(count)}: {', '.join(better)}.")
    return lines


def _either(names: Sequence[str]) -> str:
    """edges, smooth-random or centre"""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _distance(verdict: Verdict) -> list[str]:
    """How far the recommended method is above random orders, in the unit of gaps."""
    if not (verdict.use and verdict.compared):
        return []
    return [f"{verdict.use} is {fixed(verdict[verdict.use].z)} {UNIT} above their mean."]


def _best(verdict: Verdict) -> list[str]:
    if not (verdict.compared and verdict.better and len(verdict.may_be_best) > 1):
        return []
    return [f"The best method is among: {', '.join(verdict.may_be_best)}."]


def _disagree(verdict: Verdict) -> list[str]:
    """Shares of families and operators that differ: no claims."""
    return [
        line for name in [verdict.use] if verdict.use for line in _apart(verdict[name], verdict.words.parts)
    ]


def _apart(one: MethodVerdict, parts: str) -> list[str]:
    lines = []
    named = {FAMILIES.get(name, name).format(parts): share for name, share in one.by_family.items()}
    for what, shares in (("by ", named), ("under ", one.by_operator)):
        if shares and max(shares.values()) - min(shares.values()) > MIN_SHOWN_DIFFERENCE:
            each = [f"{percent(share)} {what}{name}" for name, share in shares.items()]
            lines.append(f"Of random orders {one.method} beat {listed(each)}.")
    return lines


def _left_out(verdict: Verdict) -> list[str]:
    whys: dict[str, list[str]] = {}
    for name, why in verdict.left_out.items():
        whys.setdefault(why, []).append(name)
    return [f"{listed(names)} {_takes(names)} no part: {why}." for why, names in whys.items()]


def _takes(names: Sequence[str]) -> str:
    return "takes" if len(names) == 1 else "take"


def _settled(verdict: Verdict) -> str:
    """Of an audit that stops when it can: what it could not settle."""
    if not verdict.looked_always:
        return power(verdict.n, verdict.visible_share, verdict.visible_gap, verdict.words)
    open_ones = [one.method for one in verdict.methods if not one.settled]
    beat = "beats" if len(open_ones) == 1 else "beat"
    parts = [f"whether {listed(open_ones)} {beat} random orders"] if open_ones else []
    if verdict.better and len(verdict.methods) > 1 and not verdict.certified:
        parts.append("which method is best")
    if not parts:
        return f"It was settled after {_texts(verdict)}, looked at one by one."
    cannot = f"{CANNOT} {verdict.words.many}: {' and '.join(parts)}."
    return f"Looked at one by one, {_texts(verdict)} were read. {cannot}"


def power(n: int, share: float, gap: float, words: InputWords = TEXT) -> str:
    """What so many texts show."""
    detects = f"With {words.counted(n)}, an audit usually detects"
    text = f"{detects} methods that beat about {percent(share)} of random orders or more."
    if not gap > 0:
        return text
    return (
        f"{text} It usually detects differences between two methods of about {at_most(gap)} {UNIT} or more."
    )


def _judged(verdict: Verdict) -> str:
    operators = listed(list(verdict.operators))
    words = verdict.words
    by = (
        f"The test removed {words.parts} by {operators}, with {verdict.draws} random orders per {words.noun}."
    )
    if any(cell.fit for cell in verdict.cells):
        return f"{by} The methods used each of these operators in turn, and the test then used the others."
    fitted = _fitted({one.method: one.fitted_by for one in verdict.methods}, words.parts)
    return " ".join([by, *fitted])


def _fitted(by: Mapping[str, tuple[str, ...] | None], what: str) -> list[str]:
    """What the methods were fitted by, in sentences."""
    groups: dict[tuple[str, ...] | None, list[str]] = {}
    for name, operators in by.items():
        groups.setdefault(operators, []).append(name)
    parts = [f"{listed(names)} removed {what} by {listed(list(ops))}" for ops, names in groups.items() if ops]
    lines = [f"For their scores, {'; '.join(parts)}."] if parts else []
    if None in groups:
        names = listed(groups[None])
        must = "so they must beat random orders with each operator"
        lines.append(f"How {names} removed {what} is unknown, {must}.")
    return lines
