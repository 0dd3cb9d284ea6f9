"""What a head does, by measured rules.

Every rule names the keys a query would look at, and scores a head by how much more of its attention goes
there than a head that looks everywhere alike would send:

    score = sum_q (m_q - c_q) / sum_q (1 - c_q)      m_q  the query's attention on the keys the rule names
                                                     c_q  the share of those keys among all it may look at
0 is what looking everywhere alike gives (the control), 1 is everything, below 0 is avoidance.

    previous, next, self      the neighbour to the left, to the right, the query itself
    first                     the first position ([CLS], the start token, or whatever stands there)
    delimiter                 special tokens but the first: [SEP], the end token, a chat template's marks
    period                    full stops and commas
    vertical                  one other column: the one that scores best
    block                     the query's own part of a pair or turn of a chat (two or more of them)
    broad                     mean entropy of the rows over that of rows that look everywhere alike, 1 at most

A query counts when it is no special token and has a choice (under a causal mask the first has none); for the
rules that name columns, a query that is itself such a column looks at others only. A rule that fewer than a
quarter of the queries could follow is not scored at all, nor are rules that compare places where queries and
keys are different texts (cross-attention, a pooling query).

The kind is the best of the seven pointed rules that reaches MIN_POINTED; else block, if it reaches MIN_BLOCK
and its rows are spread (MIN_BLOCK_ENTROPY of the greatest entropy); else broad, if it reaches
MIN_BROAD_ENTROPY; else heterogeneous. Block stands back because a head that looks at neighbours stays in
their part of the text, too. Rules that name the
same keys score the same (a text of one word: what is before it is the first): the kind is then the one that
stands first in TIES, columns before places. With fewer than MIN_WORDS words kinds mean little.

Of a picture, whose positions are patches in rows and columns, the rules are others (heads.patch_rules):
class-token, register, self, local, row, column and sink, in this order where scores are equal.

Cost: a few products a map. Needs nothing but the maps.

Clark et al., What Does BERT Look At?, 2019; Kovaleva et al., Revealing the Dark Secrets of BERT, EMNLP 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.heads.maps import Flags, MapAxis, Maps
from heedful.heads.patch_rules import PATCH_RULES, patch_keys
from heedful.heads.word_maps import asked, reachable
from heedful.stats.intervals import bootstrap, percentile_interval

RULES = ("previous", "next", "self", "first", "delimiter", "period", "vertical")  # the pointed ones
TIES = (  # of equal ones, the former
    *("first", "delimiter", "period", "class-token", "register", "self", "previous", "next"),
    *("local", "row", "column", "vertical", "sink"),
)
TIE_DECIMALS = 9  # decimals in which equal scores agree
MIN_WORDS = 3  # words; on fewer, several rules name the same keys
SCORES = (*RULES, "block", "broad")
KINDS = (*SCORES, "heterogeneous")
PATCH_SCORES = (*PATCH_RULES, "broad")
PATCH_KINDS = (*PATCH_SCORES, "heterogeneous")
EVERY_SCORE = tuple(dict.fromkeys((*SCORES, *PATCH_SCORES)))
MIN_POINTED = 0.5  # at least half of what a uniform head sends elsewhere goes where the rule says
MIN_BLOCK = 0.5
# entropy that a block head has at least, of that of uniform rows: else it is after something
MIN_BLOCK_ENTROPY = 0.5
# of the entropy of uniform rows; one of two equal segments looked at alike has 0.89 at 512
MIN_BROAD_ENTROPY = 0.9
MIN_FOLLOWER_SHARE = 0.25  # of the queries, that must be able to follow a rule
STOPS = frozenset([".", ",", "。", "，", "、", "．", "،", "۔", "।"])


@dataclass(frozen=True)
class HeadKind(NotebookRepr):
    """What one head does. Over several texts, scores are means and have intervals."""

    layer: int
    head: int
    kind: str
    scores: Mapping[str, float]  # rule -> score; rules that do not apply to the text are not there
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # 95 %, over texts
    texts: int = 1
    stable: float | None = None  # share of redrawn sets of texts in which the kind is the same

    def to_dict(self) -> dict[str, Any]:
        results: dict[str, Any] = {
            "layer": self.layer,
            "head": self.head,
            "kind": self.kind,
            "scores": dict(self.scores),
        }
        if self.texts > 1:
            intervals = {name: list(ends) for name, ends in self.intervals.items()}
            results |= {"intervals": intervals, "texts": self.texts, "stable": self.stable}
        return results


@runtime_checkable
class HasStacks(Protocol):
    """An atlas."""

    def stack(self, name: str) -> Maps: ...


# --- scores ---------------------------------------------------------------------------------------------


def scores(maps: Maps) -> dict[str, Floats]:
    """Rule -> (L, H); only the rules that apply to this text, NaN where one does not apply to a layer."""
    allowed = reachable(maps)
    if maps.allowed is None:
        return _scores(maps, allowed[0])
    each = [
        _scores(replace(maps, weights=maps.weights[[n]], grads=None, allowed=None), allowed[n])
        for n in range(maps.layers)
    ]
    blank = np.full((1, maps.heads), np.nan)
    return {
        name: np.concatenate([result.get(name, blank) for result in each])
        for name in EVERY_SCORE
        if any(name in result for result in each)
    }


def _scores(maps: Maps, allowed: Flags) -> dict[str, Floats]:
    """Rule -> (L, H) of layers that may look at the same keys, (Q, K)."""
    rows = np.zeros(len(maps.queries), dtype=bool)
    rows[asked(maps.queries)] = True
    rows &= allowed.sum(1) > 1
    if not rows.any():
        return {}
    results = {
        name: score
        for name, keys in named_keys(maps).items()
        if (score := _mass_score(maps, keys & allowed, allowed, rows)) is not None
    }
    if (vertical := _vertical(maps, allowed, rows)) is not None:
        results["sink" if any(maps.grid) else "vertical"] = vertical
    results["broad"] = _broad(maps, allowed, rows)
    return {name: results[name] for name in EVERY_SCORE if name in results}


def named_keys(maps: Maps) -> dict[str, Flags]:
    """Rule -> (Q, K): the keys each query would look at."""
    if any(maps.grid):
        return patch_keys(maps)
    size, special = len(maps.keys), np.array(maps.keys.special)
    first = np.arange(size) == 0
    columns = {"first": first, "delimiter": special & ~first, "period": _stops(maps.keys) & ~special}
    flags = {name: np.tile(keys, (len(maps.queries), 1)) & ~_own(maps) for name, keys in columns.items()}
    if not _same_places(maps):
        return flags
    flags |= {"previous": np.eye(size, k=-1, dtype=bool), "next": np.eye(size, k=1, dtype=bool)}
    flags["self"] = np.eye(size, dtype=bool)
    parts = np.array(maps.keys.segments)
    if len(set(maps.keys.segments) - {-1}) > 1:
        flags["block"] = (parts[:, None] == parts) & (parts >= 0)
    return flags


def _same_places(maps: Maps) -> bool:
    """Whether queries and keys are the same tokens."""
    return maps.stack != "cross" and len(maps.queries) == len(maps.keys)


def _own(maps: Maps) -> Flags:
    """(Q, K): a query's own place, where it has one among the keys."""
    own = np.eye(len(maps.queries), len(maps.keys), dtype=bool)
    return own if _same_places(maps) else np.zeros_like(own)


