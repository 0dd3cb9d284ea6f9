"""What a trial comes to, in a few sentences: rules, each with its threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from heedful.core.phrases import listed
from heedful.trials.formatting import APART, above, farthest, place, short, unmoved
from heedful.trials.rows import TrialRow, of_test

MIN_TEXTS_OVERALL = 5  # texts, below which nothing is said of attention as a whole
FREE = 0.5  # share of the highest JSD there is, from which on attention counts as freely replaceable
PINNED = 0.1  # share below which it counts as pinned by the answer


def conclusion(findings: Sequence[TrialRow], texts: int) -> str:
    """A few sentences, by rule: is attention replaceable, held fast, or neither, and what speaks against it?

    A layer is replaceable when the lower end of its interval is at least FREE of the highest JSD there is,
    and held fast when the upper end is at most PINNED of it. The other tests add what they saw.
    """
    if _indifferent(findings):
        return (
            f"On these {texts:,} texts neither other attention nor deleting words changes the answers: "
            "nothing is said about attention as a whole."
        )
    adversaries = [f for f in of_test(findings, "adversary") if math.isfinite(f.value)]
    if not adversaries:
        return "Without adversaries that could be searched for, nothing is said about attention as a whole."
    if adversaries[0].n < MIN_TEXTS_OVERALL:
        return f"{adversaries[0].n} texts are too few to say anything about attention as a whole."
    highest = [f.extra["highest JSD of any weights"] for f in adversaries]
    free = [f for f, most in zip(adversaries, highest, strict=True) if f.interval[0] >= FREE * most]
    held = [f for f, most in zip(adversaries, highest, strict=True) if f.interval[1] <= PINNED * most]
    here, moved = f"On these {texts:,} texts", _movable(adversaries)
    if len(free) == len(adversaries):
        said = (
            f"{here} other attention gives the same answers in every layer{moved}: it says where the model "
        )
        said += "looked, and should not be read alone as why it answered."
    elif len(held) == len(adversaries):
        said = f"{here} this search found hardly any other attention that gives the same answers{moved}."
        if any(not f.extra["share of starts feasible"] for f in held):
            said += " No start kept the answer unaided: a longer search (climb) may find more."
        if not _against(findings):
            said += " Nothing else here speaks against reading it, which does not make it an explanation."
    else:
        where = (
            f"replaceable in {listed([place(f) for f in free])}"
            if free
            else "clearly replaceable in no layer"
        )
        said = (
            f"{here} the answers hold attention in part: it is {where}{moved}. Read it beside a method that "
        )
        said += "removes words."
    return " ".join([said, *_against(findings)])


def _indifferent(findings: Sequence[TrialRow]) -> bool:
    """The answers hang neither on attention nor on the words: all words, or one where that was not tried."""
    changed = [f for f in of_test(findings, "uniform") if "change of the answer" in f.what] or of_test(
        findings, "permutation"
    )
    return bool(changed) and all(unmoved(f) for f in changed)


def _movable(adversaries: Sequence[TrialRow]) -> str:
    """What a bare number would hide: heads that cancel in their mean, and weight that could not move."""
    means = [f.extra.get("JSD of the heads' mean", math.nan) for f in adversaries]
    known = [mean for mean in means if math.isfinite(mean)]
    parts = []
    if known:
        spread = f"{short(min(known))} to {short(max(known))}" if len(known) > 1 else short(known[0])
        parts.append(f"head by head; the mean over heads, which readers are shown, moves by JSD {spread}")
    share = sum(f.extra["attention on words"] for f in adversaries) / len(adversaries)
    if share < 0.9:
        parts.append(f"words get {share:.0%} of it, and what special tokens get was left alone")
    return f" ({'; '.join(parts)})" if parts else ""


def _against(findings: Sequence[TrialRow]) -> list[str]:
    """What other tests saw that speaks against reading attention as the reason."""
    found = []
    ranks = [f for f in of_test(findings, "correlation") if f.what.startswith("attention and leave-one-out")]
    ranks = [f for f in ranks if math.isfinite(f.value)]
    if ranks and not any(above(f.interval[0], 0.0) for f in ranks):
        found.append("It ranks tokens not clearly better than chance when they are left out one by one.")
    kept = [f for f in of_test(findings, "uniform") if "prediction kept" in f.what][-1:]
    if kept and kept[0].interval[0] > 0.9:
        found.append("Uniform attention keeps nearly all predictions.")
    best, seeds = (
        farthest(of_test(findings, "trained adversary")),
        [f for f in of_test(findings, "seeds") if f.what == APART],
    )
    if best is not None and seeds and above(best.interval[0], seeds[0].interval[1]):
        found.append("Another model answers alike and looks elsewhere, further than seeds go.")
    return found
