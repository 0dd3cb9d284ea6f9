"""Correlation: does attention rank the tokens as gradients and leave-one-out do?

    gradients       |d answer / d x_t|, attention weights held fixed (detached): through the token's one-hot,
                    |g_t . e_t|, as published, or "l2", |g_t|; answer: the probability of what is predicted
    leave-one-out   how far the whole answer moves when the token is really deleted
    per text        Kendall tau-b over tokens, with its p; special tokens are left out of all rankings

Each layer, the mean of all layers, and rollout, against both; beside them the two with each other, and as a
control the same attention in a random order, which is significant on about 5 % of texts. A low tau says that
the rankings differ, not which of them is right: gradients and leave-one-out do not agree perfectly either.

Cost: T + 2 forwards and 2 backwards a text. Needs: attentions, edits, gradients.
Jain & Wallace, Attention is not Explanation, NAACL 2019.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.cost import Cost
from heedful.core.errors import HeedfulError
from heedful.core.numbers import percent
from heedful.core.phrases import listed
from heedful.core.progress import Progress
from heedful.io.json_codec import to_jsonable
from heedful.models.batch import pick
from heedful.stats.intervals import SIGNED, nanmean_of, share_of
from heedful.trials.attention_scores import shown
from heedful.trials.examples import Cases, Example
from heedful.trials.formatting import above, decimals, row_interval
from heedful.trials.forward import predicted, probe, row_of, without
from heedful.trials.registry import Rows, TrialWords, trial_test
from heedful.trials.rows import TrialRow, of_key

if TYPE_CHECKING:
    from heedful.trials.suite import TrialSuite

GRADIENTS, LEFT_OUT = "gradients", "leave-one-out"  # also keys of rows: attention beside each
REFERENCE = "reference"  # key: the two beside each other
SHARE = "share significant"
SIGNIFICANT, ORDERS = 0.05, 20
NORMS = ("one-hot", "l2")


@dataclass(frozen=True, eq=False)
class Correlation:
    """Kendall's tau-b of pairs of rankings, text by text; nan where a ranking is constant."""

    pairs: tuple[tuple[str, str], ...]  # ("layer 0", "gradients"), ...; the last: gradients, leave-one-out
    tau: Floats  # (N, pairs)
    p: Floats  # (N, pairs)
    chance: Floats  # (N, pairs) mean tau of the first ranking in ORDERS random orders
    lucky: Floats  # (N, pairs) share of them that is significant
    norm: str
    cost: Cost

    def findings(self) -> list[TrialRow]:
        return [self._finding(i) for i in range(len(self.pairs))]

    def _finding(self, i: int) -> TrialRow:
        real = np.isfinite(self.tau[:, i])
        tau, claims = self.tau[real, i], len(self.pairs)
        value, interval = nanmean_of(tau, SIGNED, claims)
        share, reach = share_of(self.p[real, i] < SIGNIFICANT, claims)
        first, second = self.pairs[i]
        extra = {
            "standard deviation": float(tau.std(ddof=1)) if len(tau) > 1 else float("nan"),
            SHARE: share,
            f"{SHARE}, low": reach[0],
            f"{SHARE}, high": reach[1],
            f"{SHARE} in random order": nanmean_of(self.lucky[real, i])[0],
            "texts left out": float((~real).sum()),
        }
        return TrialRow(
            test="correlation",
            what=f"{first} and {second}" if first == GRADIENTS else f"attention and {second}, {first}",
            value=value,
            interval=interval,
            control=nanmean_of(self.chance[real, i])[0],
            control_name="the first of the two in a random order",
            n=int(real.sum()),
            unit="Kendall tau-b",
            extra=extra,
            key=REFERENCE if first == GRADIENTS else second,
            variant="" if first == GRADIENTS else first,
        )

    def to_dict(self) -> dict[str, Any]:
        arrays = {name: to_jsonable(getattr(self, name).tolist()) for name in ("tau", "p", "chance", "lucky")}
        return arrays | {
            "pairs": [list(pair) for pair in self.pairs],
            "norm": self.norm,
            "cost": asdict(self.cost),
            "findings": [finding.to_dict() for finding in self.findings()],
        }


def correlation(
    cases: Cases, *, seed: int = 0, norm: str = "one-hot", progress: Progress | None = None
) -> Correlation:
    """Rank the tokens of every text by attention, by gradients and by leave-one-out, and correlate the
    rankings."""
    if norm not in NORMS:
        raise HeedfulError(f"unknown norm {norm!r}", fix=f"Use one of: {', '.join(NORMS)}")
    before, rng = cases.model.spent, np.random.default_rng(seed)
    left_out = leave_one_out(cases)
    pairs: tuple[tuple[str, str], ...] = ()
    columns = []  # (4, pairs) a text
    for number, case in enumerate(cases.cases):
        attended = shown(cases, case)
        rankings = attended.views()
        pairs = (*((name, to) for name in rankings for to in (GRADIENTS, LEFT_OUT)), (GRADIENTS, LEFT_OUT))
        rankings |= {GRADIENTS: gradients(cases, case, norm), LEFT_OUT: left_out[number]}
        among = {name: scores[attended.words] for name, scores in rankings.items()}
        columns.append(_correlated(pairs, among, rng))
        if progress is not None:
            progress(number + 1, len(cases))
    tau, p, chance, lucky = np.stack(columns, 1)  # (N, pairs) each
    return Correlation(
        pairs=pairs, tau=tau, p=p, chance=chance, lucky=lucky, norm=norm, cost=cases.model.spent - before
    )


