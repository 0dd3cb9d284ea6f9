"""What the first screen of an explanation says: which words, which methods, and which method to use.

Words are named only by methods that passed on this text, with the effect that was measured when each was
really removed. One text shows which methods beat random orders on it, never which method to use: that comes
from an audit of the same model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from heedful.comparisons.result import Comparison, ranked_unit, unit_noun
from heedful.comparisons.single_text import draws_needed, lower_than_controls, standings
from heedful.core.defaults import CONTROLS, EFFECTS_ONLY
from heedful.core.internals import Removal
from heedful.core.phrases import listed, plural
from heedful.metrics import sensitivity_warning
from heedful.reports.columns import ScoreColumn, columns
from heedful.reports.comparison_summary import quote
from heedful.reports.contradictions import STRONG, contradicts, effect_text, removing
from heedful.reports.tested_methods import (
    largest_effect,
    none_passed,
    nothing_changes,
    passed,
    passed_controls,
    removal,
    tested,
)
from heedful.reports.word_labels import numbered

NAMED_WORDS = 3  # words in the sentence
NUMBERS = "①②③"  # of the units that are outlined in a picture
CANDIDATES = 5  # strongest words of a method, of which those with the largest measured effect are named
ASK_FOR_AUDIT = "Which method to use: heedful audit on 50 {} or more, or pass --audit RUN."
STATED = ": its numbers are stated by the file, and were not computed again"
ASK_FOR_AUDIT_IN_PYTHON = "Which method to use: heedful.audit on 50 {} or more, or pass audit=RUN."
SHORT = 5  # words up to which there are few orders
MUCH = 3.0  # times: effects by two operators that differ by more are both told
LONG_LABEL = 30  # characters; a longer label is called "it"


def why(comparison: Comparison) -> str:
    """Which units speak for and against the target, with their measured effects."""
    measured = removal(comparison)
    if nothing_changes(comparison):
        return "Nothing that was removed changes the output, so nothing is shaded and no method is compared."
    if not comparison.evidence:
        units = plural(unit_noun(comparison))
        none = f"No evidence was measured, so no {units} are named: the colours show what one method claims."
        return _effects(comparison, measured) or none
    good = passed(comparison)
    cols = [col for col in columns(comparison) if col.method in {one.method for one in good}]
    if not cols:
        return _effects(comparison, measured)
    labels = numbered([word.text for word in cols[0].words])
    known = _known(cols, measured)
    if measured is None or not known:
        words = listed([f"“{labels[i]}”" for i in _strongest(cols[0])[:NAMED_WORDS]])
        return f"{words} matter most, says {cols[0].method}; the effect of each alone was not measured."
    words_agreed = _agreed(cols, known, measured)
    if not words_agreed:
        units = plural(unit_noun(comparison))
        return (
            f"The methods name {units}, but removing one of them alone does not change the output that way."
        )
    how = f"{removing(comparison, measured.operator)} {'each' if len(words_agreed) > 1 else 'it'}"
    better = "better than random" if tested(good) else "that beat all random orders"
    told = for_and_against(comparison, labels, measured, words_agreed)
    return f"{told} Named by methods {better}, measured by {how} ({effect_unit(comparison)})."


def _known(cols: Sequence[ScoreColumn], measured: Removal | None) -> list[int]:
    """Units that at least half of the methods name, and whose effect was measured."""
    counts = Counter(i for col in cols for i in _strongest(col))
    named = sorted(i for i, count in counts.items() if 2 * count >= len(cols))
    return [] if measured is None else [i for i in named if math.isfinite(measured.leave_one_out[i])]


def named_units(comparison: Comparison) -> list[int]:
    """The units that `why` names with an effect, in the order of the sentence."""
    measured = removal(comparison)
    if measured is None:
        return []
    effects = measured.leave_one_out
    good = {one.method for one in passed(comparison)} if comparison.evidence else set()
    cols = [col for col in columns(comparison) if col.method in good]
    if cols:
        units = _agreed(cols, _known(cols, measured), measured)
    else:
        units = _largest(measured) if _effects(comparison, measured) else []
    return sorted(units, key=lambda i: effects[i] <= 0)  # the sort is stable: those for the target first


def for_and_against(
    comparison: Comparison, labels: Sequence[str], measured: Removal, words: Sequence[int]
) -> str:
    """For “positive”: “great” (+0.54). Against it: “bad” (−0.64). Of a picture, where units are numbered:
    For “cat”: ① row 2, column 3 (+0.54)."""
    target, effects = comparison.target, measured.leave_one_out
    label = target.label or f"{target.kind} {target.index}"
    name = quote(label) if len(label) <= LONG_LABEL else "it"
    if target.contrasted and name != "it":
        name += f" rather than {quote(target.contrast_label or str(target.contrast))}"
    sides = ("Raise", "Lower") if target.kind == "regression" else ("For", "Against")
    order = sorted(words, key=lambda i: effects[i] <= 0)
    parts: list[str] = []
    for side, sign in zip(sides, (1, -1), strict=True):
        names = []
        for number, i in enumerate(order):
            drawn = f"{NUMBERS[number]} {labels[i]}" if comparison.x.noun == "picture" else f"“{labels[i]}”"
            if sign * effects[i] > 0:
                names.append(f"{drawn} ({effect_text(effects[i])}{_by_another(comparison, measured, i)})")
        if names:
            joined = "; ".join(names) if comparison.x.noun == "picture" else ", ".join(names)
            parts.append(f"{side} {'it' if parts else name}: {joined}.")
    return " ".join(parts)


def _by_another(comparison: Comparison, measured: Removal, unit: int) -> str:
    """The effect by the operator that disagrees most, where it has the other sign or is more than MUCH times
    as large or as small; "" where they agree."""
    own = measured.leave_one_out[unit]
    others = {
        r.operator: r.leave_one_out[unit]
        for r in comparison.internals.removals
        if r.operator != measured.operator and math.isfinite(r.leave_one_out[unit])
    }
    if not others:
        return ""
    operator = max(others, key=lambda name: abs(others[name] - own))
    small, large = sorted((abs(own), abs(others[operator])))
    if own * others[operator] > 0 and large <= MUCH * small:
        return ""
    return f"; {effect_text(others[operator])} by {operator}"


def _compares(comparison: Comparison) -> bool:
    """Something is said about methods: removals change the output, and more than effects was asked for."""
    return not nothing_changes(comparison) and not comparison.settings.get(EFFECTS_ONLY)


def none_better(comparison: Comparison) -> str:
    """Where no method passed: that it is so, and what it means."""
    if not none_passed(comparison) or not _compares(comparison):
        return ""
    unit, noun = unit_noun(comparison), comparison.x.noun
    count = len(comparison.x.units(ranked_unit(comparison)))
    if count == 1:
        return f"One {unit} has no orders to compare, so no method can be tested on this {noun}."
    if not tested(standings(comparison.evidence)):
        return ""
    few = (
        f"It has only {count} {plural(unit)}, so there are few orders to compare. " if count <= SHORT else ""
    )
    longer = "Use a longer text, or" if noun == "text" else "Use"
    more = f"{longer} heedful audit on many {plural(noun)}."
    return f"No method is proven better than random orders on this {noun}. {few}{more}"


def _effects(comparison: Comparison, measured: Removal | None) -> str:
    """Measured effects are facts, whatever the methods say. "" where few words were removed and a method
    shades the text."""
    none = none_passed(comparison)
    if measured is None:
        units = plural(unit_noun(comparison))
        unknown = f"The {comparison.x.noun} is not shaded: the effect of single {units} was not measured."
        return unknown if none else ""
    effects, unit = measured.leave_one_out, unit_noun(comparison)
    known = [i for i, value in enumerate(effects) if math.isfinite(value)]
    if len(known) < len(effects) and not none:
        return ""
    top = largest_effect(measured)
    if not top:
        return f"Removing one {unit} at a time does not change the output."
    labels = numbered([word.text for word in columns(comparison)[0].words])
    order = _largest(measured)
    how = f"{removing(comparison, measured.operator)} {f'each {unit}' if len(effects) > 1 else 'it'}"
    some = f" of {len(known)} of {len(effects)} {plural(unit)}" if len(known) < len(effects) else ""
    shaded = (
        f"; the {comparison.x.noun} is shaded by these effects{some}" if none and len(effects) > 1 else ""
    )
    told = for_and_against(comparison, labels, measured, order)
    return f"{told} Measured by {how} ({effect_unit(comparison)}){shaded}."


def _largest(measured: Removal) -> list[int]:
    """The units with the largest measured effects."""
    effects, top = measured.leave_one_out, largest_effect(measured)
    known = [i for i, value in enumerate(effects) if math.isfinite(value) and value]
    order = sorted(known, key=lambda i: -abs(effects[i]))[:NAMED_WORDS]
    return [i for i in order if abs(effects[i]) >= STRONG * top]


def _strongest(col: ScoreColumn) -> list[int]:
    """The words that a method names."""
    order = sorted(range(len(col.words)), key=lambda i: -abs(col.words[i].score))[:CANDIDATES]
    return [i for i in order if abs(col.share(col.words[i])) >= STRONG]


def _agreed(cols: Sequence[ScoreColumn], named: Sequence[int], measured: Removal) -> list[int]:
    """Words whose effect has the sign that most of the methods claim, the largest effect first."""
    effects, top = measured.leave_one_out, largest_effect(measured)

    def contradicted(i: int) -> bool:
        signed = [col for col in cols if col.item.signed]
        wrong = sum(contradicts(col, i, effects[i], top) for col in signed)
        return 2 * wrong > len(signed)

    agree = [i for i in named if effects[i] and not contradicted(i)]
    agree = sorted(agree, key=lambda i: -abs(effects[i]))[:NAMED_WORDS]
    return [i for i in agree if abs(effects[i]) >= STRONG * abs(effects[agree[0]])]


def better_than_random(comparison: Comparison) -> str:
    """Which methods beat random orders on this text, and which did not."""
    methods = standings(comparison.evidence)
    alone = len(comparison.x.units(ranked_unit(comparison))) == 1
    if not methods or alone or not _compares(comparison):
        return ""
    draws, good = methods[0].draws, passed(comparison)
    rest = [one for one in methods if one not in good and one.method not in CONTROLS]
    if tested(methods) and not good:
        return f"Tested against {draws} random orders: {', '.join(one.method for one in rest)}."
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
    needed = draws_needed(len(methods))
    add = f"--draws {needed}" if typed(comparison) else f"draws={needed}"
    count = f"{len(methods)} methods" if len(methods) > 1 else "one method"
    lines.append(f"For a test of {count}, add {add}.")
    return " ".join(lines)


def better_control(comparison: Comparison) -> str:
    """A control that passes shows how little it takes to pass."""
    names = [one.method for one in passed_controls(comparison)]
    if not names or not _compares(comparison):
        return ""
    them = "this control does" if len(names) == 1 else "these controls do"
    also = f"Also better than random: {', '.join(names)}"
    return f"{also}. But {them} not look at the model, so passing means little here."


def scored_lower(comparison: Comparison) -> str:
    """Methods that scored lower than a control that does not look at the model: a description, no test."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for method, controls in lower_than_controls(comparison.evidence).items():
        if controls:
            groups.setdefault(controls, []).append(method)
    if not groups or not _compares(comparison):
        return ""
    noun = comparison.x.noun
    lines = [
        f"Scored lower than {listed(list(controls))} on this {noun}: {', '.join(names)}."
        for controls, names in groups.items()
    ]
    if comparison.settings.get("audit"):
        return " ".join([*lines, f"One {noun} is no test: trust the audit."])
    audit = "heedful audit" if typed(comparison) else "heedful.audit"
    return " ".join([*lines, f"One {noun} is no test: use {audit}."])


