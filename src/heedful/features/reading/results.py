"""What features fire on, do and mean, as data. No torch, no model.

heedful.features.reading.read_features makes `Readings`, effects.py `Effects`, similar_features.py
`Neighbours`, and feature_pages.py puts them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr, StoredResult
from heedful.core.result_kinds import result_kind
from heedful.features.interpretation.results import Interpretation
from heedful.features.reading.examples import Snippet
from heedful.io.json_codec import to_jsonable


@dataclass(frozen=True)
class Quantile:
    """One part of a feature's activations, sorted and cut into parts of equal size."""

    low: float
    high: float
    examples: tuple[Snippet, ...]


@dataclass(frozen=True)
class Reading:
    """What one feature fired on."""

    feature: int
    fired: int  # tokens on which it is not zero
    tokens: int  # read
    top: tuple[Snippet, ...]  # from different windows, strongest first
    quantiles: tuple[Quantile, ...]  # weakest first
    sample: tuple[Snippet, ...]  # a uniform sample of its firings
    silent: tuple[Snippet, ...]  # a uniform sample of places where it is zero
    counts: tuple[int, ...]  # histogram of the activations that are not zero
    edges: tuple[float, ...]

    @property
    def rate(self) -> float:
        return self.fired / self.tokens if self.tokens else 0.0

    @property
    def greatest(self) -> float:
        return max((snippet.value for snippet in self.top), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        parts = [
            {"low": q.low, "high": q.high, "examples": [s.to_dict() for s in q.examples]}
            for q in self.quantiles
        ]
        return {
            "feature": self.feature,
            "fired": self.fired,
            "tokens": self.tokens,
            "rate": self.rate,
            "max": self.greatest,
            "histogram": {"counts": list(self.counts), "edges": list(self.edges)},
            "top": [s.to_dict() for s in self.top],
            "quantiles": parts,
        }


@dataclass(frozen=True)
class Readings(NotebookRepr):
    """Of several features, from one pass."""

    features: tuple[Reading, ...]
    site: str
    model: str
    texts: str
    chosen: str  # by which rule
    settings: dict[str, Any]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.features)

    def __iter__(self) -> Iterator[Reading]:
        return iter(self.features)

    def __getitem__(self, feature: int) -> Reading:
        for reading in self.features:
            if reading.feature == feature:
                return reading
        raise HeedfulError(f"feature {feature} was not read", fix="Name it when reading")


@dataclass(frozen=True)
class LogitEffect:
    """An output whose logit moves."""

    name: str
    change: float  # mean over windows
    error: float  # standard error over windows; nan for one


@dataclass(frozen=True)
class FeatureMean:
    """A mean over windows with its 95 % interval, beside the control's."""

    change: float
    interval: tuple[float, float]
    control: float
    control_interval: tuple[float, float]
    windows: int


@dataclass(frozen=True)
class Effects:
    """What the feature does; `outputs` says of what."""

    outputs: str  # "token", "label", or "" where the model has no such answer
    promoted: tuple[LogitEffect, ...] = ()
    suppressed: tuple[LogitEffect, ...] = ()
    ablation: FeatureMean | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


@dataclass(frozen=True)
class Neighbours:
    """The nearest features, nearest first."""

    features: tuple[int, ...]
    cosines: tuple[float, ...]
    chance: float  # mean greatest cosine of random directions with the same rows

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


@dataclass(frozen=True)
class Page(NotebookRepr):
    """One feature."""

    reading: Reading
    effects: Effects
    neighbours: Neighbours
    length: float  # of the decoder row
    interpretation: Interpretation | None = None
    own: tuple[Snippet, ...] = ()

    @property
    def feature(self) -> int:
        return self.reading.feature

    def to_dict(self) -> dict[str, Any]:
        result = self.interpretation
        return {
            **self.reading.to_dict(),
            "length": self.length,
            "effects": self.effects.to_dict(),
            "neighbours": self.neighbours.to_dict(),
            "own": [s.to_dict() for s in self.own],
            "interpretation": result.to_dict() if result else None,
        }


@result_kind("feature-pages", version=1)
@dataclass(frozen=True)
class FeaturePages(StoredResult):
    """Descriptions of features of an SAE: the result of `heedful.feature_pages`.

    Parameters
    ----------
    pages
        One page per feature.
    readings
        How the features were chosen, and the texts on which they are active.
    facts
        Facts about the SAE.

    Examples
    --------
    >>> import heedful
    >>> sae = heedful.SAE.load("zoo:lm")
    >>> texts = ["The king is dead, long live the king."] * 3
    >>> pages = heedful.feature_pages("zoo:lm", sae, texts, [3])
    >>> pages.pages[0].feature
    3
    """

    kind: ClassVar[str] = "feature"

    pages: tuple[Page, ...]
    readings: Readings
    facts: dict[str, Any]  # of the autoencoder

    def __len__(self) -> int:
        return len(self.pages)

    def __iter__(self) -> Iterator[Page]:
        return iter(self.pages)

    def to_dict(self) -> dict[str, Any]:
        """Everything as a dictionary, ready for JSON."""
        r = self.readings
        return {
            "model": r.model,
            "site": r.site,
            "texts": r.texts,
            "chosen": r.chosen,
            "settings": r.settings,
            "notes": list(r.notes),
            "autoencoder": self.facts,
            "features": [p.to_dict() for p in self.pages],
        }

    def run_title(self) -> str:
        numbers = ", ".join(str(page.feature) for page in self.pages)
        return f"{self.readings.model}: features {numbers}"


@result_kind("feature", version=1)
@dataclass(frozen=True)
class SavedFeature(StoredResult):
    """One feature as the web page stores it, and what it was read on."""

    kind: ClassVar[str] = "saved_feature"

    model: str
    site: str
    width: int  # features of the SAE
    about: str
    feature: Page

    def run_title(self) -> str:
        return f"feature {self.feature.feature} of {self.model}"
