"""A trial in words: what each test showed, what it did not, and one paragraph that claims no more.

The words follow from the numbers by the rules written here; a rule names its threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from heedful.core.phrases import listed
from heedful.trials.conclusion import conclusion
from heedful.trials.formatting import (
    APART,
    KEPT,
    above,
    ends,
    farthest,
    mean_control,
    place,
    short,
    signed,
    unmoved,
    with_interval,
)
from heedful.trials.rows import Statement, TrialRow, by_test, of_test

NOTHING = "neither changes the answer, so this test shows nothing here"
REFERENCE = "gradients and leave-one-out"  # the published yardstick of a correlation


def statements(findings: Sequence[TrialRow]) -> list[Statement]:
    """One a test that was held, in order."""
    said = []
    for test, own in by_test(findings).items():
        if test in SAID:
            title, showed, not_shown = SAID[test]
            said.append(Statement(test, title, showed(own, findings), not_shown))
    return said


def paragraph(findings: Sequence[TrialRow], texts: int) -> str:
    """What each test showed and did not, then what that comes to."""
    each = (f"{said.showed} Not shown: {said.not_shown}" for said in statements(findings))
    return " ".join([*each, conclusion(findings, texts)])


# --- what was shown ----------------------------------------------------------------------------------------


def _correlation(findings: Sequence[TrialRow], every: Sequence[TrialRow]) -> str:
    known = [f for f in findings if math.isfinite(f.value)]
    parts = []
    for to in ("gradients", "leave-one-out"):
        own = [f for f in known if f.what.startswith(f"attention and {to},")]
        if own:
            best = max(own, key=lambda f: f.value)
            share = best.extra["share significant"]
            where = f"{place(best)}; significant in {share:.0%} of texts"
            parts.append(f"like {to} with tau {with_interval(best)} at best ({where})")
    if not parts:
        return "No text has ranks to compare: fewer than two words, or scores that are all the same."
    chance = short(mean_control(known))
    said = f"Attention ranks tokens {' and '.join(parts)}; a random order has {chance}."
    reference = next((f for f in known if f.what == REFERENCE), None)
    if reference is not None:
        more = (
            "more than attention does with either"
            if _worse(known)
            else "not clearly more than attention does"
        )
        said += f" Gradients and leave-one-out agree with each other at {with_interval(reference)}, {more}."
    return said


def _worse(findings: Sequence[TrialRow]) -> bool:
    """Attention agrees with leave-one-out clearly less than gradients do."""
    reference = next((f for f in findings if f.what == REFERENCE), None)
    own = [f for f in findings if f.what.startswith("attention and ")]
    return reference is not None and all(above(reference.interval[0], f.interval[1]) for f in own)


def _permutation(findings: Sequence[TrialRow], every: Sequence[TrialRow]) -> str:
    low, high = ends(findings)
    said = f"Shuffled attention moves the answer by {short(low.value)} ({place(low)})"
    said += "" if low is high else f" to {short(high.value)} ({place(high)})"
    said += f", where deleting one random word moves it by {short(high.control)}"
    if unmoved(high):
        return f"{said}: {NOTHING}."
    if above(0.0, high.extra.get("at most", math.nan)):
        said += ": the order of the weights matters less than a single word"
    elif above(low.extra.get("at least", math.nan), 0.0):
        said += ": the order of the weights matters more than a single word"
    elif not any(_differs(f) for f in findings):
        said += ": no clear difference"
    together = high.extra.get("Spearman of largest weight and change", math.nan)
    if math.isfinite(together):
        said += f". Over texts, change and largest weight have a Spearman correlation of {short(together)}"
    return said + "."


def _differs(found: TrialRow) -> bool:
    """Shuffling changes the answer clearly more, or clearly less, than deleting a word."""
    return above(found.extra.get("at least", math.nan), 0.0) or above(
        0.0, found.extra.get("at most", math.nan)
    )


def _adversary(findings: Sequence[TrialRow], every: Sequence[TrialRow]) -> str:
    known = [f for f in findings if math.isfinite(f.value)]
    if not known:
        return (
            "No text has two words between which attention could be dealt out, and an answer that feels it."
        )
    low, high = ends(known)
    share = max(f.extra["share of texts with an adversary"] for f in known)
    feasible = max(f.extra["share of starts feasible"] for f in known)
    said = f"Other attention that keeps the answer was found for up to {share:.0%} of texts, on average at "
    if not share:
        said = "No other attention was found that keeps the answer and beats random weights; the farthest is "
    said += f"JSD {with_interval(low)} ({place(low)})"
    said += "" if low is high else f" to {with_interval(high)} ({place(high)})"
    return said + (
        f" of at most {short(high.extra['highest JSD of any weights'])}, where random weights that keep the "
        f"answer get to {short(high.control)}. Up to {feasible:.0%} of the starts kept it unaided."
    )


def _uniform(findings: Sequence[TrialRow], every: Sequence[TrialRow]) -> str:
    """The last place is all layers, or the only one."""
    changed = [f for f in findings if "change of the answer" in f.what][-1]
    kept = [f for f in findings if "prediction kept" in f.what][-1:]
    right = [f for f in findings if "accuracy" in f.what][-1:]
    said = f"With uniform attention the answer moves by {with_interval(changed)}"
    said += f" (with all words deleted: {short(changed.control)})"
    if unmoved(changed):
        return f"{said}: {NOTHING}."
    said += f"; the prediction stays in {kept[0].value:.0%} of the texts" if kept else ""
    if right:
        own = right[0].extra["accuracy of the model as it is"]
        now = right[0].value
        moved = f"goes from {own:.3f} to {now:.3f}" if f"{own:.3f}" != f"{now:.3f}" else f"stays at {own:.3f}"
        said += f"; accuracy {moved} (most frequent label: {right[0].control:.3f})"
    return said + "."


def _frozen(findings: Sequence[TrialRow], every: Sequence[TrialRow]) -> str:
    by_name = {f.what.removeprefix("accuracy, "): f for f in findings if f.unit == "accuracy"}
    free, lost = by_name["trained freely"], by_name["lost without attention"]
    if not above(free.interval[0], free.control):
        return (
            "Models of this kind, trained again, did not clearly learn the task (accuracy "
            f"{with_interval(free)}, majority class {short(free.control)}): nothing is seen of what "
            "attention is worth to them."
        )
    said = (
        f"Trained again freely, models of this kind reach an accuracy of {with_interval(free)} (this model: "
        f"{short(free.extra['this model'])}); with uniform attention they lose {with_interval(lost)}"
    )
    if above(lost.interval[0], 0.0):
        return said + ": attention helps them."
    return said + ": at this budget it is not seen that they need it."


def _seeds(findings: Sequence[TrialRow], every: Sequence[TrialRow]) -> str:
    apart = next(f for f in findings if f.what == APART)
    return f"Models that differ by a seed alone are JSD {with_interval(apart)} apart in attention."


def _second(findings: Sequence[TrialRow], every: Sequence[TrialRow]) -> str:
    best, moved = farthest(findings), [f for f in findings if f.what.startswith("attention moved")]
    said = ""
    if best is None:
        best = min((f for f in moved if f.extra["lambda"]), key=lambda f: f.extra["TVD"], default=None)
        said = f"No trained adversary kept the answers within a mean TVD of {KEPT:g}. "
    if best is None:
        return said.strip()
    said += (
        f"A trained adversary that moved the answers by a mean TVD of {short(best.extra['TVD'])} "
        f"moved attention by JSD {with_interval(best)}"
    )
    seeds = next((f for f in of_test(every, "seeds") if f.what == APART), None)
    if seeds is None:
        return said + "."
    clear = above(best.interval[0], seeds.interval[1])
    how = "further" if clear else "not clearly further"
    return f"{said}, {how} than two seeds are apart ({with_interval(seeds)})."


def _guide(findings: Sequence[TrialRow], every: Sequence[TrialRow]) -> str:
    by_name = {f.what.removeprefix("accuracy, guide: "): f for f in findings if f.unit == "accuracy"}
    shown = [f"{name} {with_interval(f)}" for name, f in by_name.items() if " rather than " not in name]
    said = f"A network that reads each token alone, guided by the weights, has accuracy: {listed(shown)}."
    better = [
        name
        for name in ("shuffled", "uniform")
        if (gap := by_name.get(f"model rather than {name}")) is not None and above(gap.interval[0], 0.0)
    ]
    if better:
        return said + f" This model's weights help more than {listed(better)} ones."
    return said + " This model's weights do not clearly help more than shuffled or uniform ones."


def _training(findings: Sequence[TrialRow], every: Sequence[TrialRow]) -> str:
    parts = []
    for name in ("accuracy", "AUPRC"):
        lines = [f for f in findings if f.what.startswith(f"{name}, ") and "more than none" in f.extra]
        gaps = [_gap(f) for f in lines]
        if gaps:
            parts.append(f"{name} against training without a term: {listed(gaps)}")
    return f"Trained on with a term on its heads, {'; '.join(parts)}." if parts else ""


def _gap(found: TrialRow) -> str:
    extra = found.extra
    return (
        f"{found.what.split(', ')[-1]} {signed(extra['more than none'])} "
        f"[{signed(extra['at least'])}, {signed(extra['at most'])}]"
    )


SAID: dict[str, tuple[str, Callable[[Sequence[TrialRow], Sequence[TrialRow]], str], str]] = {
    "correlation": (
        "Does attention agree with gradients and leave-one-out?",
        _correlation,
        "which of them is right: all are measures, and many of the tokens they rank hardly matter.",
    ),
    "permutation": (
        "Does the answer move when attention is shuffled?",
        _permutation,
        "that the model could do without attention: these weights were put in, not computed by it, and a "
        "sure answer hardly moves whatever is done.",
    ),
    "adversary": (
        "Can attention be changed, text by text, and the answer stay?",
        _adversary,
        "that any model computes such weights: they were searched for one text at a time. Whether trained "
        "weights can do it for all texts is the trained adversary's question.",
    ),
    "uniform": (
        "Does this model need its attention?",
        _uniform,
        "whether a model trained without attention would do as well: this one was trained with it.",
    ),
    "frozen": (
        "Does a model of this kind need attention for this task?",
        _frozen,
        "anything about one text: a task may need attention as a whole and a single answer not.",
    ),
    "seeds": (
        "How far do seeds alone move attention?",
        _seeds,
        "that either seed is wrong: it is the scale by which adversaries are read.",
    ),
    "trained adversary": (
        "Can another model answer alike and look elsewhere?",
        _second,
        "that the first model's attention is no explanation of the first model: it shows that answers like "
        "these do not determine it.",
    ),
    "guide": (
        "Do the weights help a network that has no attention of its own?",
        _guide,
        "that the model uses the words so: only that its weights carry something about the words.",
    ),
    "training": (
        "Can training make attention better?",
        _training,
        "that attention people find plausible is what the model goes by: the term asked for marked words, "
        "not for their use.",
    ),
}
