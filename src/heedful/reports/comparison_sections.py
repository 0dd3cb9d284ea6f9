"""The parts of the report, each a function from a `Comparison` to HTML. Every string of the user is escaped.

Levels: |share| is drawn in nine steps (classes l1 to l9), so no style attribute is needed and a strict
Content-Security-Policy holds. Classes pos, neg and any are the three hues; pos and neg also differ by their
underline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from heedful.comparisons.result import Comparison, ranked_unit
from heedful.core.attribution import UnitScore
from heedful.core.defaults import CONTROL
from heedful.core.evidence import Evidence
from heedful.core.input import NEVER
from heedful.core.numbers import fixed
from heedful.reports import reproduce
from heedful.reports.columns import Column, columns, written_columns, written_words
from heedful.reports.comparison_summary import after_written, explained, notes, predictions, sentences
from heedful.reports.comparison_terminal import strongest
from heedful.reports.html_parts import esc, part, table
from heedful.reports.input_share import CANNOT, by_count, shares, written_part
from heedful.reports.shading import hue, legend, level, shaded

TABLE_ROWS = 300  # words in the table of numbers; the shaded text always has them all


QUOTE = 400  # characters of the text repeated under the prediction


def answer(comparison: Comparison, size: int) -> str:
    ranked = predictions(comparison)
    model = esc(comparison.model.get("name", "a model"))
    what = "Next token according to" if comparison.model.get("kind") == "causal-lm" else "Prediction of"
    after = f", {esc(after)}" if (after := after_written(comparison)) else ""
    lines = [f'<p class="kicker">{what} <b>{model}</b>{after}</p>']
    if ranked:
        (label, value, _), *others = ranked
        value = f'<span class="chance">{esc(value)}</span>'
        lines.append(f'<h{size} class="verdict"><bdi>{esc(label)}</bdi> {value}</h{size}>')
        if others:
            items = "".join(
                f"<li><bdi>{esc(name)}</bdi> {esc(number)}</li>" for name, number, _ in others[:5]
            )
            more = f"<li>and {len(others) - 5} more</li>" if len(others) > 5 else ""
            lines.append(f'<ul class="others">{items}{more}</ul>')
    else:
        lines.append(f'<h{size} class="verdict">Explanation</h{size}>')
    if comparison.attributions:
        text = str(comparison.x.raw)
        short = text if len(text) <= QUOTE else text[:QUOTE] + " …"
        lines.append(f'<p class="said" dir="auto">{esc(short)}</p>')
        items = "".join(f"<li>{esc(sentence)}</li>" for sentence in sentences(comparison))
        lines.append(f'<ul class="sentences">{items}</ul>')
        lines.append(verdict(comparison))
        lines.append(f'<p class="explained">Explained: {esc(explained(comparison))}.</p>')
    return f"<header>{''.join(lines)}</header>"


def methods(comparison: Comparison, size: int) -> str:
    cols, blocks = columns(comparison), []
    for col in cols:
        tag = ' <span class="tag">control</span>' if col.method == CONTROL else ""
        facts = [
            "signed" if col.item.signed else "no sign",
            f"strongest {col._show(col.top)} {col.unit}".strip(),
        ]
        if NEVER in col.item.x.units(col.item.over).owner:
            facts.append(f"{100 * col.item.special_mass:.0f} % on special tokens")
        facts += [f"{name} {value}" for name, value in col.item.params.items() if name == "operator"]
        blocks.append(
            f'<article class="method"><div><h{size + 1} class="name">{esc(col.method)}{tag}</h{size + 1}>'
            f'<p class="facts">{" · ".join(f"<span>{esc(fact)}</span>" for fact in facts)}</p></div>'
            f'<p class="text" dir="auto">{shaded(col, str(comparison.x.raw))}</p></article>'
        )
    also = ", written ones included" if any(written_words(col.item, "word") for col in cols) else ""
    lead = (
        "One colour scale for all: full colour is each method's own strongest "
        f"{ranked_unit(comparison)}{also}, because their numbers have different units."
    )
    body = f'{legend(cols)}<div class="methods">{"".join(blocks)}</div>'
    return part("shading", "The text as each method sees it", lead, body, size)


def number_cell(col: Column, word: UnitScore) -> str:
    share, error, unsure = col.share(word), col.error(word), col.unsure(word)
    mark = "? " if unsure else ""
    text = f"{mark}{col.sign(word)}{col.number(word)}" + (f" <small>± {error}</small>" if error else "")
    classes = f"{hue(share, col.item.signed)} l{level(share)}{' unsure' if unsure else ''}"
    value = f"{word.score:.6g}" if math.isfinite(word.score) else "0"
    return f'<td class="{classes}" data-v="{value}">{text}</td>'


def numbers(comparison: Comparison, size: int) -> str:
    cols, unit = columns(comparison), ranked_unit(comparison)
    kept, rows, before = strongest(cols, TABLE_ROWS), [], -1
    for index in kept:
        if index != before + 1:
            rows.append(f'<tr class="gap"><th scope="row">⋯</th><td colspan="{len(cols)}"></td></tr>')
        name = esc(cols[0].words[index].text.strip() or "␣")
        cells = "".join(number_cell(col, col.words[index]) for col in cols)
        rows.append(f'<tr data-w="{index}"><th scope="row"><bdi>{name}</bdi></th>{cells}</tr>')
        before = index
    heads = _heads(cols, unit)
    lead = f"The score of a {unit} is the sum over its tokens, in the method's own unit."
    if any(col.item.stderr is not None for col in cols):
        lead += (
            " ± is one standard error; ? marks a sign that is unsure, because the 95 % interval contains 0."
        )
    if len(kept) < len(cols[0].words):
        lead += f" Shown are the {len(kept)} strongest of {len(cols[0].words)} {unit}s."
    return part(
        "numbers", "The numbers", lead, table(heads, rows, "Scores by word and method", "sortable"), size
    )


def written(comparison: Comparison, size: int) -> str:
    """What was already written: the share of the text, and the words with their scores."""
    result = shares(comparison)
    if not result:
        return ""
    rows = [f'<tr><th scope="row">{esc(name)}</th><td>{share}</td></tr>' for name, share in result]
    body = table(["method", "on the text"], rows, "Input dependence by method")
    if (behind := written_part(comparison)) is not None:
        cols = written_columns(comparison)
        text = f'<p class="text" dir="auto">{esc(str(behind.x.raw).strip())}</p>'
        body += text + table(
            _heads(cols, ranked_unit(behind)), _word_rows(cols), "Scores of what was written"
        )
    lead = by_count(comparison) + (f" {CANNOT}" if any(share == "–" for _, share in result) else "")
    return part("written", "The text, and what was already written", lead, body, size)


def _heads(cols: Sequence[Column], unit: str) -> list[str]:
    return [unit, *(esc(col.label) + (f"<small>{col.unit}</small>" if col.unit else "") for col in cols)]


def _word_rows(cols: Sequence[Column]) -> list[str]:
    rows = []
    for index, word in enumerate(cols[0].words):
        cells = "".join(number_cell(col, col.words[index]) for col in cols)
        rows.append(f'<tr><th scope="row"><bdi>{esc(word.text.strip() or "␣")}</bdi></th>{cells}</tr>')
    return rows


def evidence(comparison: Comparison, size: int, drawn: str = "") -> str:
    """Skill by method and metric beside what random orders reached, then what was drawn of it; the verdict
    stands in the answer."""
    result = comparison.evidence
    if not result:
        return ""
    pairs = list(dict.fromkeys((e.metric, e.operator) for e in result))
    by_method = {(e.method, e.metric, e.operator): e for e in result}
    methods = sorted(
        dict.fromkeys(e.method for e in result),
        key=lambda m: -sum(by_method[m, *pair].skill for pair in pairs if (m, *pair) in by_method),
    )
    rows = []
    for method in methods:
        cells = "".join(evidence_cell(by_method.get((method, *pair))) for pair in pairs)
        rows.append(f'<tr><th scope="row">{esc(method)}</th>{cells}</tr>')
    heads = ["method", *(f"{esc(metric)}<small>{esc(operator)}</small>" for metric, operator in pairs)]
    lead = (
        "Skill: 0 is the mean of random orders, 1 the best value any method or random order reached on this "
        "text; then how many random orders it beat. In brackets the measured change of the output, and "
        "between which values random orders lay. c marks a method that was fitted by this removal."
    )
    body = table(heads, rows, "Evidence by method and metric") + drawn
    return part("evidence", "The evidence", lead, body, size)


def verdict(comparison: Comparison) -> str:
    """What one text allows to say; the limits stand last."""
    if not comparison.evidence:
        return ""
    *lines, limits = comparison.verdict.splitlines()
    text = "".join(f"<p>{esc(line)}</p>" for line in lines)
    return (
        f'<div class="heed"><p><b>Which to trust here?</b></p>{text}<p class="limits">{esc(limits)}</p></div>'
    )


def evidence_cell(found: Evidence | None) -> str:
    if found is None:
        return "<td>–</td>"
    low, high = found.chance
    mark = " c" if found.circular else ""
    beat = f"beat {found.beat} of {len(found.orders)}" if found.orders else ""
    shade = f"{hue(found.skill, True)} l{level(max(-1.0, min(1.0, found.skill)))}"
    band = f"{fixed(found.value)}; random {fixed(low)} to {fixed(high)}"
    return f'<td class="{shade}">{fixed(found.skill)}{mark} <small>{beat} ({band})</small></td>'


def cost(comparison: Comparison, size: int) -> str:
    rows = []
    for col in columns(comparison):
        spent = col.item.cost
        counts = "".join(
            f"<td>{n:,}</td>" for n in (spent.forwards, spent.backwards, spent.unique, spent.tokens)
        )
        errors = [word.stderr / col.top for word in col.words if word.stderr is not None and col.top]
        error = f"{100 * sum(errors) / len(errors):.1f} %" if errors else "–"
        special = f"{100 * col.item.special_mass:.0f} %"
        cells = f"<td>{spent.seconds:.2f}</td>{counts}<td>{error}</td><td>{special}</td>"
        rows.append(f'<tr><th scope="row">{esc(col.label)}</th>{cells}</tr>')
    heads = [
        "method",
        "seconds",
        "forwards",
        "backwards",
        "rows run",
        "tokens",
        "mean standard error",
        "on special tokens",
    ]
    lead = (
        "Rows of model input asked for, and really run after duplicates were taken out. The mean standard "
        "error is relative to the method's strongest score; – means the method does not sample."
    )
    return part("cost", "What it cost", lead, table(heads, rows, "Cost by method"), size)


def remarks(comparison: Comparison, size: int) -> str:
    """Refused methods and notes, where there are any."""
    out = ""
    if comparison.skipped:
        rows = [
            f'<tr><th scope="row">{esc(method)}</th><td class="wrap">{esc(why)}</td></tr>'
            for method, why in comparison.skipped.items()
        ]
        body = table(["method", "reason"], rows, "Methods not run")
        out += part("skipped", "Not run, and why", "", body, size)
    if comparison.attributions and notes(comparison):
        rows = [
            f'<tr><th scope="row">{esc(who)}</th><td class="wrap">{esc(text)}</td></tr>'
            for who, text in notes(comparison)
        ]
        out += part("notes", "Notes", "", table(["from", "note"], rows, "Notes"), size)
    return out


def made(comparison: Comparison, size: int) -> str:
    model, settings = comparison.model, comparison.settings
    facts = [
        (name, model.get(key))
        for name, key in (
            ("model", "name"),
            ("kind", "kind"),
            ("class", "class"),
            ("parameters", "parameters"),
            ("window", "window"),
            ("fingerprint", "fingerprint"),
        )
    ]
    facts += [
        ("seed", settings.get("seed")),
        ("unit", settings.get("unit")),
        ("budget", settings.get("budget")),
    ]
    versions = settings.get("versions") or {}
    facts.append(("versions", ", ".join(f"{name} {value}" for name, value in versions.items())))
    seconds = settings.get("seconds")
    facts.append(("time", None if seconds is None else f"{seconds:.2f} seconds"))
    shown = [
        (name, f"{value:,}" if isinstance(value, int) and name != "seed" else value)
        for name, value in facts
        if value not in (None, "")
    ]
    rows = "".join(f"<dt>{name}</dt><dd>{esc(value)}</dd>" for name, value in shown)
    code = again(reproduce.command(comparison), reproduce.python(comparison), "interrupted" in settings)
    return part("made", "How this was made", "", f'<dl class="facts-list">{rows}</dl>{code}', size)


def again(command: str | None, python: str | None = None, interrupted: bool = False) -> str:
    """What to type for the same result."""
    blocks = [("Command line", command), ("Python", python)]
    code = "".join(
        f'<div class="code"><p class="bar">{name}</p><pre dir="ltr">{esc(text)}</pre></div>'
        for name, text in blocks
        if text
    )
    stopped = "This run was interrupted; what is below runs to the end." if interrupted and code else ""
    lead = f"Reproduce this. {stopped}".strip() if code else ""
    return f'<p class="lead">{lead}</p>{code}' if code else ""
