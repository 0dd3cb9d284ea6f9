"""Induction and duplicate-token heads: where a head looks when a text of random tokens is repeated.

    text        a_1 ... a_P a_1 ... a_P, random distinct tokens, no special ones (the tokenizer's own first
                token stands in front, if it adds one); i is a position in the second copy
    induction   mean over i of A[i, i - P + 1]: the token that came after the same token
    duplicate   mean over i of A[i, i - P]: the same token
    previous    mean over i of A[i, i - 1], for reference
    control     the same head and positions on a_1 ... a_P b_1 ... b_P with fresh b: nothing is repeated.
                For `previous`, which asks for no repetition, it is uniform attention, mean of 1/(i + 1)
    named       where the interval of score - control lies above `margin`; intervals over draws are Student's,
                for all heads and both roles together (Bonferroni)
    loss        mean loss of a_2 ... a_P in the second copy less that in the first: below zero when the model
                uses the repetition; beside it the same difference on the fresh texts

An attention score says where a head looks, not that the copying comes from it: for that, remove the head.

Cost: 2 forwards a draw. Needs: a causal language model that shows its attention.
Elhage et al. 2021; Olsson et al. 2022 (In-context learning and induction heads).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.progress import Report
from heedful.core.result import Result
from heedful.io.json_codec import to_jsonable
from heedful.stats.intervals import Band, Interval, student

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

MARGIN = 0.1  # attention: a tenth of the head's looking must be due to the repetition
ROLES = ("induction", "duplicate", "previous")
MIN_DRAWS = 2  # draws: one has no spread


@dataclass(frozen=True)
class AttentionShare:
    """Mean attention to one place, the control's, and the interval of the difference."""

    value: float
    control: float
    interval: Interval  # of value - control


@dataclass(frozen=True)
class HeadRole:
    layer: int
    head: int
    induction: AttentionShare
    duplicate: AttentionShare
    previous: AttentionShare
    roles: tuple[str, ...]  # "induction", "duplicate" or both; empty: neither was shown


@dataclass(frozen=True)
class Loss:
    """Nats a token, means over draws; `change` is second less first."""

    first: float
    second: float
    change: float
    interval: Interval  # 95 %, of change
    control: float  # change on the fresh texts


@dataclass(frozen=True)
class Induction(Result):
    """Every head's scores, layer by layer."""

    kind: ClassVar[str] = "induction"

    model: str
    period: int
    draws: int
    seed: int
    margin: float
    uniform: float  # what attention spread evenly over the visible tokens would give
    heads: tuple[HeadRole, ...]
    loss: Loss
    notes: tuple[str, ...] = ()

    def named(self, role: str) -> list[HeadRole]:
        """Heads shown to have the role, strongest first."""
        results = [head for head in self.heads if role in head.roles]
        return sorted(results, key=lambda head: -getattr(head, role).value)

    def table(self) -> list[dict[str, Any]]:
        """One flat row a head."""
        rows = []
        for head in self.heads:
            row: dict[str, Any] = {"layer": head.layer, "head": head.head, "roles": " ".join(head.roles)}
            for role in ROLES:
                share = getattr(head, role)
                row |= {role: share.value, f"{role}_control": share.control}
                row |= {f"{role}_low": share.interval[0], f"{role}_high": share.interval[1]}
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


def stripes(maps: npt.NDArray[np.float32], start: int, period: int) -> Floats:
    """(B, L, H, 3) induction, duplicate and previous scores of maps (B, L, H, T, T) of repeated texts.

    The first copy begins at position `start`, the second at `start + period`.
    """
    queries = np.arange(start + period, start + 2 * period)
    keys = [queries - period + 1, queries - period, queries - 1]
    return np.stack([maps[..., queries, key].astype(np.float64).mean(-1) for key in keys], -1)


def uniform_share(start: int, period: int) -> float:
    """Mean over the second copy of 1/(i + 1), the weight of any visible token under even attention."""
    return float(np.mean(1 / (np.arange(start + period, start + 2 * period) + 1)))