def typed(comparison: Comparison) -> bool:
    """It was made on the command line; else in Python, where options are parameters."""
    return "command" in comparison.settings


def which_to_use(comparison: Comparison, ask: str = "") -> str:
    """The recommendation of the audit that was given, or how to get one: `ask`, by default for the surface on
    which the explanation was made."""
    audit = comparison.settings.get("audit")
    if not audit and comparison.settings.get(EFFECTS_ONLY):
        return ""
    if not audit:
        return ask or (ASK_FOR_AUDIT if typed(comparison) else ASK_FOR_AUDIT_IN_PYTHON).format(
            plural(comparison.x.noun)
        )
    stated = "" if audit.get("verified", True) else STATED
    return f"{audit['sentence']} (audit {audit['run']}{stated})"


def effect_unit(comparison: Comparison) -> str:
    """What a measured effect is a change of."""
    kinds = {"sequence": "log-probability", "regression": "output", "similarity": "similarity"}
    function = comparison.model.get("kind") == "function"
    output = comparison.model.get("outputs", "logit")  # "probability" where the module ends in a softmax
    return f"{'score' if function else kinds.get(comparison.target.kind, output)} change"


def little(comparison: Comparison) -> str:
    """A sentence where removing words hardly changes the output."""
    if nothing_changes(comparison):
        return ""  # said before
    kind = str(comparison.model.get("kind"))
    return sensitivity_warning.of_one_text(comparison.internals.removals, kind, comparison.words)
