"""Adversarial attention: how different can a layer's attention be while the model answers the same?

    maximise  JSD(alpha', alpha)   subject to   |answer(alpha') - answer(alpha)| <= epsilon

Every head and row of one layer is free, layer after layer, the rest of the model as it is. The weight that
special tokens get stays theirs: the adversary only deals out what words get, and JSD compares the two
distributions over words. It is a mean over heads and over the rows that matter: in the last layer the rows
the answer is read from, by their share; below it all rows alike. Rows with fewer than two words cannot move.

As published: K log-weights from uniform + 3 N(0, 1), far from the model's own and from one another, Adam.
Departures, meant to favour the adversary: larger steps that get smaller, and a price of a changed answer that
follows each candidate instead of 500 for all (heedful.trials.adversary_search); the best feasible candidate
ever seen counts, not the last; an infeasible one is drawn back towards the model's own attention, where
nothing changes, until it is feasible; and from there, and from the model's own attention, the search goes on
along the weights that keep the answer (heedful.trials.adversary_refine). What is reported was run again by
itself. It is still a lower bound. How far the search had settled is told: the share of the distance that
came in the last quarter of its rounds. If that is large, more steps find more.

Beside it: the highest JSD any weights could have (all on the least-attended word), and the best of R random
weights, feasible without any search. A text counts as one with an adversary if its distance is above both
that best random one and a tenth of that highest. A high value says the attention seen is not the only one
that gives this answer; it does not say the model could be trained to it.

Cost: at most steps (K + 3.75) + 2 R + 12 K + 122 forwards and steps K + (0.15 steps + 1) m backwards a layer
and text, m the axes of the answer: 1 for two labels, at most 32. Less where patience ends; layers share
passes.
Needs: attentions, edits. Jain & Wallace, Attention is not Explanation, NAACL 2019.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.cost import Cost
from heedful.core.numbers import percent
from heedful.core.phrases import listed
from heedful.core.progress import Progress
from heedful.io.json_codec import to_jsonable
from heedful.models.attention_hooks import AttentionState
from heedful.stats.divergence import LN2, jsd
from heedful.stats.intervals import nanmean_of, share_of
from heedful.trials.adversary_refine import follow
from heedful.trials.adversary_search import (
    BestCandidates,
    Search,
    SearchProblem,
    ascend,
    project_back,
    starts,
)
from heedful.trials.attention_scores import AttendedText, layer_name, shown
from heedful.trials.examples import Cases, Example
from heedful.trials.formatting import decimals, ends, row_range
from heedful.trials.forward import TOKENS, ask
from heedful.trials.free_weights import Movable, movable
from heedful.trials.permute_attention import permuted
from heedful.trials.registry import Rows, TrialWords, trial_test
from heedful.trials.rows import TrialRow, by_test

if TYPE_CHECKING:
    from heedful.trials.suite import TrialSuite

MIN_TEXTS_OVERALL = 5  # texts, below which nothing is said of attention as a whole
FREE = 0.5  # share of the highest JSD there is, from which on attention counts as freely replaceable
PINNED = 0.1  # share below which it counts as pinned by the answer
WORTH = 0.1  # of the highest JSD, from which on attention counts as other
COLUMNS = ("distance", "change", "largest", "random", "reached", "words", "shown", "late")
HIGHEST, FEASIBLE = "highest JSD of any weights", "share of starts feasible"
ON_WORDS, HEADS_MEAN = "attention on words", "JSD of the heads' mean"
SHARE = "share of texts with an adversary"
NOWHERE = "clearly replaceable in no layer"
JSD = "JSD, at most 0.693"  # the unit
NEARLY_ALL = 0.9  # of attention on words, from which on the rest is not mentioned


@dataclass(frozen=True, eq=False)
class Adversary:
    """What was found for each text (N) and layer (L); nan where no row sees two words: nothing can move."""

    distance: Floats  # (N, L) largest JSD of a feasible candidate; 0: only the model's own attention
    change: Floats  # (N, L) of the answer, run again; at most epsilon
    largest: Floats  # (N, L) the highest JSD that any weights have
    random: Floats  # (N, L) the best feasible of random weights
    reached: Floats  # (N, L) share of the starts that ended feasible by themselves, before being drawn back
    words: Floats  # (N, L) share of the attention that is on words, which is what can move
    shown: Floats  # (N, L) JSD of head-averaged attention over words, from where the answer is read
    late: Floats  # (N, L) share of the distance that came in the last quarter of the rounds
    search: Search
    cost: Cost

    def findings(self) -> list[TrialRow]:
        count = self.distance.shape[1]
        return [self._finding(layer, count) for layer in range(count)]

    def exists(self) -> npt.NDArray[np.bool_]:
        """(N, L) is there an adversary: better than chance, and worth the name?"""
        return np.asarray((self.distance > self.random) & (self.distance > WORTH * self.largest))

    def _finding(self, layer: int, claims: int) -> TrialRow:
        real = np.isfinite(self.distance[:, layer])
        value, interval = nanmean_of(self.distance[:, layer], (0.0, LN2), claims)
        column = {
            HIGHEST: self.largest,
            FEASIBLE: self.reached,
            ON_WORDS: self.words,
            HEADS_MEAN: self.shown,
            "change of the answer": self.change,
            "gained in the last quarter of the search": self.late,
        }
        extra = {name: nanmean_of(numbers[real, layer])[0] for name, numbers in column.items()}
        share, reach = share_of(self.exists()[real, layer], claims)
        names = (SHARE, "that share, low", "that share, high")
        extra |= dict(zip(names, (share, *reach), strict=True)) | {"texts left out": float((~real).sum())}
        return TrialRow(
            test="adversary",
            what=f"other attention, same answer, {layer_name(layer)}",
            value=value,
            interval=interval,
            control=nanmean_of(self.random[real, layer])[0],
            control_name=f"best of {self.search.draws} random weights that keep the answer",
            n=int(real.sum()),
            unit=JSD,
            extra=extra,
            variant=layer_name(layer),
        )

    def to_dict(self) -> dict[str, Any]:
        return {name: to_jsonable(getattr(self, name).tolist()) for name in COLUMNS} | {
            "search": asdict(self.search),
            "cost": asdict(self.cost),
            "findings": [finding.to_dict() for finding in self.findings()],
        }


def adversary(
    cases: Cases, *, seed: int = 0, search: Search | None = None, progress: Progress | None = None
) -> Adversary:
    """Find for each text and layer the attention that differs most from the attention of the model, but keeps
    the answer."""
    search, before = search or Search(), cases.model.spent
    columns = []
    for number, case in enumerate(cases.cases):
        rng = torch.Generator().manual_seed(seed + number)
        columns.append(_of_text(cases, case, search, rng))  # (8, L)
        if progress is not None:
            progress(number + 1, len(cases))
    arrays = dict(zip(COLUMNS, np.stack(columns, 1), strict=True))  # (N, L) each
    return Adversary(**arrays, search=search, cost=cases.model.spent - before)


def _of_text(cases: Cases, case: Example, search: Search, rng: torch.Generator) -> Floats:
    """(8, L): the columns of `Adversary`, one text."""
    attended = shown(cases, case)
    layers, answer = _layers(cases, case, attended)
    together = max(1, TOKENS // (search.starts * len(case.x)))  # graphs take memory
    columns = [
        _of_layers(
            SearchProblem(cases, case, attended.stack, layers[i : i + together], answer),
            attended,
            search,
            rng,
        )
        for i in range(0, len(layers), together)
    ]
    return np.concatenate(columns, 1)


def _layers(cases: Cases, case: Example, attended: AttendedText) -> tuple[list[Movable], Tensor]:
    """What may move in each layer, and the model's own answer (1, C) by the same kind of pass."""
    maps: dict[int, tuple[Tensor, Tensor]] = {}

    def look(state: AttentionState, _: slice) -> AttentionState:
        if state.site.stack == attended.stack:
            allowed = state.allowed.expand_as(state.weights)
            maps[state.site.layer] = (state.weights[0].float().cpu(), allowed[0].cpu())
        return state

    with torch.no_grad():
        answer = ask(cases, case, 1, look)
    words, last = torch.from_numpy(attended.words), max(maps)
    readout = torch.from_numpy(attended.readout).float()
    rows = {layer: readout if layer == last else torch.ones_like(readout) for layer in maps}
    return [movable(layer, *maps[layer], words, rows[layer]) for layer in sorted(maps)], answer