def _correlated(
    pairs: tuple[tuple[str, str], ...], among: dict[str, Floats], rng: np.random.Generator
) -> Floats:
    """(4, pairs): tau, its p; mean tau of random orders of the first ranking, and their share significant."""
    columns = []
    for first, second in pairs:
        real = kendall(among[first], among[second])
        drawn = np.array([kendall(rng.permutation(among[first]), among[second]) for _ in range(ORDERS)])
        columns.append((*real, drawn[:, 0].mean(), (drawn[:, 1] < SIGNIFICANT).mean()))
    return np.array(columns).T


def kendall(some: Floats, others: Floats) -> tuple[float, float]:
    """Kendall's tau-b and its p value. Both are nan for fewer than two tokens or a constant ranking."""
    if len(some) < 2 or np.ptp(some) == 0 or np.ptp(others) == 0:
        return float("nan"), float("nan")
    tau = stats.kendalltau(some, others)
    return float(tau.statistic), float(tau.pvalue)


def leave_one_out(cases: Cases) -> list[Floats]:
    """For each text (T,): how much the answer changes without each token. Special tokens are never removed
    and get nan."""
    gone = [
        (n, t) for n, case in enumerate(cases.cases) for t, fixed in enumerate(case.x.special) if not fixed
    ]
    changes = [np.full(len(case.x), np.nan) for case in cases.cases]
    for (number, token), moved in zip(gone, without(cases, [(n, [t]) for n, t in gone]), strict=True):
        changes[number][token] = moved
    return changes


def gradients(cases: Cases, case: Example, norm: str = "one-hot") -> Floats:
    """(T,) |gradient| of the predicted answer at each token, attention weights held fixed."""
    model, index = cases.model, predicted(cases, case).index
    counted = model.meter.counted(forwards=1, backwards=1, unique=1, tokens=len(case.x))
    fixed = model.attending(lambda state: state.reweighed(state.weights.detach()))
    with counted, torch.inference_mode(False), torch.enable_grad():
        inputs, places = model.batch([row_of(case)], probe(cases))
        with fixed:
            logits, embeds = model.forward_with_grad(inputs)
        answer = cases.answers(pick(logits, places, inputs.keep_positions, probe(cases)).double())
        (grad,) = torch.autograd.grad(answer[0, index], [embeds])
    grad = grad[0, : len(case.x)].detach().double()  # (T, d)
    table, tokens = model.token_table, embeds[0].detach()
    if table is not None:  # without positions, where the module adds them in `embed`
        with torch.no_grad():
            tokens = table(torch.tensor(case.x.ids, device=tokens.device))
    size: Tensor = grad.norm(dim=-1) if norm == "l2" else (grad * tokens.double()).sum(-1).abs()
    return np.asarray(size.cpu(), dtype=np.float64)


# --- in the trial ----------------------------------------------------------------------------------------


def _showed(rows: Rows, _: Rows) -> str:
    known = _known(rows)
    best = _best(known)
    if not best:
        return "No text has ranks to compare: fewer than two words, or scores that are all the same."
    parts = [f"{row_interval(row)} with {to}" for to, row in best.items()]
    controls = [row.control for row in known if math.isfinite(row.control)]
    chance = decimals(sum(controls) / len(controls) if controls else math.nan)
    where = " in the best layer" if len(known) > len(best) + len(of_key(known, REFERENCE)) else ""
    return f"Its Kendall's tau{where} is {listed(parts)}. Random orders have {chance}."


def _further(rows: Rows, _: Rows) -> str:
    known = _known(rows)
    lines = [
        f"The agreement with {to} is significant in {percent(row.extra[SHARE])} of texts ({row.variant})."
        for to, row in _best(known).items()
    ]
    if reference := of_key(known, REFERENCE)[:1]:
        own = of_key(known, GRADIENTS) + of_key(known, LEFT_OUT)
        worse = all(above(reference[0].interval[0], row.interval[1]) for row in own)
        more = "more than attention agrees with either" if worse else "not clearly more than attention does"
        tau = row_interval(reference[0])
        lines.append(f"Gradients and leave-one-out agree with each other with tau {tau}, {more}.")
    return " ".join(lines)


def _known(rows: Rows) -> list[TrialRow]:
    return [row for row in rows if math.isfinite(row.value)]


def _best(known: Rows) -> dict[str, TrialRow]:
    """For gradients and for leave-one-out: the layer that agrees most."""
    found = {to: of_key(known, to) for to in (GRADIENTS, LEFT_OUT)}
    return {to: max(own, key=lambda row: row.value) for to, own in found.items() if own}


def _against(rows: Rows, _: Rows) -> str:
    ranks = [row for row in of_key(rows, LEFT_OUT) if math.isfinite(row.value)]
    if ranks and not any(above(row.interval[0], 0.0) for row in ranks):
        return "Attention agrees with leave-one-out not clearly better than chance."
    return ""


@trial_test(
    "correlation",
    title="Does attention agree with gradients and leave-one-out?",
    needs={"attentions", "edits", "gradients"},
    cite="Jain & Wallace 2019",
    order=1,
    words=TrialWords(
        _showed, _further, against=_against, axes={"Kendall tau-b": "higher: the rankings agree more"}
    ),
)
def _run(suite: TrialSuite) -> Correlation:
    """Kendall tau-b over the tokens of a text, between attention and gradients and between attention and
    leave-one-out. Gradients are with respect to the one-hot tokens, with attention held fixed. Leave-one-out
    is the total variation of the answer when a token is removed.

    Control: tau-b for the same attention in random orders; tau-b between gradients and leave-one-out

    Cost: T + 2 forwards, 2 backwards

    Not shown: which of them is right: all are measures, and many of the tokens they rank hardly matter.
    """
    return correlation(suite.cases, seed=suite.settings.seed, progress=suite.progress("correlation"))
