"""The parts of an explanation below its first screen, each a function from a `Comparison` to nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from heedful.comparisons.agreement import MEASURES, chance
from heedful.comparisons.result import Comparison, matrix, ranked_count, ranked_unit, with_written
from heedful.core.charts import BandCurve, BandCurves
from heedful.core.defaults import CONTROL
from heedful.core.document import (
    Bullets,
    Cell,
    Code,
    Column,
    Facts,
    Figure,
    Fold,
    Group,
    Legend,
    Node,
    Paragraph,
    Row,
    Section,
    Tab,
    Table,
    Tabs,
    nodes,
    text_table,
)
from heedful.core.evidence import Evidence
from heedful.core.input import NEVER
from heedful.core.internals import ActiveFeatures, AttentionSummary, FeatureEffect
from heedful.core.numbers import fixed, fixed_signed, short, span
from heedful.core.phrases import EXPENSIVE, left_out, listed
from heedful.reports import first_screen, reproduce
from heedful.reports.columns import ScoreColumn, columns, written_columns, written_words
from heedful.reports.comparison_summary import agreeing, explained, measured, notes, pointed
from heedful.reports.input_share import CANNOT, by_count, shares, written_part
from heedful.reports.text_map import text_map
from heedful.reports.word_labels import numbered
from heedful.reports.word_table import TABLE_ROWS, score_cell

MAX_WORDS = 20  # words in the table of attention
TOP_WORDS = 5  # strongest words whose overlap is shown
OWN = "occlusion"  # its scores are the removals themselves
SHOWN_CONTRADICTIONS = 10


# --- words -----------------------------------------------------------------------------------------


def words_lead(comparison: Comparison) -> str:
    unit = ranked_unit(comparison)
    lead = f"Explained: {explained(comparison)}. "
    if comparison.internals.removals:
        lead += f"Measured: how far it fell when this {unit} alone was removed; then what each method claims."
    else:
        lead += f"What each method claims about each {unit}."
    count = len(comparison.x.units(unit))
    return f"{lead} Shown are the {TABLE_ROWS} strongest of {count} {unit}s." if count > TABLE_ROWS else lead


def how_to_read(comparison: Comparison) -> Fold:
    """What the numbers of the table are."""
    unit, removals = ranked_unit(comparison), comparison.internals.removals
    lines = [f"A claim is the sum of the scores of the tokens of the {unit}, in the method's own unit."]
    lines.append("Colours: each method is shown relative to its own strongest score.")
    if removals:
        lines.append(f"Removed by {listed([r.operator for r in removals])}; – was not run.")
    if any(col.item.stderr is not None for col in columns(comparison)):
        lines.append("± is one standard error. ? marks a sign that is unsure: the 95 % interval contains 0.")
    if removals:
        lines.append(
            "The last row is Kendall’s τ between claims and measurements: 1 is the same order, 0 unrelated. "
            "Where a method has no sign, sizes are compared."
        )
        if OWN in comparison:
            lines.append(f"{OWN} is made of such removals, so its agreement is no merit.")
    return Fold("How to read this table", (Bullets(tuple(lines)),))


def contradicted(comparison: Comparison) -> tuple[Node, ...]:
    """Claims whose measured effect has the other sign."""
    found = first_screen.contradictions(comparison)
    if not found:
        return ()
    rows = [(each.word, each.method, each.claimed, each.measured) for each in found[:SHOWN_CONTRADICTIONS]]
    table = text_table(
        "Contradicted claims", (ranked_unit(comparison), "method", "claimed", "measured"), rows
    )
    count = f"{len(found)} strong claim{'s' * (len(found) > 1)}"
    more = f"; the {len(rows)} strongest are shown" if len(found) > len(rows) else ""
    about = f"Strong claims: a quarter or more of the method's strongest score{more}."
    return (Fold(f"{count} with the wrong sign", (Paragraph(about, "soft"), table)),)


def written(comparison: Comparison) -> Section | None:
    """What was already written: the share of the text, and the words with their scores."""
    result = shares(comparison)
    if not result:
        return None
    inside: list[Node] = [text_table("Input dependence by method", ("method", "on the text"), result)]
    if (behind := written_part(comparison)) is not None:
        cols = written_columns(comparison)
        inside += [Paragraph(str(behind.x.raw).strip(), "quote"), _written_table(cols, ranked_unit(behind))]
    lead = by_count(comparison) + (f" {CANNOT}" if any(share == "–" for _, share in result) else "")
    return Section("The text, and what was already written", tuple(inside), lead, "written")


def _written_table(cols: Sequence[ScoreColumn], unit: str) -> Table:
    labels = numbered([word.text for word in cols[0].words])
    rows = [
        Row((Cell(label), *(score_cell(col, col.words[index]) for col in cols)))
        for index, label in enumerate(labels)
    ]
    heads = (Column(unit), *(Column(col.label, col.unit) for col in cols))
    return Table("Scores of what was written", heads, tuple(rows))


def side_by_side(comparison: Comparison) -> Fold:
    """The text as every method sees it."""
    cols = columns(comparison)
    also = ", written ones included" if any(written_words(col.item, "word") for col in cols) else ""
    lead = (
        "One colour scale for all: full colour is each method's own strongest "
        f"{ranked_unit(comparison)}{also}, because their numbers have different units."
    )
    signed, unsigned = any(c.item.signed for c in cols), any(not c.item.signed for c in cols)
    inside = (Paragraph(lead, "soft"), Legend(signed, unsigned), methods(comparison))
    return Fold("The text by every method", inside)


def methods(comparison: Comparison) -> Group:
    """One shaded text per method."""
    text = str(comparison.x.raw)
    sections = [
        Section(col.label, (text_map(col, text),), " · ".join(_method_facts(col)), "method", minor=True)
        for col in columns(comparison)
    ]
    return Group(tuple(sections), "methods")


def _method_facts(col: ScoreColumn) -> Iterator[str]:
    yield "signed" if col.item.signed else "no sign"
    yield f"strongest {col.show(col.top)} {col.unit}".strip()
    if NEVER in col.item.x.units(col.item.over).owner:
        yield f"{100 * col.item.special_mass:.0f} % on special tokens"
    for name, value in col.item.params.items():
        if name == "operator":
            yield f"{name} {value}"


# --- evidence --------------------------------------------------------------------------------------


def evidence(comparison: Comparison) -> tuple[Node, ...]:
    """Skill by method and metric compared with random orders, and the curves."""
    result = comparison.evidence
    if not result:
        return ()
    pairs = list(dict.fromkeys((e.metric, e.operator) for e in result))
    cells = {(e.method, e.metric, e.operator): e for e in result}
    order = [m for m in first_screen.ordered(comparison) if any(e.method == m for e in result)]
    order += [m for m in dict.fromkeys(e.method for e in result) if m not in order]
    rows = [Row((Cell(m), *(evidence_cell(cells.get((m, *pair))) for pair in pairs))) for m in order]
    heads = (Column("method"), *(Column(metric, operator) for metric, operator in pairs))
    lead = (
        "Skill: 0 is the mean of random orders, 1 the best value that any method or random order reached on "
        "this text. Then: how many random orders it beat, the measured value, and between which values "
        "random orders were. c: the method was fitted by this removal, so it is not judged here."
    )
    verdict = Bullets(tuple(comparison.verdict.splitlines()))
    table = Table("Evidence by method and metric", heads, tuple(rows))
    return (
        Section(
            "Which methods the model follows", nodes(verdict, table, deletion(comparison)), lead, "evidence"
        ),
    )


def evidence_cell(found: Evidence | None) -> Cell:
    if found is None:
        return Cell("–")
    low, high = found.chance
    beat = f"beat {found.beat} of {len(found.orders)}" if found.orders else ""
    note = f"{beat} ({short(found.value)}; random {short(low)} to {short(high)})".strip()
    return Cell(f"{fixed(found.skill)}{' c' if found.circular else ''}", note, found.skill, value=found.skill)


def deletion(comparison: Comparison) -> Figure | None:
    """One panel per method: the explained number as its best words are removed, and the random orders."""
    results = next((r for r in comparison.internals.removals if r.curves), None)
    if results is None:
        return None
    drawn = [BandCurve(method, points, results.band) for method, points in results.curves.items()]
    unit = ranked_unit(comparison)
    chart = BandCurves(
        drawn,
        f"share of {unit}s removed ({results.operator}), each method's best first",
        "explained number",
        f"The explained number as {unit}s are removed ({results.operator}), each method's best first",
        "low",
    )
    return Figure(chart, "Grey band: where random orders were. A good method falls lower and sooner.")


# --- agreement -------------------------------------------------------------------------------------


def agreement(comparison: Comparison) -> tuple[Node, ...]:
    """How far the methods agree, folded: agreement is no evidence that any of them is right."""
    if len(comparison) < 2:
        return ()
    names = {
        "kendall": "Kendall τ",
        "spearman": "Spearman ρ",
        "top-k": f"Overlap of the {TOP_WORDS} strongest",
    }
    lines = [line for line in (pointed(comparison), *agreeing(comparison), *measured(comparison)) if line]
    tabs = tuple(
        Tab(
            names[measure],
            (Paragraph(_lead(comparison, measure), "soft"), _matrix(comparison, measure, names[measure])),
        )
        for measure in MEASURES
    )
    last = "Where a method has no sign, sizes are compared. Methods can agree and all be wrong."
    inside = (Bullets(tuple(lines)), Paragraph(last, "soft"), Tabs("Measures of agreement", tabs))
    return (Fold("Do the methods agree?", inside),)


def _lead(comparison: Comparison, measure: str) -> str:
    """What the numbers mean, and what chance gives."""
    unit, count = ranked_unit(comparison), ranked_count(comparison)
    expected = chance(measure, count, TOP_WORDS)
    if measure == "top-k":
        share = f"share of the {TOP_WORDS} strongest {unit}s, by size, that two methods have in common"
        return f"The {share}: 1 is all of them, and unrelated rankings reach {expected:.2f} on average."
    name = "Kendall τ" if measure == "kendall" else "Spearman ρ, the correlation of ranks,"
    both = ", written ones included" if with_written(comparison) else ""
    lead = f"{name} between the rankings of the {unit}s{both}: 1 is the same order, 0 unrelated, −1 reversed."
    if not math.isnan(expected):
        lead += f" Chance stays within ±{expected:.2f} for 95 of 100 pairs of rankings of this many {unit}s."
    return lead


def _matrix(comparison: Comparison, measure: str, name: str) -> Table:
    names, values = matrix(comparison, measure, TOP_WORDS)
    order = sorted(range(len(names)), key=lambda i: names[i] == CONTROL)
    labels = [f"{names[i]} (control)" if names[i] == CONTROL else names[i] for i in order]
    rows = []
    for label, i in zip(labels, order, strict=True):
        cells = [
            Cell("·") if i == j else Cell(fixed(v := float(values[i, j])), shade=v, signed=measure != "top-k")
            for j in order
        ]
        rows.append(Row((Cell(label), *cells)))
    return Table(f"Agreement between methods: {name}", tuple(map(Column, ["", *labels])), tuple(rows))


# --- inside the model ------------------------------------------------------------------------------


def attention(comparison: Comparison) -> tuple[Node, ...]:
    """Words by layers; the last row is what special tokens get."""
    summary = comparison.internals.attention
    if summary is None:
        return ()
    unit = ranked_unit(comparison)
    labels = numbered([word.text for word in columns(comparison)[0].words])
    weights = np.array(summary.weights)  # (L, units)
    order = np.argsort(-weights.mean(0), kind="stable")[:MAX_WORDS]
    top = float(weights.max()) or 1.0
    rows = [
        Row((Cell(labels[i]), *(_weight(float(value), top) for value in weights[:, i])), unit=i)
        for i in sorted(order.tolist())
    ]
    if any(summary.special):
        cells = tuple(Cell(f"{100 * share:.0f} %") for share in summary.special)
        rows.append(Row((Cell("special tokens"), *cells), kind="gap last"))
    heads = (Column(unit), *(Column(f"layer {number}") for number in range(len(summary.weights))))
    table = Table("Attention by word and layer", heads, tuple(rows), sortable=True)
    return (Section("Where the model looked", (table,), _attention_lead(comparison, summary), "attention"),)


def _weight(value: float, top: float) -> Cell:
    return Cell(f"{100 * value:.1f} %", shade=value / top, signed=False, value=value)


def _attention_lead(comparison: Comparison, summary: AttentionSummary) -> str:
    place = "from what is written to the text" if summary.cross else "from where the answer is read"
    lead = (
        f"Attention {place}, mean over the heads of a layer. It shows where the model looked, not what that "
        "did to the answer: an attention map alone is not evidence for a reason."
    )
    count = len(summary.weights[0])
    if count > MAX_WORDS:
        lead += f" Shown are the {MAX_WORDS} {ranked_unit(comparison)}s of {count} with the most attention."
    return f"{lead} heedful attention shows every head."


def features(comparison: Comparison) -> tuple[Node, ...]:
    """The strongest features of an SAE, and what the answer does without each."""
    active = comparison.internals.features
    if active is None:
        return ()
    top = max((abs(one.effect) for one in active.features), default=0.0) or 1.0
    named = any(one.name for one in active.features)
    heads = [Column("feature"), *([Column("active on", "explanation", words=True)] if named else [])]
    heads += [Column("effect", "measured"), Column("effect", "estimated"), Column("strength")]
    heads.append(Column("strongest on", words=True))
    rows = tuple(_feature(one, top, named) for one in active.features)
    lead = (
        f"The {len(active.features)} strongest of {active.active:,} features of an SAE at {active.site} that "
        "are active on this text. Effect: how far the explained number falls when the feature is set to zero "
        "on the tokens of the text; estimated: gradient times activation."
    )
    inside = (Table("Features of this text", tuple(heads), rows), Bullets(tuple(_feature_lines(active))))
    return (Section("Which features were active", inside, lead, "features"),)


def _feature(one: FeatureEffect, top: float, named: bool) -> Row:
    words = " · ".join(word.strip() or "␣" for word in one.words)
    return Row(
        (
            Cell(str(one.feature)),
            *([Cell(one.name or "–", style="wrap")] if named else []),
            Cell(fixed_signed(one.effect), shade=one.effect / top, value=one.effect),
            Cell(fixed_signed(one.estimate)),
            Cell(f"{one.strength:.3g}"),
            Cell(words, style="wrap"),
        )
    )


def _feature_lines(active: ActiveFeatures) -> Iterator[str]:
    low, high = active.band
    yield (
        f"Removed together they change the explained number by {fixed_signed(active.together)}; "
        f"all features, by {fixed_signed(active.everything)}."
    )
    if math.isfinite(low):
        yield f"As many random active features, removed together: {span(low, high, fixed_signed)} (95 %)."
    if active.control:
        mean = sum(map(abs, active.control)) / len(active.control)
        yield f"One random active feature alone: {mean:.3f}, mean size of {len(active.control)}."
    yield from active.notes


# --- how it was made -------------------------------------------------------------------------------


def cost(comparison: Comparison) -> tuple[Node, ...]:
    if not comparison.attributions:
        return ()
    methods, values = matrix(comparison, "kendall")
    control = methods.index(CONTROL) if CONTROL in methods else None
    rows = []
    for col in columns(comparison):
        spent = col.item.cost
        errors = [word.stderr / col.top for word in col.words if word.stderr is not None and col.top]
        row = [col.label, f"{spent.seconds:.2f}"]
        row += [f"{n:,}" for n in (spent.forwards, spent.backwards, spent.unique, spent.tokens)]
        row += [f"{100 * sum(errors) / len(errors):.1f} %" if errors else "–"]
        row += [f"{100 * col.item.special_mass:.0f} %"]
        if control is not None:
            tau = float(values[methods.index(col.method), control])
            row.append("" if col.method == CONTROL else fixed(tau))
        rows.append(row)
    heads = ["method", "seconds", "forward passes", "backward passes", "model inputs run", "tokens"]
    heads += [
        "mean standard error",
        "on special tokens",
        *(["τ with control"] if control is not None else []),
    ]
    lead = (
        "Passes that the method asked for, and model inputs really run after duplicates were taken out. The "
        "mean standard error is relative to the method's strongest score; – means the method does not sample."
    )
    return (Section("What it cost", (text_table("Cost by method", heads, rows),), lead, "cost"),)


def remarks(comparison: Comparison) -> tuple[Node, ...]:
    """Skipped methods and notes, where there are any."""
    skipped = [(method, why) for method, why in comparison.skipped.items() if why != EXPENSIVE]
    expensive = left_out(comparison.skipped)
    out: list[Node] = []
    if skipped or expensive:
        inside = [text_table("Methods not run", ("method", "reason"), skipped, words=True)] if skipped else []
        out.append(Section("Not run, and why", tuple(inside), expensive, "skipped"))
    if comparison.attributions and notes(comparison):
        table = text_table("Notes", ("from", "note"), notes(comparison), words=True)
        out.append(Section("Notes", (table,), name="notes"))
    return tuple(out)


def made(comparison: Comparison) -> tuple[Node, ...]:
    if not comparison.attributions:
        return ()
    model, settings = comparison.model, comparison.settings
    facts = [(key if key != "name" else "model", model.get(key)) for key in ("name", "kind", "class")]
    facts += [(key, model.get(key)) for key in ("parameters", "window", "fingerprint")]
    facts += [(key, settings.get(key)) for key in ("seed", "unit", "budget")]
    versions = settings.get("versions") or {}
    facts.append(("versions", ", ".join(f"{name} {value}" for name, value in versions.items())))
    seconds = settings.get("seconds")
    facts.append(("time", None if seconds is None else f"{seconds:.2f} seconds"))
    shown = [
        (name, f"{value:,}" if isinstance(value, int) and name != "seed" else str(value))
        for name, value in facts
        if value not in (None, "")
    ]
    code = again(reproduce.command(comparison), reproduce.python(comparison), "interrupted" in settings)
    return (Section("How this was made", (Facts(tuple(shown)), *code), name="made"),)


def again(command: str | None, python: str | None = None, interrupted: bool = False) -> tuple[Node, ...]:
    """What to type for the same result."""
    blocks = [Code(text, name) for name, text in (("Command line", command), ("Python", python)) if text]
    if not blocks:
        return ()
    stopped = " This run was interrupted; the code below runs to the end." if interrupted else ""
    return (Paragraph(f"Reproduce this.{stopped}", "soft"), *blocks)