def induction(
    model: TokenModel,
    *,
    period: int = 50,
    draws: int = 8,
    seed: int = 0,
    margin: float = MARGIN,
    progress: Report | None = None,
) -> Induction:
    """Scores of every head on `draws` random repeated texts beside as many without repetition."""
    from heedful.heads.batched_maps import batched_maps, require_causal
    from heedful.modalities.operators import InputRow

    require_causal(model, "the search for induction heads")
    before = _prefix(model)
    _check(model, before, period, draws)
    repeated, fresh = _texts(_vocabulary(model), period, draws, seed)
    rows = [InputRow((*before, *(int(t) for t in text))) for text in (*repeated, *fresh)]
    scores: dict[int, Floats] = {}  # (L, H, 3) a text
    losses: dict[int, Floats] = {}  # (2,) a text: first and second half
    notes: dict[str, None] = {}
    for part in batched_maps(model, rows, progress, logits=True):
        scores |= dict(zip(part.rows, stripes(part.maps, len(before), period), strict=True))
        texts = [rows[i].ids for i in part.rows]
        losses |= dict(zip(part.rows, _losses(part.logits, texts, len(before), period), strict=True))
        notes |= dict.fromkeys(part.notes)
    maps = np.stack([scores[i] for i in range(len(rows))])  # (2 D, L, H, 3)
    lost = np.stack([losses[i] for i in range(len(rows))])  # (2 D, 2)
    uniform = uniform_share(len(before), period)
    heads = judge(maps[:draws], maps[draws:], uniform, margin)
    return Induction(
        model=model.name,
        period=period,
        draws=draws,
        seed=seed,
        margin=margin,
        uniform=uniform,
        heads=heads,
        loss=_loss(lost[:draws], lost[draws:]),
        notes=tuple(notes),
    )


def judge(scores: Floats, control: Floats, uniform: float, margin: float = MARGIN) -> tuple[HeadRole, ...]:
    """scores, control (D, L, H, 3): repeated and fresh texts, draw by draw -> one role a head."""
    draws, layers, heads, _ = scores.shape
    against = control.copy()
    against[..., 2] = uniform
    gap = (scores - against).reshape(draws, -1)
    band = student(gap, claims=2 * layers * heads)
    shape = (layers, heads, 3)
    value, other = scores.mean(0), against.mean(0)
    low, high = band.low.reshape(shape), band.high.reshape(shape)
    results = []
    for layer, head in np.ndindex(layers, heads):
        at = (layer, head)
        shares = [
            AttentionShare(float(value[at][r]), float(other[at][r]), (float(low[at][r]), float(high[at][r])))
            for r in range(3)
        ]
        roles = tuple(role for r, role in enumerate(ROLES[:2]) if low[at][r] > margin)
        results.append(
            HeadRole(
                layer=layer,
                head=head,
                induction=shares[0],
                duplicate=shares[1],
                previous=shares[2],
                roles=roles,
            )
        )
    return tuple(results)


def _loss(repeated: Floats, fresh: Floats) -> Loss:
    """(D, 2) mean losses of the two halves, text by text."""
    change = repeated[:, 1] - repeated[:, 0]
    band: Band = student(change[:, None], claims=1)
    first, second = repeated.mean(0)
    control = float((fresh[:, 1] - fresh[:, 0]).mean())
    interval = (float(band.low[0]), float(band.high[0]))
    return Loss(float(first), float(second), float(change.mean()), interval, control)


def _losses(logits: Any, texts: Sequence[Sequence[int]], start: int, period: int) -> Floats:
    """(B, 2): mean loss of each half's tokens but its first, which nothing before it foretells."""
    import torch

    ids = torch.tensor(texts)[:, 1:, None]
    result = logits[:, :-1].log_softmax(-1).gather(-1, ids)[..., 0]  # (B, T - 1): of token t + 1
    halves = [result[:, first : first + period - 1].mean(-1) for first in (start, start + period)]
    return -torch.stack(halves, -1).double().numpy()


def _prefix(model: TokenModel) -> tuple[int, ...]:
    """Special tokens the tokenizer puts before a text."""
    x = model.encode("a")
    text = next((i for i, special in enumerate(x.special) if not special), 0)
    return tuple(x.ids[:text])


def _vocabulary(model: TokenModel) -> npt.NDArray[np.int64]:
    """Ids that can stand in a text."""
    return np.array(model.ordinary_tokens())


def _texts(
    vocabulary: npt.NDArray[np.int64], period: int, draws: int, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(D, 2 P) repeated, and with a fresh second half; first halves are the same, tokens distinct."""
    if len(vocabulary) < 2 * period:
        raise HeedfulError(
            f"a period of {period} needs {2 * period} different tokens",
            f"the vocabulary has {len(vocabulary)}",
            f"Use a period of at most {len(vocabulary) // 2}",
        )
    rng = np.random.default_rng(seed)
    fresh = np.stack([rng.choice(vocabulary, 2 * period, replace=False) for _ in range(draws)])
    return np.tile(fresh[:, :period], 2), fresh


def _check(model: TokenModel, before: Sequence[int], period: int, draws: int) -> None:
    if period < 3 or draws < MIN_DRAWS:
        raise HeedfulError(
            f"a period of {period} and {draws} draws are too few",
            "the next, same and previous token would be the same, or there is no variation",
            f"Use a period of at least 3 and at least {MIN_DRAWS} draws",
        )
    needed, most = len(before) + 2 * period, model.window
    if most is not None and needed > most:
        raise HeedfulError(
            f"two copies of {period} tokens are {needed} tokens with the first one",
            f"the model reads at most {most}",
            f"Use a period of at most {(most - len(before)) // 2}",
        )
