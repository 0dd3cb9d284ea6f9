"""Permutation: does it matter which tokens the attention is on?

    each row of each head in a random order, among the keys it may look at (special tokens too), n = 100 times
    median over permutations of |answer' - answer|, text by text, against the text's largest weight

Layer by layer, and in all layers at once. If a peaked attention may be put anywhere without a change of the
answer, where it peaked was not the reason for it. Scales to read a change by: what deleting one random word
does (also the difference, text by text), and what uniform attention does. The largest weight is that of a
word: [CLS] and its like often have more, and a peak there is no claim about the text. No change says that the
order does not matter to this answer on this text, not that attention is useless: a saturated answer hardly
moves whatever is done.

Cost: n + 1 forwards a layer (and for all layers) and text, and up to 20 deletions a text.
Needs: attentions, edits. Jain & Wallace, Attention is not Explanation, NAACL 2019.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import stats

from heedful.core.arrays import Floats
from heedful.core.charts import Scatter, Series
from heedful.core.cost import Cost
from heedful.core.numbers import with_interval
from heedful.core.progress import Progress
from heedful.io.json_codec import to_jsonable
from heedful.models.attention_hooks import AttentionState, uniform
from heedful.stats.intervals import NORMAL_QUANTILE, nanmean_of
from heedful.trials.attention_scores import ALL, AttendedText, layer_name, shown
from heedful.trials.examples import Cases, Example, largest_change
from heedful.trials.formatting import NOTHING, above, decimals, ends, row_range, unmoved
from heedful.trials.forward import Change, ask, without
from heedful.trials.permute_attention import permuted
from heedful.trials.registry import Rows, TrialWords, trial_test
from heedful.trials.rows import BESIDE_ONE_WORD, TrialRow

if TYPE_CHECKING:
    from heedful.trials.suite import TrialSuite

BINS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the largest weight, as in the paper
WORDS = 20  # deleted a text, at most
TOGETHER = "Spearman of largest weight and change"
SPEARMAN_ENDS = ("Spearman, low", "Spearman, high")
AT_LEAST, AT_MOST = "at least", "at most"  # ends of the interval of "more than one word deleted"


@dataclass(frozen=True, eq=False)
class Permutation:
    """Results for N texts and P choices of layers: each layer and, if there are several, all together."""

    places: tuple[str, ...]
    largest: Floats  # (N, P) largest weight of a word's token: heads averaged, from where the answer is read
    change: Floats  # (N, P) median over permutations
    uniform: Floats  # (N, P) change by uniform attention
    deleted: Floats  # (N,) median change by deleting one word
    permutations: int
    cost: Cost

    def together(self, place: int) -> tuple[float, float, float]:
        """Spearman's correlation of the largest weight with the change over texts, and its 95 % interval:
        Fisher's z with the variance (1 + r^2/2) / (n - 3) of Bonett & Wright 2000; nan if undefined."""
        a, b = self.largest[:, place], self.change[:, place]
        if len(a) < 4 or np.ptp(a) == 0 or np.ptp(b) == 0:
            return np.nan, np.nan, np.nan
        r = float(stats.spearmanr(a, b).statistic)
        z, reach = (
            np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)),
            NORMAL_QUANTILE * np.sqrt((1 + r**2 / 2) / (len(a) - 3)),
        )
        return r, float(np.tanh(z - reach)), float(np.tanh(z + reach))

    def bins(self, place: int) -> list[dict[str, float]]:
        """Texts by their largest weight: how many, and quartiles of their change."""
        rows = []
        for low, high in pairwise(BINS):
            weights = self.largest[:, place]
            inside = self.change[(weights >= low) & ((weights < high) | (high == BINS[-1])), place]
            quarters = np.quantile(inside, [0.25, 0.5, 0.75]) if len(inside) else np.full(3, np.nan)
            numbers = dict(zip(("lower", "median", "upper"), quarters.tolist(), strict=True))
            rows.append({"from": low, "to": high, "texts": float(len(inside))} | numbers)
        return rows

    def findings(self) -> list[TrialRow]:
        return [self._finding(place) for place in range(len(self.places))]

    def _finding(self, place: int) -> TrialRow:
        value, interval = nanmean_of(
            self.change[:, place], (0.0, largest_change(self.change)), len(self.places)
        )
        more, reach = nanmean_of(self.change[:, place] - self.deleted, claims=len(self.places))
        r, low, high = self.together(place)
        extra = {
            "largest weight": float(self.largest[:, place].mean()),
            TOGETHER: r,
            SPEARMAN_ENDS[0]: low,
            SPEARMAN_ENDS[1]: high,
            "change by uniform attention": float(self.uniform[:, place].mean()),
            "more than one word deleted": more,
            AT_LEAST: reach[0],
            AT_MOST: reach[1],
        }
        return TrialRow(
            test="permutation",
            what=f"weights in another order, {self.places[place]}",
            value=value,
            interval=interval,
            control=float(self.deleted.mean()),
            control_name="one random word deleted",
            n=len(self.change),
            unit="change of the answer",
            extra=extra,
            key=BESIDE_ONE_WORD,
            variant=self.places[place],
        )

    def to_dict(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in ("largest", "change", "uniform", "deleted")}
        bins = {name: to_jsonable(self.bins(place)) for place, name in enumerate(self.places)}
        return arrays | {
            "places": list(self.places),
            "bins": bins,
            "permutations": self.permutations,
            "cost": asdict(self.cost),
            "findings": [finding.to_dict() for finding in self.findings()],
        }


