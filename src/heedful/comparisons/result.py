"""Several methods on one prediction. Needs neither torch nor the model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from heedful.comparisons.agreement import MEASURES, pair_agreement
from heedful.comparisons.input_share import anything_written, input_share, share_of
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.evidence import Evidence
from heedful.core.exports import frame_of, plot_of
from heedful.core.input import Input
from heedful.core.internals import Internals
from heedful.core.phrases import InputWords
from heedful.core.result import CodedResult
from heedful.core.result_kinds import result_kind
from heedful.core.target import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@result_kind("explanation", version=1)
@dataclass(frozen=True, repr=False)
class Comparison(CodedResult, Mapping[str, Attribution]):
    """Several methods on one prediction: a mapping from method name to `Attribution`.

    Parameters
    ----------
    attributions
        The results of the methods.
    model
        Facts about the model: name, kind, prediction.
    settings
        How the comparison was made: seed, unit, versions.
    skipped
        Methods without a result, and the reasons.
    evidence
        How well the scores agree with the measured effects of removing words on this text.
    internals
        Measured effects of removing words, a summary of attention, and active features.

    Examples
    --------
    >>> import heedful
    >>> comparison = heedful.explain("zoo:sentiment", "The food was great", methods=["occlusion", "grad-l2"])
    >>> comparison["occlusion"].top(1)[0].text
    'great'
    >>> methods, values = comparison.agreement("kendall")
    >>> values.shape
    (3, 3)
    """

    kind: ClassVar[str] = "comparison"
    codec: ClassVar[str] = "heedful.comparisons.explanation_codec"

    attributions: tuple[Attribution, ...]
    model: Mapping[str, Any] = field(default_factory=dict)  # name, kind, fingerprint, prediction(_after)
    settings: Mapping[str, Any] = field(default_factory=dict)  # seed, unit, versions: how it was made
    skipped: Mapping[str, str] = field(default_factory=dict)  # method -> why it gave nothing
    evidence: tuple[Evidence, ...] = ()  # how far the model does what the methods say, on this text
    internals: Internals = field(
        default_factory=Internals
    )  # what removing words did, where the model looked, which features fired

    @property
    def verdict(self) -> str:
        """What the evidence of this one text shows, in words."""
        from heedful.comparisons.single_text import verdict_text
        from heedful.metrics import sensitivity_warning

        words = self.words
        little = sensitivity_warning.of_one_text(self.internals.removals, str(self.model.get("kind")), words)
        unit = self.settings.get("unit", "word")
        units = len(self.x.units(unit)) if self.attributions else 0
        one = self.x.unit_noun(unit) if self.attributions else unit
        return verdict_text(self.evidence, self.attributions, little, units, one, words)

    @property
    def words(self) -> InputWords:
        """What sentences call the input and its parts."""
        from heedful.modalities.kinds import words_for

        if not self.attributions:
            return InputWords()
        return words_for(self.x.modality, str(self.settings.get("unit") or self.x.default_unit))

    def __getitem__(self, method: str) -> Attribution:
        for attribution in self.attributions:
            if attribution.method == method:
                return attribution
        raise KeyError(f"{method!r} is not in this comparison, which has: {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return (attribution.method for attribution in self.attributions)

    def __len__(self) -> int:
        return len(self.attributions)

    @property
    def x(self) -> Input:
        """The input as the model reads it."""
        return self.attributions[0].x

    @property
    def target(self) -> Target:
        """The number that is explained."""
        return self.attributions[0].target

    def input_shares(self) -> dict[str, float | None]:
        """For each method: the share of its scores on the text. The rest is on tokens that were already
        written. The share is `None` if the method cannot measure it. The mapping is empty if nothing was
        written. See `heedful.comparisons.input_share`."""
        return input_shares(self)

    @cached_property
    def _agreements(self) -> dict[tuple[str, int], Floats]:
        """What `matrix` has computed: a page asks for the same several times."""
        return {}

    def agreement(self, measure: str = "kendall", k: int = 5) -> tuple[list[str], Floats]:
        """Names of the methods, and the matrix of their pairwise agreement over words. `measure` is
        "kendall", "spearman" or "top-k"."""
        return matrix(self, measure, k)

    def __repr__(self) -> str:
        methods = ", ".join(self)
        return f"<heedful.Comparison of {self.target.name!r} for {self.x.title[:60]!r}: {methods}>"

    def save(self, folder: str | Path, keep: str = "png") -> Path:
        """Write a run folder, which `load` and `heedful report` open.

        `keep` says what is stored of a picture: a small copy ("png"), or only the path of its file and the
        checksum ("path").
        """
        settings = {name: value for name, value in self.settings.items() if name != "keep"}
        settings |= {} if keep == "png" else {"keep": keep}
        return super(Comparison, replace(self, settings=settings)).save(folder)

    def to_csv(self) -> str:
        """One line per method and word, under one header."""
        tables = [attribution.to_csv() for attribution in self.attributions]
        return tables[0] + "".join(table.split("\n", 1)[1] for table in tables[1:])

    def to_frame(self, unit: str = "") -> DataFrame:
        """A pandas table, one row per method and unit. The default unit is the unit of the explanation."""
        return frame_of(self, unit=unit)

    def plot(self, top: int = 40) -> Figure:
        """A matplotlib figure: words × methods, coloured by score. For a long text, only the `top` strongest
        words."""
        return plot_of(self, top=top)


def matrix(comparison: Comparison, measure: str = "kendall", k: int = 5) -> tuple[list[str], Floats]:
    """(methods, (m, m) agreement); the diagonal is 1, or nan for a method without a ranking."""
    if measure not in MEASURES:
        raise HeedfulError(f"No agreement measure {measure!r}", fix=f"Choose from: {', '.join(MEASURES)}")
    if k < 1:
        raise HeedfulError(f"top-k needs k of at least 1, not {k}")
    known = comparison._agreements
    if (measure, k) not in known:
        known[measure, k] = _agreements(comparison, measure, k)
    return list(comparison), known[measure, k].copy()


def _agreements(comparison: Comparison, measure: str, k: int) -> Floats:  # (m, m)
    methods = list(comparison)
    unit = ranked_unit(comparison)
    parts = [[item] for item in comparison.attributions]
    if with_written(comparison):
        parts = [[item, part] for [item] in parts if (part := item.of_written()) is not None]
    scores = [np.concatenate([part.unit_scores(unit) for part in each]) for each in parts]  # m times (n,)
    signed = [item.signed for item in comparison.attributions]
    values = np.full((len(methods), len(methods)), math.nan)
    for i in range(len(methods)):
        for j in range(i, len(methods)):
            keep_sign = signed[i] and signed[j] and measure != "top-k"
            a, b = (scores[i], scores[j]) if keep_sign else (np.abs(scores[i]), np.abs(scores[j]))
            values[i, j] = values[j, i] = pair_agreement(a, b, measure, k)
    return values


def matrices(comparison: Comparison, k: int = 5) -> dict[str, Any]:
    """Every measure at once, with what it ranks."""
    results = {measure: matrix(comparison, measure, k)[1] for measure in MEASURES}
    written = {"written": True} if with_written(comparison) else {}
    return {"unit": ranked_unit(comparison), **written, "k": k, "methods": list(comparison), **results}


def ranked_unit(comparison: Comparison) -> str:
    """What is ranked: words, or the tokens or sentences that were scored as one."""
    unit = str(comparison.settings.get("unit") or comparison.x.default_unit)
    return unit if comparison.x.units(unit) else comparison.x.default_unit


def unit_noun(comparison: Comparison) -> str:
    """What a person calls one of the units that are ranked: "word", "cell"."""
    return comparison.x.unit_noun(ranked_unit(comparison))


def ranked_count(comparison: Comparison) -> int:
    """How many units are ranked."""
    unit, texts = ranked_unit(comparison), [comparison.x]
    if with_written(comparison) and (written := comparison.attributions[0].written) is not None:
        texts.append(written.x)
    return sum(len(x.units(unit)) for x in texts)


def with_written(comparison: Comparison) -> bool:
    """Every method scores what was already written on the scale of the text: both are ranked together."""
    items = comparison.attributions
    return bool(items) and all(item.written is not None and item.written.same_scale for item in items)


def input_shares(comparison: Comparison) -> dict[str, float | None]:
    """`input_share` of every method; empty where nothing was written."""
    prompt = comparison.settings.get("prompt_tokens")
    items = comparison.attributions
    if not items or not anything_written(items[0], prompt):
        return {}
    return {item.method: input_share(item, prompt) for item in items}


def share_by_count(comparison: Comparison) -> float | None:
    """The text's share of the tokens, the control; None where nothing was written or no method scores it."""
    prompt = comparison.settings.get("prompt_tokens")
    for item in comparison.attributions:
        if anything_written(item, prompt) and (item.written is not None or not item.target.given):
            behind = None if item.written is None else np.ones(len(item.written.x))
            return share_of(item, np.ones(len(item.x)), behind, prompt)
    return None