def _stops(side: MapAxis) -> Flags:
    return np.array([label in STOPS for label in side.labels])


def _mass_score(maps: Maps, keys: Flags, allowed: Flags, rows: Flags) -> Floats | None:
    """(L, H), or None where too few queries could follow."""
    control = keys.sum(1) / allowed.sum(1)  # (Q,)
    rows = rows & (control > 0)
    if not _enough(rows.sum(), maps, allowed):
        return None
    left = float((1 - control[rows]).sum())
    if left <= 0:
        return None
    mass = np.einsum("lhqk,qk->lh", maps.weights[:, :, rows], keys[rows].astype(np.float32), dtype=np.float64)
    return np.asarray((mass - control[rows].sum()) / left)


def _enough(followers: npt.ArrayLike, maps: Maps, allowed: Flags) -> Flags:
    """Whether so many queries (a number, or one a column) are enough to speak of a rule."""
    total = (allowed.sum(1) > 1)[asked(maps.queries)].sum()
    return np.asarray((np.asarray(followers) > 0) & (np.asarray(followers) >= MIN_FOLLOWER_SHARE * total))


def _vertical(maps: Maps, allowed: Flags, rows: Flags) -> Floats | None:
    """(L, H): the best single column that no other rule names."""
    others = ~(np.array(maps.keys.special) | _stops(maps.keys))
    others[0] = False
    counted = allowed & ~_own(maps) & rows[:, None] & others  # (Q, K)
    columns = np.flatnonzero(_enough(counted.sum(0), maps, allowed))
    if not len(columns):
        return None
    counted = counted[:, columns]
    control = (counted / allowed.sum(1, keepdims=True)).sum(0)  # (columns,)
    mass = np.einsum("lhqk,qk->lhk", maps.weights[..., columns], counted.astype(np.float32), dtype=np.float64)
    return np.asarray(((mass - control) / (counted.sum(0) - control)).max(-1))


