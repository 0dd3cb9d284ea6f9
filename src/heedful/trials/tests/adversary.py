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

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.cost import Cost
from heedful.core.progress import Progress
from heedful.io.json_codec import to_jsonable
from heedful.models.attention_hooks import Seen
from heedful.stats.divergence import LN2, jsd
from heedful.stats.intervals import nanmean_of, share_of
from heedful.trials.adversary_refine import follow
from heedful.trials.adversary_search import BestCandidates, Ground, Search, climb, drawn_back, starts
from heedful.trials.attention_scores import AttendedText, layer_name, shown
from heedful.trials.examples import Cases, Example
from heedful.trials.forward import TOKENS, ask
from heedful.trials.free_weights import Movable, movable
from heedful.trials.permute_attention import permuted
from heedful.trials.rows import TrialRow

WORTH = 0.1  # of the highest JSD, from which on attention counts as other
COLUMNS = ("distance", "change", "largest", "random", "reached", "words", "shown", "late")


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

    def found(self) -> npt.NDArray[np.bool_]:
        """(N, L) is there an adversary: better than chance, and worth the name?"""
        return np.asarray((self.distance > self.random) & (self.distance > WORTH * self.largest))

    def _finding(self, layer: int, claims: int) -> TrialRow:
        real = np.isfinite(self.distance[:, layer])
        value, interval = nanmean_of(self.distance[:, layer], (0.0, LN2), claims)
        column = {
            "highest JSD of any weights": self.largest,
            "share of starts feasible": self.reached,
            "attention on words": self.words,
            "JSD of the heads' mean": self.shown,
            "change of the answer": self.change,
            "gained in the last quarter of the search": self.late,
        }
        extra = {name: nanmean_of(numbers[real, layer])[0] for name, numbers in column.items()}
        share, reach = share_of(self.found()[real, layer], claims)
        names = ("share of texts with an adversary", "that share, low", "that share, high")
        extra |= dict(zip(names, (share, *reach), strict=True)) | {"texts left out": float((~real).sum())}
        return TrialRow(
            test="adversary",
            what=f"other attention, same answer, {layer_name(layer)}",
            value=value,
            interval=interval,
            control=nanmean_of(self.random[real, layer])[0],
            control_name=f"best of {self.search.draws} random weights that keep the answer",
            n=int(real.sum()),
            unit="JSD, at most 0.693",
            extra=extra,
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
    """The farthest attention that keeps the answer, text by text and layer by layer."""
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
    said = shown(cases, case)
    layers, answer = _layers(cases, case, said)
    together = max(1, TOKENS // (search.starts * len(case.x)))  # graphs take memory
    found = [
        _of_layers(Ground(cases, case, said.stack, layers[i : i + together], answer), said, search, rng)
        for i in range(0, len(layers), together)
    ]
    return np.concatenate(found, 1)


def _layers(cases: Cases, case: Example, said: AttendedText) -> tuple[list[Movable], Tensor]:
    """What may move in each layer, and the model's own answer (1, C) by the same kind of pass."""
    maps: dict[int, tuple[Tensor, Tensor]] = {}

    def look(seen: Seen, _: slice) -> Seen:
        if seen.site.stack == said.stack:
            allowed = seen.allowed.expand_as(seen.weights)
            maps[seen.site.layer] = (seen.weights[0].float().cpu(), allowed[0].cpu())
        return seen

    with torch.no_grad():
        answer = ask(cases, case, 1, look)
    words, last = torch.from_numpy(said.words), max(maps)
    readout = torch.from_numpy(said.readout).float()
    rows = {layer: readout if layer == last else torch.ones_like(readout) for layer in maps}
    return [movable(layer, *maps[layer], words, rows[layer]) for layer in sorted(maps)], answer


def _of_layers(ground: Ground, said: AttendedText, search: Search, rng: torch.Generator) -> Floats:
    """(8, l): the same for layers that are searched together."""
    best, chance, reached = searched(ground, search, rng)
    found = np.array(
        [
            best.distance,
            best.change,
            [layer.largest() for layer in ground.layers],
            chance.distance,
            reached,
            [layer.words() for layer in ground.layers],
            [_as_shown(layer, some, said) for layer, some in zip(ground.layers, best.weights, strict=True)],
            best.late(),
        ],
        dtype=np.float64,
    )
    found[:, [layer.stuck for layer in ground.layers]] = np.nan
    return found


def searched(
    ground: Ground, search: Search, rng: torch.Generator
) -> tuple[BestCandidates, BestCandidates, list[float]]:
    """(best feasible, best feasible of random weights, share of the starts that ended feasible)."""
    chance, best = BestCandidates(ground, search.epsilon), BestCandidates(ground, search.epsilon)
    with torch.no_grad():
        drawn = [_random(layer, search.draws, rng) for layer in ground.layers]
        changes = ground.changes(drawn)
        chance.offer(drawn, changes)
        best.take(chance)
    with torch.inference_mode(False), torch.enable_grad():
        last = climb(ground, best, search, rng)
    with torch.no_grad():
        reached = [float((moved <= search.epsilon).double().mean()) for moved in ground.changes(last)]
        back = drawn_back(ground, last, search.epsilon)
        best.offer(back, ground.changes(back))
        follow(ground, best, search, back, list(zip(drawn, changes, strict=True)), rng)
        best.verify()
    return best, chance, reached


def _random(layer: Movable, count: int, rng: torch.Generator) -> Tensor:
    """(R, H, Q, T): half as the search starts, half the model's own weights in another order."""
    half = count // 2
    noise = torch.rand(count - half, *layer.own.shape, generator=rng)
    return torch.cat([layer.weights(starts(layer, half, rng)), permuted(layer.own, layer.free, noise)])


def _as_shown(layer: Movable, weights: Tensor, said: AttendedText) -> float:
    """JSD of what a reader sees who averages heads, from where the answer is read."""
    readout = torch.from_numpy(said.readout)
    rows = [torch.einsum("hqt,q->t", some.double() * layer.free, readout) for some in (layer.own, weights)]
    return float(jsd(*(row / row.sum().clamp_min(1e-30) for row in rows)))