def _of_layers(
    problem: SearchProblem, attended: AttendedText, search: Search, rng: torch.Generator
) -> Floats:
    """(8, l): the same for layers that are searched together."""
    best, chance, reached = searched(problem, search, rng)
    columns = np.array(
        [
            best.distance,
            best.change,
            [layer.largest() for layer in problem.layers],
            chance.distance,
            reached,
            [layer.words() for layer in problem.layers],
            [
                _as_shown(layer, some, attended)
                for layer, some in zip(problem.layers, best.weights, strict=True)
            ],
            best.late(),
        ],
        dtype=np.float64,
    )
    columns[:, [layer.stuck for layer in problem.layers]] = np.nan
    return columns


def searched(
    problem: SearchProblem, search: Search, rng: torch.Generator
) -> tuple[BestCandidates, BestCandidates, list[float]]:
    """(best feasible, best feasible of random weights, share of the starts that ended feasible)."""
    chance, best = BestCandidates(problem, search.epsilon), BestCandidates(problem, search.epsilon)
    with torch.no_grad():
        drawn = [_random(layer, search.draws, rng) for layer in problem.layers]
        changes = problem.changes(drawn)
        chance.offer(drawn, changes)
        best.take(chance)
    with torch.inference_mode(False), torch.enable_grad():
        last = ascend(problem, best, search, rng)
    with torch.no_grad():
        reached = [float((moved <= search.epsilon).double().mean()) for moved in problem.changes(last)]
        back = project_back(problem, last, search.epsilon)
        best.offer(back, problem.changes(back))
        follow(problem, best, search, back, list(zip(drawn, changes, strict=True)), rng)
        best.verify()
    return best, chance, reached