def permutation(
    cases: Cases, *, seed: int = 0, permutations: int = 100, progress: Progress | None = None
) -> Permutation:
    """Permute the attention weights of every text many times, and measure the change of the answer."""
    before = cases.model.spent
    rng = np.random.default_rng(seed)
    deleted = one_word_less(cases, rng)
    places: tuple[str, ...] = ()
    rows = []  # (3, P) a text
    for number, case in enumerate(cases.cases):
        attended = shown(cases, case)
        places = _places(len(attended.layers))
        draws = torch.Generator().manual_seed(seed + number)
        columns = [_at(cases, case, attended, place, permutations, draws) for place in range(len(places))]
        rows.append(np.array(columns).T)
        if progress is not None:
            progress(number + 1, len(cases))
    largest, change, level = np.stack(rows, 1)  # (N, P) each
    cost = cases.model.spent - before
    return Permutation(
        places=places,
        largest=largest,
        change=change,
        uniform=level,
        deleted=deleted,
        permutations=permutations,
        cost=cost,
    )


def _places(layers: int) -> tuple[str, ...]:
    names = tuple(map(layer_name, range(layers)))
    return names if layers == 1 else (*names, ALL)


def _at(
    cases: Cases, case: Example, attended: AttendedText, place: int, permutations: int, rng: torch.Generator
) -> tuple[float, float, float]:
    """(largest weight, median change of permutations, change by uniform attention) at one place."""
    everywhere = place == len(attended.layers)
    chosen = set(range(len(attended.layers))) if everywhere else {place}
    row = attended.layers.mean(0) if everywhere else attended.layers[place]
    with torch.no_grad():
        answers = ask(cases, case, permutations + 2, shuffling(attended.stack, chosen, rng, permutations))
        moved = cases.apart(answers[:-1], answers[-1:])  # the last copy is the model's own answer
    return float(row[attended.words].max(initial=0.0)), float(moved[:-1].quantile(0.5)), float(moved[-1])


