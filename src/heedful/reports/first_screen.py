"""What the first screen of an explanation says: which words, which methods, and which method to use.

Words are named only by methods that passed on this text, with the effect that was measured when each was
really removed. One text shows which methods beat random orders on it, never which method to use: that comes
from an audit of the same model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.comparisons.result import Comparison, ranked_unit
from heedful.comparisons.single_text import ALPHA, MethodStanding, draws_needed, standings
from heedful.core.defaults import CONTROL
from heedful.core.internals import Removal
from heedful.core.numbers import fixed_signed
from heedful.core.phrases import listed
from heedful.metrics import sensitivity_warning
from heedful.reports.columns import ScoreColumn, columns
from heedful.reports.word_labels import numbered

NAMED_WORDS = 3  # words in the sentence
CANDIDATES = 5  # strongest words of a method, of which those with the largest measured effect are named
STRONG = 0.25  # share of a method's strongest word from which on a claim is looked at
SMALL = 0.02  # share of the largest measured effect below which a sign means nothing
PREFERRED = ("occlusion", "lime", "integrated-gradients", "grad-x-input")  # where nothing was measured
REMOVED = {  # operator -> what was done
    "delete": "deleting",
    "mask": "masking",
    "swap": "replacing",
    "unk": "replacing",
    "pad": "hiding",
    "mean": "averaging out",
}
ASK_FOR_AUDIT = "Which method to use: heedful audit on 50 texts or more, or pass --audit RUN."
SHORT = 5  # words up to which random orders often do as well as the best


@dataclass(frozen=True)
class Contradiction:
    """A claim about a word, and the effect of really removing it, with the other sign."""

    word: str
    method: str
    claimed: str
    measured: str
    how: str  # "deleting"
    size: float

    def __str__(self) -> str:
        return f"“{self.word}”: {self.method} claims {self.claimed}, but {self.how} it gives {self.measured}."


def tested(methods: Sequence[MethodStanding]) -> bool:
    return bool(methods) and not math.isnan(methods[0].p)


def passed(comparison: Comparison) -> list[MethodStanding]:
    """Methods that are better than random orders on this text, as they are offered; where there are too few
    orders for a test, those that beat all of them."""
    methods, order = standings(comparison.evidence), ordered(comparison)
    good = [one for one in methods if (one.p <= ALPHA if tested(methods) else one.beat == one.draws)]
    return sorted(good, key=lambda one: order.index(one.method) if one.method in order else len(order))


def ordered(comparison: Comparison) -> list[str]:
    """Methods as they are offered: the recommended one, then by random orders beaten, then the fewest model
    inputs; the control last."""
    beat = {one.method: one.beat for one in standings(comparison.evidence)}
    use = recommended(comparison)

    def key(method: str) -> tuple[bool, bool, int, int, int]:
        place = PREFERRED.index(method) if method in PREFERRED else len(PREFERRED)
        cost = comparison[method].cost
        inputs = cost.forwards + cost.backwards
        return method == CONTROL, method != use, -beat.get(method, -1), inputs if beat else place, place

    return sorted(comparison, key=key)


def recommended(comparison: Comparison) -> str:
    """By the audit that was given; "" where none was."""
    return str((comparison.settings.get("audit") or {}).get("use") or "")


def removal(comparison: Comparison) -> Removal | None:
    """The measured effects: by the operator of the evidence, else by the one that measured most words."""
    known = [r for r in comparison.internals.removals if any(map(math.isfinite, r.leave_one_out))]
    used = {e.operator for e in comparison.evidence}
    return max(
        known,
        key=lambda r: (r.operator in used, sum(map(math.isfinite, r.leave_one_out))),
        default=None,
    )


def why(comparison: Comparison) -> str:
    """Which words decide, by the methods that passed, with their measured effects."""
    measured = removal(comparison)
    if not comparison.evidence:
        none = "No evidence was measured, so no words are named: the colours show what one method claims."
        return _effects(comparison, measured) or none
    good = {one.method for one in passed(comparison)}
    cols = [col for col in columns(comparison) if col.method in good]
    if not cols:
        return _without_methods(comparison, measured)
    labels = numbered([word.text for word in cols[0].words])
    counts = Counter(i for col in cols for i in _strongest(col))
    named = sorted(i for i, count in counts.items() if 2 * count >= len(cols))
    known = [] if measured is None else [i for i in named if math.isfinite(measured.leave_one_out[i])]
    if measured is None or not known:
        first = _strongest(cols[0])[:NAMED_WORDS]
        words = listed([f"“{labels[i]}”" for i in first])
        return f"{words} matter most, says {cols[0].method}; the effect of each alone was not measured."
    return _measured(cols, known, labels, measured, effect_unit(comparison))


def _without_methods(comparison: Comparison, measured: Removal | None) -> str:
    """The measured effects, and that no method passed."""
    none = "No method is better than random orders on this text"
    unit = ranked_unit(comparison)
    count = len(comparison.x.units(unit))
    if count <= SHORT:
        none += f": with {count} {unit}s, random orders often do as well"
    return f"{_effects(comparison, measured)} {none}.".strip()


def _effects(comparison: Comparison, measured: Removal | None) -> str:
    """Measured effects are facts, whatever the methods say; "" where not every word was removed."""
    if measured is None or not all(map(math.isfinite, measured.leave_one_out)):
        return ""
    effects, unit = measured.leave_one_out, ranked_unit(comparison)
    if not any(effects):
        return f"Removing one {unit} at a time does not change the answer."
    labels = numbered([word.text for word in columns(comparison)[0].words])
    order = sorted(range(len(effects)), key=lambda i: -abs(effects[i]))[:NAMED_WORDS]
    order = [i for i in order if abs(effects[i]) >= STRONG * abs(effects[order[0]])]
    names = listed([f"“{labels[i]}” ({fixed_signed(effects[i], 2)})" for i in order])
    how = REMOVED.get(measured.operator, "removing").capitalize()
    return f"{how} one {unit} at a time, {names} change{'s' * (len(order) == 1)} the answer most."


def _strongest(col: ScoreColumn) -> list[int]:
    """The words that a method names."""
    order = sorted(range(len(col.words)), key=lambda i: -abs(col.words[i].score))[:CANDIDATES]
    return [i for i in order if abs(col.share(col.words[i])) >= STRONG]


def _measured(
    cols: Sequence[ScoreColumn], named: Sequence[int], labels: Sequence[str], measured: Removal, unit: str
) -> str:
    """Words whose effect has the sign that most of the methods claim, the largest effect first."""
    effects = measured.leave_one_out
    top = max(abs(v) for v in effects if math.isfinite(v))

    def contradicted(i: int) -> bool:
        signed = [col for col in cols if col.item.signed]
        wrong = sum(_contradicts(col, i, effects[i], top) for col in signed)
        return 2 * wrong > len(signed)

    agree = sorted((i for i in named if not contradicted(i)), key=lambda i: -abs(effects[i]))[:NAMED_WORDS]
    agree = [i for i in agree if abs(effects[i]) >= STRONG * abs(effects[agree[0]])]
    if not agree or not top:
        return "The methods name words, but removing any of them alone does not change the output that way."
    names = listed([f"“{labels[i]}” ({fixed_signed(effects[i], 2)})" for i in agree])
    how = REMOVED.get(measured.operator, f"removing ({measured.operator})")
    one = len(agree) == 1
    return f"{names} decide{'s' * one} it, measured by {how} {'it' if one else 'each of them'} ({unit})."


def _contradicts(col: ScoreColumn, i: int, effect: float, top: float) -> bool:
    """The method has a sign, and the measured effect has the other."""
    score = col.words[i].score
    known = col.item.signed and math.isfinite(effect) and math.isfinite(score)
    return known and score * effect < 0 and abs(effect) >= SMALL * top


def contradictions(comparison: Comparison, methods: Sequence[str] | None = None) -> list[Contradiction]:
    """Strong claims of which the measured effect has the other sign, the strongest first."""
    measured = removal(comparison)
    if measured is None:
        return []
    effects = measured.leave_one_out
    top = max(abs(v) for v in effects if math.isfinite(v))
    found = []
    for col in columns(comparison):
        if col.method == CONTROL or (methods is not None and col.method not in methods):
            continue
        labels = numbered([word.text for word in col.words])
        for i, word in enumerate(col.words):
            size = abs(col.share(word))
            if size >= STRONG and not col.unsure(word) and _contradicts(col, i, effects[i], top):
                claimed = f"{col.sign(word)}{col.number(word)}{col.unit}"
                how, shown = REMOVED.get(measured.operator, "removing"), fixed_signed(effects[i], 2)
                found.append(Contradiction(labels[i], col.method, claimed, shown, how, size))
    return sorted(found, key=lambda each: -each.size)


def better_than_random(comparison: Comparison) -> str:
    """Which methods beat random orders on this text, and which did not."""
    methods = standings(comparison.evidence)
    if not methods:
        return ""
    draws, good = methods[0].draws, passed(comparison)
    rest = [one for one in methods if one not in good]
    if tested(methods) and not good:
        return f"Tested against {draws} random orders: {', '.join(one.method for one in methods)}."
    if tested(methods):
        names = ", ".join(
            f"{one.method} (beat {one.beat} of {draws} random orders)" if not place else one.method
            for place, one in enumerate(good)
        )
        less = f" Not proven better: {', '.join(one.method for one in rest)}." if rest else ""
        return f"Better than random here: {names}.{less}"
    names = ", ".join(one.method for one in good)
    less = ", ".join(f"{one.method} ({one.beat})" for one in rest)
    lines = [f"Beat all {draws} random orders here: {names or 'no method'}."]
    lines += [f"Beat fewer: {less}."] if less else []
    lines.append(f"For a test of {len(methods)} methods, add --draws {draws_needed(len(methods))}.")
    return " ".join(lines)


def which_to_use(comparison: Comparison, ask: str = ASK_FOR_AUDIT) -> str:
    """The recommendation of the audit that was given, or how to get one."""
    audit = comparison.settings.get("audit")
    if not audit:
        return ask
    return f"{audit['sentence']} (audit {audit['run']})"


def effect_unit(comparison: Comparison) -> str:
    """What a measured effect is a change of."""
    kinds = {"sequence": "log-probability", "regression": "output"}
    function = comparison.model.get("kind") == "function"
    return f"change of the {'score' if function else kinds.get(comparison.target.kind, 'logit')}"


def little(comparison: Comparison) -> str:
    """A sentence where removing words hardly changes the output."""
    return sensitivity_warning.of_one_text(comparison.internals.removals, str(comparison.model.get("kind")))