def _random(layer: Movable, count: int, rng: torch.Generator) -> Tensor:
    """(R, H, Q, T): half as the search starts, half the model's own weights in another order."""
    half = count // 2
    noise = torch.rand(count - half, *layer.own.shape, generator=rng)
    return torch.cat([layer.weights(starts(layer, half, rng)), permuted(layer.own, layer.free, noise)])


def _as_shown(layer: Movable, weights: Tensor, attended: AttendedText) -> float:
    """JSD of what a reader sees who averages heads, from where the answer is read."""
    readout = torch.from_numpy(attended.readout)
    rows = [torch.einsum("hqt,q->t", some.double() * layer.free, readout) for some in (layer.own, weights)]
    return float(jsd(*(row / row.sum().clamp_min(1e-30) for row in rows)))


# --- in the trial ----------------------------------------------------------------------------------------


def _showed(rows: Rows, _: Rows) -> str:
    known = [row for row in rows if math.isfinite(row.value)]
    if not known:
        return "No text has two words between which attention can move and change the answer."
    low, high = ends(known)
    share = max(row.extra[SHARE] for row in known)
    most = "up to " if len(known) > 1 else ""
    text = f"For {most}{percent(share)} of texts, very different attention gives the same answer: its mean "
    if not share:
        text = "No other attention was found that keeps the answer and is farther than random weights: its "
    return text + (
        f"distance is JSD {row_range(low, high)} of at most {decimals(high.extra[HIGHEST])}. Random "
        f"weights that keep the answer reach {decimals(high.control)}."
    )


def _further(rows: Rows, _: Rows) -> str:
    known = [row for row in rows if math.isfinite(row.value)]
    if not known:
        return ""
    feasible = max(row.extra[FEASIBLE] for row in known)
    lines = [f"Up to {percent(feasible)} of the starts of the search ended with the same answer unaided."]
    if means := _head_means(known):
        lines.append(f"The mean over heads, which readers see, moves by JSD {_spread(means)}.")
    return " ".join(lines)


class AttentionReading(Enum):
    """What the adversary says about attention as a whole."""

    UNKNOWN = "no text could be searched"
    FEW = "too few texts"
    REPLACEABLE = "in every layer"
    PINNED = "hardly anywhere"
    PARTLY = "in some layers"
    UNCLEAR = "in no layer for sure"


def _read(known: Rows) -> tuple[AttentionReading, list[TrialRow]]:
    """The reading, and the layers in which attention is replaceable.

    A layer is replaceable when the lower end of its interval is at least FREE of the highest JSD there is,
    and held fast when the upper end is at most PINNED of it.
    """
    free = [row for row in known if row.interval[0] >= FREE * row.extra[HIGHEST]]
    pinned = [row for row in known if row.interval[1] <= PINNED * row.extra[HIGHEST]]
    if not known:
        return AttentionReading.UNKNOWN, []
    if known[0].n < MIN_TEXTS_OVERALL:
        return AttentionReading.FEW, []
    if len(free) == len(known):
        return AttentionReading.REPLACEABLE, free
    if len(pinned) == len(known):
        return AttentionReading.PINNED, []
    return (AttentionReading.PARTLY, free) if free else (AttentionReading.UNCLEAR, [])