def shuffling(stack: str, layers: set[int], rng: torch.Generator, permutations: int) -> Change:
    """Copies: so many in random orders, one with uniform attention, the rest as they are."""

    def change(state: AttentionState, here: slice) -> AttentionState:
        if state.site.stack != stack or state.site.layer not in layers:
            return state
        shuffled = max(0, min(permutations, here.stop) - here.start)
        level = range(here.start, here.stop).index(permutations) if _in(permutations, here) else None
        weights = state.weights.clone()
        if shuffled:
            noise = torch.rand(weights[:shuffled].shape, generator=rng)
            free = state.allowed.expand_as(weights)[:shuffled]
            weights[:shuffled] = permuted(weights[:shuffled], free, noise.to(weights.device))
        if level is not None:
            weights[level] = uniform(state)[level]
        return state.reweighed(weights)

    return change


def _in(number: int, here: slice) -> bool:
    return bool(here.start <= number < here.stop)


def one_word_less(cases: Cases, rng: np.random.Generator) -> Floats:
    """(N,): the median change when one word, of at most WORDS drawn ones, is deleted."""
    gone: list[tuple[int, list[int]]] = []
    for number, case in enumerate(cases.cases):
        units = case.x.units("word")
        picked = rng.choice(len(units), min(WORDS, len(units)), replace=False)
        gone += [(number, units[i]) for i in picked]
    moved = without(cases, gone)
    texts = np.array([text for text, _ in gone])
    return np.array([np.median(moved[texts == number]) for number in range(len(cases))])


# --- in the trial ----------------------------------------------------------------------------------------


def _showed(rows: Rows, _: Rows) -> str:
    low, high = ends(rows)
    text = f"Shuffled attention moves the answer by {row_range(low, high)}. "
    text += f"Deleting one random word moves it by {decimals(high.control)}."
    if unmoved(high):
        return f"{text} {NOTHING}"
    if _less(high):
        text += " So the order of the weights matters less than a single word."
    elif _more(low):
        text += " So the order of the weights matters more than a single word."
    elif not any(_more(row) or _less(row) for row in rows):
        text += " That is no clear difference."
    return text


def _further(rows: Rows, _: Rows) -> str:
    high = ends(rows)[1]
    value, low, end = (high.extra.get(name, math.nan) for name in (TOGETHER, *SPEARMAN_ENDS))
    if not math.isfinite(value):
        return ""
    return (
        "Over texts, the change and the largest weight have a Spearman correlation of "
        f"{with_interval(value, low, end)} ({high.variant})."
    )


def _more(row: TrialRow) -> bool:
    """Shuffling changes the answer clearly more than deleting a word."""
    return above(row.extra.get(AT_LEAST, math.nan), 0.0)


def _less(row: TrialRow) -> bool:
    return above(0.0, row.extra.get(AT_MOST, math.nan))


def _chart(result: Permutation) -> Scatter:
    """One point per text, at the last place: all layers, or the only one."""
    name = result.places[-1]
    points = tuple(zip(result.largest[:, -1].tolist(), result.change[:, -1].tolist(), strict=True))
    title = f"median change of the answer against the largest weight, {name}"
    return Scatter((Series(name, points),), f"largest weight, {name}", "median change of the answer", title)


@trial_test(
    "permutation",
    title="Does the output change when attention is shuffled?",
    needs={"attentions", "edits"},
    cite="Jain & Wallace 2019",
    order=2,
    words=TrialWords(_showed, _further, axes={"change of the answer": "higher: attention matters more"}),
    chart=_chart,
)
def _run(suite: TrialSuite) -> Permutation:
    """The weights in every row of every head are put in 100 random orders, in one layer at a time and in all
    layers at once. The result is the median change of the answer.

    Control: the change when one random word is deleted; the change with uniform attention

    Cost: 101 forwards per layer

    Not shown: that the model could do without attention: these weights were put in, not computed by it, and a
    sure answer hardly moves whatever is done.
    """
    return permutation(
        suite.cases,
        seed=suite.settings.seed,
        permutations=suite.settings.permutations,
        progress=suite.progress("permutation"),
    )