def _broad(maps: Maps, allowed: Flags, rows: Flags) -> Floats:
    """(L, H): entropy over that of uniform rows; a layer at a time, for memory."""
    most = float(np.log(allowed[rows].sum(1)).sum())
    results = []
    for layer in maps.weights:
        p = layer[:, rows].astype(np.float64)  # (H, q, K)
        results.append(-(p * np.log(p, out=np.zeros_like(p), where=p > 0)).sum((1, 2)) / most)
    return np.stack(results)


# --- kinds ----------------------------------------------------------------------------------------------


def kind_of(found: Mapping[str, float]) -> str:
    """The kind that these scores of one head make it."""
    rules = [name for name in TIES if name in found]
    best = max(rules, key=lambda name: round(found[name], TIE_DECIMALS), default=None)  # the first of equals
    if best is not None and found[best] >= MIN_POINTED:
        return best
    spread = found.get("broad", 0.0)
    if found.get("block", -1.0) >= MIN_BLOCK and spread >= MIN_BLOCK_ENTROPY:
        return "block"
    return "broad" if spread >= MIN_BROAD_ENTROPY else "heterogeneous"


def kinds(maps: Maps) -> list[HeadKind]:
    """One a head, layer by layer."""
    result, blank = scores(maps), np.full((maps.layers, maps.heads), np.nan)
    table = np.stack([result.get(name, blank) for name in EVERY_SCORE])  # (rules, L, H)
    return [
        HeadKind(layer, head, kind_of(own), own)
        for layer in range(maps.layers)
        for head in range(maps.heads)
        for own in [_present(table[:, layer, head])]
    ]


def kinds_over(
    atlases: Sequence[HasStacks], stack: str = "self", seed: int = 0, draws: int = 1000
) -> list[HeadKind]:
    """Kinds over many texts: scores are means over the texts a rule applies to, with 95 % intervals.

    Intervals, and how often the kind stays the same, come from drawing the texts again with repetition.
    """
    table = _table([scores(atlas.stack(stack)) for atlas in atlases])  # (n, rules, L, H)
    n, _, layers, heads = table.shape
    means = _means(table, np.ones((1, n)))[0]
    redrawn = bootstrap(  # (draws, rules, L, H)
        lambda counts: _means(table, counts.astype(np.float64)), n, seed, draws, chunk=draws
    )
    return [
        _over(layer, head, means[:, layer, head], redrawn[:, :, layer, head], n)
        for layer in range(layers)
        for head in range(heads)
    ]


def _table(each: list[dict[str, Floats]]) -> Floats:
    """(n, rules, L, H), NaN where a rule does not apply."""
    sizes = {score.shape for result in each for score in result.values()}
    if len(sizes) != 1:
        raise HeedfulError(
            "kinds over texts need atlases of one model, with at least one word to look at",
            f"these have {len(sizes)} different sizes" if sizes else "none of these can be scored",
        )
    blank = np.full(sizes.pop(), np.nan)
    return np.stack([np.stack([result.get(name, blank) for name in EVERY_SCORE]) for result in each])


def _means(table: Floats, counts: Floats) -> Floats:
    """(B, rules, L, H): weighted means over texts, NaN where no text of the draw has the rule."""
    there = ~np.isnan(table)
    total = np.tensordot(counts, np.where(there, table, 0.0), 1)
    number = np.tensordot(counts, there.astype(np.float64), 1)
    return np.asarray(np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0))


def _over(layer: int, head: int, means: Floats, redrawn: Floats, n: int) -> HeadKind:
    own = _present(means)
    kind = kind_of(own)
    if n < 2:
        return HeadKind(layer, head, kind, own)
    columns = redrawn[:, ~np.isnan(means)].T  # (present, draws)
    intervals = {
        name: percentile_interval(column, finite_only=True) for name, column in zip(own, columns, strict=True)
    }
    same = float(np.mean([kind_of(_present(draw)) == kind for draw in redrawn]))
    return HeadKind(layer=layer, head=head, kind=kind, scores=own, intervals=intervals, texts=n, stable=same)


def _present(values: Floats) -> dict[str, float]:
    return {name: float(v) for name, v in zip(EVERY_SCORE, values, strict=True) if not np.isnan(v)}
