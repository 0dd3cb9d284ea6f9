"""The terminal: one row per word, one column a method, as many columns side by side as the width holds.

    word      occlusion
    great     ▲ 1.24 ±0.03  ██████      ▲ towards the target, ▼ away from it, △ ▽ the sign is unsure,
    not       ▼ 0.31 ±0.02  █▌          no mark: the method has no sign

Each column has its own scale: the longest bar is the method's own strongest word. Long texts show the
strongest words and say how many are left out. Piped output is plain, and so is a terminal's under NO_COLOR.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.comparisons.result import Comparison, matrix, ranked_unit
from heedful.core.attribution import UnitScore
from heedful.core.defaults import CONTROL
from heedful.core.numbers import fixed
from heedful.core.phrases import EXPENSIVE, left_out
from heedful.reports.charts.sparkline import reach, sparkline
from heedful.reports.columns import Column, columns, written_columns, written_words
from heedful.reports.visible import visible
from heedful.reports.comparison_summary import (
    after_written,
    explained,
    measured,
    notes,
    predictions,
    sentences,
)
from heedful.reports.input_share import CANNOT, by_count, shares, written_part

EIGHTHS = " ▏▎▍▌▋▊▉█"
STYLES = {"+": "blue", "−": "dark_orange3", "": "magenta"}
MARKS = {("+", False): "▲", ("−", False): "▼", ("+", True): "△", ("−", True): "▽"}
MAX_WORDS = 40  # words shown of a long text


def show(comparison: Comparison, console: Console | None = None, rows: int | None = MAX_WORDS) -> None:
    """Print a comparison. `rows` is how many words of a long text are shown (None: all)."""
    console = console or Console(highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto")
    console.print(render(comparison, console.width, rows))


def render(comparison: Comparison, width: int = 80, rows: int | None = MAX_WORDS) -> Group:
    parts: list[RenderableType] = [*_header(comparison)]
    if comparison.attributions:
        parts += [
            Text(""),
            *_tables(columns(comparison), ranked_unit(comparison), width, rows),
            *_written(comparison, width, rows),
        ]
        parts += _evidence(comparison)
        parts += _footer(comparison, width)
        parts += [Text(line, "dim") for line in ("", *measured(comparison))]
    parts += _notes(comparison)
    return Group(*parts)


def _header(comparison: Comparison) -> Iterator[RenderableType]:
    model = visible(str(comparison.model.get("name", "model")))
    ranked = predictions(comparison)
    if ranked:
        (label, value, _), *others = ranked
        after = after_written(comparison)
        line = Text.assemble(
            model, f" predicts {after}: " if after else " predicts ", (label, "bold"), "  ", (value, "bold")
        )
        if others:
            line.append("   " + "  ".join(f"{name} {number}" for name, number, _ in others[:4]), "dim")
        yield line
    if comparison.attributions:
        yield Text(f"explained: {explained(comparison)}", "dim")
        yield Text("")
        for sentence in sentences(comparison):
            yield Text(sentence)


def _tables(cols: list[Column], unit: str, width: int, rows: int | None) -> Iterator[RenderableType]:
    """The words table, in as many blocks as the width needs."""
    kept = strongest(cols, rows)
    total = len(cols[0].words)
    names = [_name(word) for word in cols[0].words]
    first = min(max((cell_len(names[i]) for i in kept), default=4), max(8, width // 4))
    first = max(first, len(unit))
    block: list[ColumnLayout] = []
    for layout in map(_layout, cols):
        if block and first + sum(each.width + 2 for each in [*block, layout]) > width:
            yield _table(block, names, kept, first, unit)
            yield Text("")
            block = []
        block.append(layout)
    yield _table(block, names, kept, first, unit)
    if len(kept) < total:
        yield Text(f"{len(kept)} of {total} {unit}s shown: the strongest over all methods.", "dim")
    yield Text(_legend(cols), "dim")


def _written(comparison: Comparison, width: int, rows: int | None) -> Iterator[RenderableType]:
    """What was already written: its words, and the share of the text."""
    if (part := written_part(comparison)) is not None:
        yield from (Text(""), Text.assemble(("already written: ", "bold"), visible(str(part.x.raw).strip())))
        cols = written_columns(comparison)
        yield from (Text(""), *_tables(cols, ranked_unit(comparison), width, rows))
    if not (result := shares(comparison)):
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", collapse_padding=True)
    table.add_column("input dependence")
    table.add_column("on the text", justify="right", no_wrap=True)
    for name, share in result:
        table.add_row(Text(name), Text(share))
    yield from (Text(""), table, Text(by_count(comparison), "dim"))
    if any(share == "–" for _, share in result):
        yield Text(CANNOT, "dim")


def strongest(cols: list[Column], rows: int | None) -> list[int]:
    """Indices, in reading order, of the words with the largest summed |share| over the methods."""
    count = len(cols[0].words)
    if rows is None or count <= rows:
        return list(range(count))
    weight = [sum(abs(c.share(c.words[i])) for c in cols if c.method != CONTROL) for i in range(count)]
    return sorted(sorted(range(count), key=lambda i: -weight[i])[:rows])


def _legend(cols: list[Column]) -> str:
    parts = []
    if any(c.item.signed for c in cols):
        parts.append("▲ towards the target  ▼ away from it")
    if any(c.unsure(word) for c in cols for word in c.words):
        parts.append("△ ▽ the 95 % interval contains 0")
    if any(not c.item.signed for c in cols):
        parts.append("no mark: the method has no sign")
    bars = "bars: share of the method's strongest word"
    if any(written_words(c.item, "word") for c in cols):
        bars += ", written ones included"
    return "  ".join([*parts, bars])


def _name(word: UnitScore) -> str:
    return visible(word.text.strip() or word.text) or "␣"


@dataclass(frozen=True)
class ColumnLayout:
    """A column with the widths of its parts, measured once."""

    col: Column
    digits: int  # of the number
    text: int  # mark, number and error
    bar: int

    @property
    def width(self) -> int:
        return self.text + 1 + self.bar

    def numbers(self, word: UnitScore) -> str:
        return _numbers(self.col, word, self.digits)

    def cell(self, word: UnitScore) -> Text:
        style = STYLES[self.col.sign(word)]
        drawn = bar(abs(self.col.share(word)), self.bar)
        return Text.assemble((self.numbers(word).ljust(self.text), style), " ", (drawn, style))


def _layout(col: Column) -> ColumnLayout:
    digits = max((len(col.number(word)) for word in col.words), default=1)
    text = max((len(_numbers(col, word, digits)) for word in col.words), default=1)
    return ColumnLayout(col, digits, text, max(5, min(9, len(col.label)) - 1 - text))


def _numbers(col: Column, word: UnitScore, digits: int) -> str:
    mark = MARKS.get((col.sign(word), col.unsure(word)), " ")
    error = col.error(word)
    return f"{mark} {col.number(word):>{digits}}" + (f" ±{error}" if error else "")


def bar(share: float, width: int) -> str:
    """A bar of eighths of a character; anything above zero shows at least a sliver."""
    eighths = min(8 * width, max(math.ceil(share * 8 * width - 1e-9), 0))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _heading(col: Column, width: int) -> Text:
    """The method's name, broken at its hyphens where the column is narrow."""
    lines = [""]
    for part in col.label.replace("-", "-\0").replace(" ", " \0").split("\0"):
        if lines[-1] and len((lines[-1] + part).rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return Text("\n".join([*(line.rstrip() for line in lines), *([col.unit] if col.unit else [])]))


def _table(block: list[ColumnLayout], names: list[str], kept: list[int], first: int, unit: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", collapse_padding=True)
    table.add_column(unit, width=first, no_wrap=True, overflow="ellipsis", vertical="bottom")
    for each in block:
        heading = _heading(each.col, each.width)
        table.add_column(heading, width=each.width, no_wrap=True, vertical="bottom")
    before = -1
    for i in kept:
        if i != before + 1:
            table.add_row(Text("⋯", "dim"))
        table.add_row(Text(names[i]), *(each.cell(each.col.words[i]) for each in block))
        before = i
    if kept and kept[-1] != len(names) - 1:
        table.add_row(Text("⋯", "dim"))
    return table


def _evidence(comparison: Comparison) -> Iterator[RenderableType]:
    """Skill by method and metric, then the verdict."""
    result = comparison.evidence
    if not result:
        return
    pairs = list(dict.fromkeys((e.metric, e.operator) for e in result))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", collapse_padding=True)
    table.add_column("skill", overflow="fold")
    for metric, operator in pairs:
        table.add_column(f"{metric}\n{operator}".strip(), justify="right", overflow="fold")
    falls, width = _falls(comparison), len(str(len(result[0].orders)))
    if falls:
        table.add_column("as its words go,\nbest first", no_wrap=True)
    for method in dict.fromkeys(e.method for e in result):
        row = {(e.metric, e.operator): e for e in result if e.method == method}
        cells = [
            f"{fixed(row[p].skill)} {row[p].beat:>{width}}/{len(row[p].orders)}" if p in row else ""
            for p in pairs
        ]
        cells += [falls.get(method, "")] if falls else []
        table.add_row(Text(method), *map(Text, cells))
    if falls:
        table.add_row(Text("random", "dim"), *[Text("")] * len(pairs), Text(falls[CONTROL], "dim"))
    yield from (Text(""), table)
    yield Text("0 is the mean of random orders, 1 the best found here; then how many of them it beat", "dim")
    yield Text("")
    yield Text(comparison.verdict)


def _falls(comparison: Comparison) -> dict[str, str]:
    """Deletion curves as sparklines on one scale, and the middle of what random orders reach."""
    results = next((r for r in comparison.internals.removals if r.curves and r.band), None)
    if results is None:
        return {}
    curves = {method: [value for _, value in points] for method, points in results.curves.items()}
    curves[CONTROL] = [(low + high) / 2 for _, low, high in results.band]
    ends = reach(curves.values())
    return {method: sparkline(values, *ends) for method, values in curves.items()}


def _footer(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    """What each method cost, how much it put on special tokens, and its agreement with the control."""
    methods, values = matrix(comparison, "kendall")
    control = methods.index(CONTROL) if CONTROL in methods else None
    heads = ["seconds", "forwards", "backwards", "rows run", "tokens", "on special tokens"]
    heads += ["τ with control"] if control is not None else []
    rows = []
    for col in columns(comparison):
        cost = col.item.cost
        row = [
            f"{cost.seconds:.2f}",
            *(f"{n:,}" for n in (cost.forwards, cost.backwards, cost.unique, cost.tokens)),
        ]
        row.append(f"{100 * col.item.special_mass:.0f} %")
        if control is not None:
            row.append(
                "" if col.method == CONTROL else fixed(float(values[methods.index(col.method), control]))
            )
        rows.append((col.method, row))
    first = max(len(name) for name, _ in rows)
    widths = [max(max(map(len, h.split())), *(len(row[i]) for _, row in rows)) for i, h in enumerate(heads)]
    start = 0
    while start < len(heads):
        end = start + 1
        while end < len(heads) and first + sum(w + 2 for w in widths[start : end + 1]) <= width:
            end += 1
        yield Text("")
        table = Table(
            box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", collapse_padding=True
        )
        table.add_column("cost" if start == 0 else "", width=first, vertical="bottom")
        for head, size in zip(heads[start:end], widths[start:end], strict=True):
            table.add_column(head, justify="right", width=size, vertical="bottom")
        for name, row in rows:
            table.add_row(Text(name), *map(Text, row[start:end]))
        yield table
        start = end


def _notes(comparison: Comparison) -> Iterator[RenderableType]:
    lines = notes(comparison) + [
        (f"{method} not run", visible(why)) for method, why in comparison.skipped.items() if why != EXPENSIVE
    ]
    expensive = left_out(comparison.skipped)
    if lines or expensive:
        yield Text("")
    for head, text in lines:
        yield Text.assemble((f"{head}: ", "bold"), text)
    if expensive:
        yield Text(expensive)