def _answer(rows: Rows, every: Rows, against: int) -> str:
    """The headline. It claims no more than the reading."""
    known = [row for row in rows if math.isfinite(row.value)]
    reading, free = _read(known)
    if reading is AttentionReading.FEW:
        return f"{known[0].n} texts are too few to judge attention as an explanation"
    if reading is AttentionReading.REPLACEABLE:
        return "Attention alone does not explain these predictions"
    if reading is AttentionReading.PARTLY:
        return f"In {len(free)} of {len(known)} layers, attention alone does not explain these predictions"
    if reading is AttentionReading.PINNED:
        return _speaking(against, len(by_test(every)))
    return ""


def _speaking(against: int, tests: int) -> str:
    """Some tests may speak against attention; none of them can speak for it."""
    if not against:
        who = "This test does not speak" if tests == 1 else f"None of {tests} tests speaks"
    else:
        who = f"{against} of {tests} tests {'speaks' if against == 1 else 'speak'}"
    return f"{who} against attention as an explanation"


def _conclude(rows: Rows, texts: int, against: Sequence[str]) -> str:
    """A few sentences: the reading, what it means, what it would hide, and what else speaks against it."""
    known = [row for row in rows if math.isfinite(row.value)]
    reading, free = _read(known)
    if reading is AttentionReading.UNKNOWN:
        return "The test that changes attention did not run: nothing is said about attention as a whole."
    if reading is AttentionReading.FEW:
        return f"{known[0].n} texts are too few to say anything about attention as a whole."
    here = f"On these {texts:,} texts"
    if reading is AttentionReading.REPLACEABLE:
        lines = [f"{here}, other attention gives the same answers in every layer."]
        lines.append("Attention says where the model looked, but alone it does not say why it answered.")
    elif reading is AttentionReading.PINNED:
        lines = [f"{here}, this search found hardly any other attention that gives the same answers."]
        if any(not row.extra[FEASIBLE] for row in known):
            lines.append("No start kept the answer unaided: a longer search (climb) may find more.")
        if not against:
            lines.append("Nothing else here speaks against attention. That does not make it an explanation.")
    else:
        where = f"replaceable in {listed([row.variant for row in free])}" if free else NOWHERE
        lines = [f"{here}, the answers determine attention only in part: it is {where}."]
        lines.append("Compare it with a method that removes words.")
    return " ".join([*lines, *_hidden(known), *against])


def _hidden(rows: Rows) -> list[str]:
    """What a bare number would hide: heads that cancel in their mean, and weight that could not move."""
    lines = []
    if (means := _head_means(rows)) and min(means) < FREE * max(row.extra[HIGHEST] for row in rows):
        lines.append(f"This is per head. The mean over heads moves less, by JSD {_spread(means)}.")
    share = sum(row.extra[ON_WORDS] for row in rows) / len(rows)
    if share < NEARLY_ALL:
        lines.append(f"Only attention to words was changed, which is {percent(share)} of it.")
    return lines


def _head_means(rows: Rows) -> list[float]:
    """How far the mean over heads moves, one per layer where it is known."""
    means = [row.extra.get(HEADS_MEAN, math.nan) for row in rows]
    return [mean for mean in means if math.isfinite(mean)]


def _spread(values: Sequence[float]) -> str:
    low, high = decimals(min(values)), decimals(max(values))
    return low if low == high else f"{low} to {high}"


@trial_test(
    "adversary",
    title="Can attention change a lot while the output stays the same?",
    needs={"attentions", "edits"},
    cite="Jain & Wallace 2019",
    order=3,
    words=TrialWords(
        _showed,
        _further,
        conclude=_conclude,
        answer=_answer,
        axes={JSD: "higher: attention can differ more"},
    ),
)
def _run(suite: TrialSuite) -> Adversary:
    """The test searches for attention that is as far as possible from the model's attention (by JSD) and
    changes the answer by at most ε = 0.01. All heads and rows of one layer may change. The search has 5
    starts. As a check, the best result is run again by itself.

    Control: the farthest of 50 random weights that keep the answer; the highest JSD that any weights can have

    Cost: per layer up to 1,680 forward passes, and up to 825 backward passes (1,600 for a language model);
    `--climb` and `--starts` change these numbers

    Not shown: that any model computes such weights: they were searched for one text at a time. The test
    trained adversary asks whether a trained model does it for all texts.
    """
    settings = suite.settings
    search = Search(settings.epsilon, settings.starts, settings.climb)
    progress = suite.progress("looking for adversaries")
    return adversary(suite.cases, seed=settings.seed, search=search, progress=progress)
