"""A trial in words: what each test showed, what it did not, and one paragraph that claims no more.

The words follow from the numbers by the rules written here; a rule names its threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from heedful.debate.findings import Finding
from heedful.debate.result import Statement, Trial, by_test
from heedful.wording import listed

REFERENCE = "gradients and leave-one-out"  # the published yardstick of a correlation
FREE = 0.5  # share of the highest JSD there is, from which on attention counts as freely replaceable
PINNED = 0.1  # share below which it counts as pinned by the answer
KEPT = 0.05  # mean TVD up to which a trained adversary kept the answers


def statements(trial: Trial) -> list[Statement]:
    """One a test that was held, in order."""
    said = []
    for test, findings in by_test(trial.findings).items():
        if test in SAID:
            title, showed, not_shown = SAID[test]
            said.append(Statement(test, title, showed(findings), not_shown))
    return said


def paragraph(trial: Trial) -> str:
    """What each test showed and did not, then what that comes to."""
    each = (f"{said.showed} Not shown: {said.not_shown}" for said in statements(trial))
    return " ".join([*each, conclusion(trial)])


# --- what was shown ----------------------------------------------------------------------------------------


def _correlation(findings: Sequence[Finding]) -> str:
    reference = [f for f in findings if f.what == REFERENCE]
    parts = []
    for to in ("gradients", "leave-one-out"):
        own = [f for f in findings if f.what.startswith(f"attention and {to},")]
        best = max(own, key=lambda f: _or(f.value, -2.0))
        parts.append(f"like {to} with tau {_told(best)} at best ({_place(best)})")
    chance = _short(_mean_control(findings))
    said = f"Attention ranks tokens {' and '.join(parts)}; a random order has {chance}."
    if reference:
        clear = _worse(findings)
        more = "more than attention does with either" if clear else "not clearly more than attention does"
        said += f" Gradients and leave-one-out agree with each other at {_told(reference[0])}, {more}."
    return said


def _permutation(findings: Sequence[Finding]) -> str:
    low, high = _ends(findings)
    said = f"Shuffled attention moves the answer by {_short(low.value)} ({_place(low)})"
    said += "" if low is high else f" to {_short(high.value)} ({_place(high)})"
    word = high.control
    said += f", where deleting one random word moves it by {_short(word)}"
    if math.isfinite(word) and high.interval[1] < word:
        return said + ": the order of the weights matters less than a single word."
    if math.isfinite(word) and low.interval[0] > word:
        return said + ": the order of the weights matters more than a single word."
    return said + "."


def _adversary(findings: Sequence[Finding]) -> str:
    low, high = _ends(findings)
    share = max(f.extra["share of texts with an adversary"] for f in findings)
    said = f"Other attention that keeps the answer was found for up to {share:.0%} of the texts: as far as "
    said += f"JSD {_short(low.value)} ({_place(low)})"
    said += "" if low is high else f" to {_short(high.value)} ({_place(high)})"
    return said + (
        f" of at most {_short(high.extra['highest JSD of any weights'])}, "
        f"where random weights that keep the answer get to {_short(high.control)}."
    )


def _uniform(findings: Sequence[Finding]) -> str:
    """The last place is all layers, or the only one."""
    changed = [f for f in findings if "change of the answer" in f.what][-1]
    kept = [f for f in findings if "prediction kept" in f.what][-1:]
    right = [f for f in findings if "accuracy" in f.what][-1:]
    said = f"With uniform attention the answer moves by {_told(changed)}"
    said += f" (with all words deleted: {_short(changed.control)})"
    said += f"; the prediction stays in {kept[0].value:.0%} of the texts" if kept else ""
    if right:
        own = right[0].extra["accuracy of the model as it is"]
        said += f"; accuracy goes from {own:.3f} to {right[0].value:.3f} (most frequent label: "
        said += f"{right[0].control:.3f})"
    return said + "."


def _frozen(findings: Sequence[Finding]) -> str:
    lost = next(f for f in findings if f.what == "accuracy, lost without attention")
    said = f"Trained with uniform attention, models of this kind lose {_told(lost)} of accuracy"
    if lost.interval[0] > 0:
        return said + ": attention helps them."
    return said + ": it was not seen that they need attention for this task."


def _seeds(findings: Sequence[Finding]) -> str:
    apart = next(f for f in findings if f.what == "attention of two seeds apart")
    return f"Models that differ by a seed alone are JSD {_told(apart)} apart in attention."


def _second(findings: Sequence[Finding]) -> str:
    best, moved = _farthest(findings), [f for f in findings if f.what.startswith("attention moved")]
    said = ""
    if best is None:
        best = min((f for f in moved if f.extra["lambda"]), key=lambda f: f.extra["TVD"], default=None)
        said = f"No trained adversary kept the answers within a mean TVD of {KEPT:g}. "
    if best is None:
        return said.strip()
    said += (
        f"A trained adversary that moved the answers by a mean TVD of {_short(best.extra['TVD'])} "
        f"moved attention by JSD {_told(best)}"
    )
    if not math.isfinite(best.control):
        return said + "."
    if best.interval[0] > best.control:
        return said + f", further than two seeds are apart ({_short(best.control)})."
    return said + f", not clearly further than two seeds are apart ({_short(best.control)})."


def _guide(findings: Sequence[Finding]) -> str:
    by_name = {f.what.removeprefix("accuracy, guide: "): f for f in findings if f.unit == "accuracy"}
    shown = [f"{name} {_told(f)}" for name, f in by_name.items() if " rather than " not in name]
    said = f"A network that reads each token alone, guided by the weights, has accuracy: {listed(shown)}."
    better = [
        name
        for name in ("shuffled", "uniform")
        if (gap := by_name.get(f"model rather than {name}")) is not None and gap.interval[0] > 0
    ]
    if better:
        return said + f" This model's weights help more than {listed(better)} ones."
    return said + " This model's weights do not clearly help more than shuffled or uniform ones."


def _training(findings: Sequence[Finding]) -> str:
    parts = []
    for name in ("accuracy", "AUPRC"):
        lines = [f for f in findings if f.what.startswith(f"{name}, ") and "more than none" in f.extra]
        told = [_gap(f) for f in lines]
        if told:
            parts.append(f"{name} against training without a term: {listed(told)}")
    return f"Trained on with a term on its heads, {'; '.join(parts)}." if parts else ""


def _gap(found: Finding) -> str:
    extra = found.extra
    return (
        f"{found.what.split(', ')[-1]} {_signed(extra['more than none'])} "
        f"[{_signed(extra['at least'])}, {_signed(extra['at most'])}]"
    )


SAID: dict[str, tuple[str, Callable[[Sequence[Finding]], str], str]] = {
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


# --- what it comes to --------------------------------------------------------------------------------------


def conclusion(trial: Trial) -> str:
    """One sentence, by rule: is attention freely replaceable, pinned, or neither, on these texts?"""
    adversaries = [f for f in trial.of("adversary") if f.extra.get("highest JSD of any weights")]
    if not adversaries:
        return "Without the search for adversaries nothing is said about attention as a whole."
    shares = [f.value / f.extra["highest JSD of any weights"] for f in adversaries]
    texts = f"On these {trial.texts:,} texts"
    if min(shares) >= FREE:
        return (
            f"{texts} attention is not the only one that gives these answers, in any layer: "
            "it says where the model looked, and should not be read alone as why it answered."
        )
    if max(shares) <= PINNED:
        return (
            f"{texts} the answers hold attention fast: hardly any other gives them. That alone does not make "
            "it an explanation, but these tests did not speak against reading it."
        )
    free = [_place(f) for f, share in zip(adversaries, shares, strict=True) if share >= FREE]
    where = f"In {listed(free)} it can be replaced at will" if free else "No layer can be replaced at will"
    advice = "read it beside a method that removes words"
    return f"{texts} attention is held by the answers in part. {where}: {advice}."


def _worse(findings: Sequence[Finding]) -> bool:
    """Attention agrees with leave-one-out clearly less than gradients do."""
    reference = next((f for f in findings if f.what == REFERENCE), None)
    own = [f for f in findings if f.what.startswith("attention and ")]
    return reference is not None and all(f.interval[1] < reference.interval[0] for f in own)


def _farthest(findings: Sequence[Finding]) -> Finding | None:
    moved = (f for f in findings if f.what.startswith("attention moved") and f.extra["lambda"])
    kept = [f for f in moved if f.extra["TVD"] <= KEPT]
    return max(kept, key=lambda f: f.value) if kept else None


# --- numbers as words --------------------------------------------------------------------------------------


def _ends(findings: Sequence[Finding]) -> tuple[Finding, Finding]:
    """The smallest and the largest value; the same finding if there is one."""
    ordered = sorted(findings, key=lambda f: _or(f.value, 0.0))
    return ordered[0], ordered[-1]


def _place(found: Finding) -> str:
    return found.what.split(", ")[-1]


def _told(found: Finding) -> str:
    low, high = found.interval
    if math.isfinite(low) and math.isfinite(high):
        return f"{_short(found.value)} [{_short(low)}, {_short(high)}]"
    return _short(found.value)


def _mean_control(findings: Sequence[Finding]) -> float:
    known = [f.control for f in findings if math.isfinite(f.control)]
    return sum(known) / len(known) if known else math.nan


def _or(value: float, other: float) -> float:
    return value if math.isfinite(value) else other


def _short(value: float) -> str:
    return f"{value:.2f}".replace("-", "−") if math.isfinite(value) else "unknown"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−") if math.isfinite(value) else "unknown"
