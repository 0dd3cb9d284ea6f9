"""Scores from elsewhere beside those of our own methods: looked up row by row, then laid on the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from heedful.audits.score_alignment import align_map, align_scores
from heedful.audits.score_formats import Given
from heedful.audits.scores_file import read_scores_file
from heedful.audits.settings import AuditSettings
from heedful.comparisons.result import Comparison
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.core.target import Target
from heedful.io.datasets import DataRow
from heedful.io.labels import label_index
from heedful.modalities.encode import long_of_many
from heedful.modalities.text import text_of

NONE = "there are no scores for row {}"


@dataclass(frozen=True)
class ExternalScores:
    """Where the scores of a row are found; a reason stands in place of scores that cannot be read."""

    methods: tuple[str, ...]
    of: Callable[[int, Any], Mapping[str, Any]]  # (row number, text) -> method -> Given, or why not
    digest: str = ""  # of the file they came from
    fitted_by: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)  # None: not known

    def judges(self, model: Model) -> list[str] | None:
        """Operators that fitted none of them; all, where what fitted them is not known; None: any will do."""
        if None in self.fitted_by.values():
            return list(model.operators)
        used = {name for given in self.fitted_by.values() for name in given or ()}
        free = [name for name in model.operators if name not in used]
        return None if not used & set(model.operators) else free or list(model.operators)

    def attach(self, row: DataRow) -> DataRow:
        readable = isinstance(row.text, str) or row.digest
        if row.broken or row.copy_of is not None or not readable:
            return row
        try:
            result = self.of(row.number, row.text)
        except HeedfulError as error:
            result = dict.fromkeys(self.methods, str(error))
        none = NONE.format(row.number)
        return replace(row, given={name: result.get(name, none) for name in self.methods})

    def facts(self) -> dict[str, Any]:
        return {"scores": self.digest} if self.digest else {}


def from_file(path: Path) -> ExternalScores:
    """Of `heedful audit --scores`."""
    scores_file = read_scores_file(path)
    by: dict[str, tuple[str, ...] | None] = dict.fromkeys(scores_file.methods, ())
    for given in (*scores_file.by_row.values(), *scores_file.by_text.values()):
        for name, one in given.items():
            known = by[name]
            by[name] = None if known is None or one.fitted_by is None else (*known, *one.fitted_by)
    return ExternalScores(scores_file.methods, scores_file.of, scores_file.digest, by)


def check_usable(
    external: ExternalScores, model: Model, rows: Iterable[DataRow], settings: AuditSettings
) -> None:
    """Refuse a method whose scores fit none of the texts, before any work; most often one text is read."""
    left, first, count = list(external.methods), dict[str, str](), 0
    for row in rows:
        x, target = (None, None) if row.broken or row.copy_of is not None else _read(model, row, settings)
        if x is None or target is None:
            continue  # of no use to any method; the audit tells why
        count += 1
        for name, given in external.attach(row).given.items():
            if name not in left:
                continue
            if why := _refusal(given, model, x, target, settings.unit):
                if given != NONE.format(row.number):  # what does not fit says more than what is not there
                    first.setdefault(name, f"row {row.number}: {why}")
            else:
                left.remove(name)
        if not left:
            return
    for name in left if count else ():
        texts = "the only text" if count == 1 else f"any of the {count:,} texts"
        raise HeedfulError(
            f"{name!r} has no usable scores on {texts}",
            first.get(name, "there are no scores for these texts"),
        )


def _read(model: Model, row: DataRow, settings: AuditSettings) -> tuple[Input | None, Target | None]:
    try:
        x = model.encode(row.text, long_of_many(settings.long))
        return x, model.target(x, settings.target)
    except Exception:  # whatever a model or a tokenizer raises on an odd text
        return None, None


def _refusal(given: Any, model: Model, x: Input, target: Target, unit: str) -> str:
    """Why these scores cannot be used on this text; "" if they can."""
    if isinstance(given, str):
        return given
    try:
        target = target if given.target is None else model.target(x, given.target)
        _target_scores(given, x, target, unit, model.labels)
    except HeedfulError as error:
        return str(error)
    return ""


def aligned(
    given: Mapping[str, Any], comparison: Comparison, unit: str, labels: Sequence[str]
) -> tuple[list[Attribution], dict[str, str]]:
    """(attributions, method -> why its scores cannot be used)."""
    attributions: list[Attribution] = []
    skipped: dict[str, str] = {}
    chosen = next((s.target for s in given.values() if isinstance(s, Given) and s.target is not None), None)
    for method, scores in given.items():
        if isinstance(scores, str):
            skipped[method] = scores
            continue
        try:
            _check_target(scores.target, chosen, comparison, labels)
            attributions.append(_attribution(method, scores, comparison, unit, labels))
        except HeedfulError as error:
            skipped[method] = str(error)
    return attributions, skipped


def _check_target(own: Any, chosen: Any, comparison: Comparison, labels: Sequence[str]) -> None:
    """All methods of a text are judged for one target, the first that is named."""
    predicted = comparison.model["prediction"][0][0]
    if _named(predicted if own is None else own, labels) != _named(
        predicted if chosen is None else chosen, labels
    ):
        text = "the prediction" if own is None else f"{own!r:.60}"
        raise HeedfulError(
            f"its scores explain {text}",
            f"another method's scores for this text explain {chosen!r:.60}",
            "Give all methods of a text the same target",
        )


def _named(target: Any, labels: Sequence[str]) -> Any:
    """A label by its place, however it was written; anything else as it is."""
    try:
        return label_index(target, labels)
    except HeedfulError:
        return target


def _attribution(
    method: str, given: Given, comparison: Comparison, unit: str, labels: Sequence[str]
) -> Attribution:
    x, target = comparison.x, comparison.target
    values = _target_scores(given, x, target, unit, labels)
    return Attribution(
        x,
        target,
        x.units(unit).spread(values),
        method=method,
        output=comparison.attributions[0].output,
        fitted_by=given.fitted_by,
    )


def _target_scores(given: Given, x: Input, target: Target, unit: str, labels: Sequence[str]) -> Floats:
    """Of scores with a column per output, that of the target."""
    if x.map_shape is not None:
        return align_map(given, x, unit)
    if given.outputs:
        return align_scores(given, text_of(x), unit, target.label)
    known = bool(labels) and len(given.scores[0]) == len(labels)
    return align_scores(given, text_of(x), unit, target.index if known else None)
