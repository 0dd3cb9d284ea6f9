"""What removing words did, where the model looked, which features were active."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from heedful.core.result import NotebookRepr


@dataclass(frozen=True)
class Removal:
    """What the model did when units were really removed by one operator; nan where that row was never run."""

    operator: str
    leave_one_out: tuple[float, ...]  # f(x) - f(x less the unit), a unit each
    curves: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)  # (share gone, f)
    band: tuple[tuple[float, float, float], ...] = ()  # of random orders: (share gone, least f, most f)
    insertions: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)  # (share kept, f)
    insertion_band: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class AttentionSummary:
    """Where each layer looked from where the answer was read, mean over heads."""

    weights: tuple[tuple[float, ...], ...]  # (layers, units)
    special: tuple[float, ...]  # (layers,) on special tokens
    cross: bool = False  # of an encoder-decoder: from what it writes to what it reads

    def __post_init__(self) -> None:
        if not all(self.weights) or len({len(row) for row in self.weights}) != 1:
            raise ValueError("the attention of the layers is empty, or not of one length")


@dataclass(frozen=True)
class FeatureEffect:
    """One feature of an SAE on this text."""

    feature: int
    effect: float  # f(x) - f(x with it set to zero), measured
    estimate: float  # of the effect, by gradient times activation
    strength: float
    words: tuple[str, ...]  # where it is strongest
    name: str = ""  # what it is said to be active on, where the SAE has explanations


@dataclass(frozen=True)
class ActiveFeatures(NotebookRepr):
    """The strongest features of an SAE on this text."""

    site: str
    features: tuple[FeatureEffect, ...]
    active: int  # features that fire anywhere in the text
    together: float  # effect of removing these at once
    everything: float  # effect of removing all
    band: tuple[float, float]  # 95 % of as many random active features, removed at once, lie between
    control: tuple[float, ...]  # effects of other active features, drawn at random
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Internals(NotebookRepr):
    """What a run saw besides scores; see heedful.comparisons.internals."""

    removals: tuple[Removal, ...] = ()
    attention: AttentionSummary | None = None
    features: ActiveFeatures | None = None
