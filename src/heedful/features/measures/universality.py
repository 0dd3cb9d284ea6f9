"""Do two dictionaries find the same features? By what they do, not by their weights.

    best(i) = max_j corr(a_i, b_j) over the same tokens,    universality = median of best over features i

Beside it:
    back       the same from the second to the first: a small dictionary is easily found in a large one
    neurons    units of the model itself, one place (or model) against another: what comes for free
    random     two random dictionaries as wide and as sparse, on the same activations
    shuffled   the second's tokens in another order: the largest of many correlations that mean nothing

Pearson's correlation, from sums. Features that never fire, or always alike, have none: left out, counted.
Intervals: 95 % of the median, features drawn with repetition: how sure about these two, not other seeds.
Cost: one pass a model, and a product of F_a·F_b a token. Bricken et al. 2023: .72 for features of two seeds'
models, .46 for their neurons; Li et al. 2015 for neurons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.evidence import MeasuredValue
from heedful.core.progress import Report, counting
from heedful.core.result import NotebookRepr
from heedful.features.activations.eval_windows import Corpus, corpus, rows_at, site_of
from heedful.features.measures.recovery import random_dictionary
from heedful.features.sae.autoencoder import SAE
from heedful.io.json_codec import to_jsonable
from heedful.models.sites.access import site_names
from heedful.stats.intervals import bootstrap_median

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel


@dataclass(eq=False)
class Sums:
    """What correlations of (n, A) and (n, B) need, in float64, batch after batch."""

    n: int = 0
    a: Any = 0.0  # (A,)
    b: Any = 0.0  # (B,)
    aa: Any = 0.0  # (A,)
    bb: Any = 0.0  # (B,)
    ab: Any = 0.0  # (A, B)

    def add(self, a: Tensor, b: Tensor) -> None:
        x, y = a.double(), b.double()
        self.n += len(x)
        self.a, self.b = self.a + x.sum(0), self.b + y.sum(0)
        self.aa, self.bb = self.aa + x.square().sum(0), self.bb + y.square().sum(0)
        self.ab = self.ab + x.T @ y

    def correlations(self) -> Tensor:
        """(A, B); nan where one of the two does not vary."""
        top = self.ab - torch.outer(self.a, self.b) / self.n
        spread = [
            torch.where(s > 1e-12 * squares, s, torch.nan).sqrt()
            for squares, s in (
                (self.aa, self.aa - self.a**2 / self.n),
                (self.bb, self.bb - self.b**2 / self.n),
            )
        ]
        tensor: Tensor = (top / torch.outer(*spread)).clamp(-1, 1)
        return tensor


@dataclass(frozen=True, eq=False)
class Likeness:
    """The best partner of each feature."""

    best: Floats  # (A,) nan: no correlation is defined
    partner: Any  # (A,) int; -1: none

    @property
    def silent(self) -> int:
        return int(np.isnan(self.best).sum())

    def median(self, seed: int) -> MeasuredValue:
        known = self.best[np.isfinite(self.best)]
        if not len(known):
            return MeasuredValue(float("nan"))
        return MeasuredValue(float(np.median(known)), *bootstrap_median(known, seed))


def likeness(correlations: Tensor) -> Likeness:
    """Of (A, B): each row's largest."""
    filled = torch.nan_to_num(correlations, nan=-2.0)
    best, partner = filled.max(1)
    none = best < -1.5
    return Likeness(best.masked_fill(none, torch.nan).numpy(), partner.masked_fill(none, -1).numpy())


@dataclass(frozen=True, eq=False)
class Universality(NotebookRepr):
    """How similar the features of two SAEs are: medians of the best correlations, with intervals."""

    figures: dict[str, MeasuredValue]  # features, back, neurons, random, shuffled
    features: Likeness
    about: dict[str, Any]
    notes: tuple[str, ...] = ()
    neurons: Likeness | None = None  # of the units beside, if there are any

    def to_dict(self) -> dict[str, Any]:
        return {
            "about": to_jsonable(self.about),
            "median of the best correlation": to_jsonable(self.figures),
            "best": to_jsonable(self.features.best),
            "partner": to_jsonable(self.features.partner),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False)
class ModelSAE:
    """An SAE and the model whose activations it reads."""

    sae: SAE
    model: TokenModel
    site: str | None = None  # None: where it was trained


def compare(
    a: ModelSAE,
    b: ModelSAE,
    texts: Iterable[str] | str | Path | Corpus,
    *,
    neurons: tuple[str, str] | None = None,
    seed: int = 0,
    progress: Report | None = None,
    **reading: Any,
) -> Universality:
    """Compare where the features of two SAEs are active. The SAEs may belong to one model, or to two models
    with the same tokens.

    neurons  two places whose units are compared beside; default: the MLP's neurons of the two models, or of
             the features' block and the one beside it, if there is one model
    """
    from heedful.models.load import load_token_model

    first = load_token_model(a.model)
    second = first if b.model == a.model else load_token_model(b.model)
    result = texts if isinstance(texts, Corpus) else corpus(first, texts, **reading)
    if second is not first:
        _same_tokens(first, second)
    places = site_of(a.sae, a.site), site_of(b.sae, b.site)
    units = neurons or _neurons(first, second, places)
    run = _Run(a.sae, b.sae, seed)
    wanted = (places[0], *units[:1]), (places[1], *units[1:])
    done = 0
    for x, y in _both(first, second, result, wanted):
        run.add(x, y)
        done += len(x[0])
        counting(progress, "comparing")(done, result.tokens)
    about = {"models": [first.name, second.name], "sites": list(places), "tokens": result.tokens}
    about |= {"neurons": list(units), "widths": [a.sae.config.width, b.sae.config.width], "seed": seed}
    return run.result(about, result.notes)


def _both(
    first: Any, second: Any, found: Corpus, wanted: tuple[tuple[str, ...], tuple[str, ...]]
) -> Iterator[tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
    """Rows of the sites of each side, batch by batch; one model is run once for both."""
    one, two = wanted
    if second is first:
        for rows in rows_at(first, found, [*one, *two]):
            yield rows[: len(one)], rows[len(one) :]
    else:
        yield from zip(rows_at(first, found, one), rows_at(second, found, two), strict=True)


class _Run:
    """All comparisons, batch by batch."""

    def __init__(self, a: SAE, b: SAE, seed: int) -> None:
        self.a, self.b, self.seed = a, b, seed
        self.sums = {name: Sums() for name in ("features", "shuffled", "random", "neurons")}
        self.draw = torch.Generator().manual_seed(seed)
        self.random: tuple[SAE, SAE] | None = None

    def add(self, x: tuple[Tensor, ...], y: tuple[Tensor, ...]) -> None:
        """(activations of the site, units) of both sides, the same tokens."""
        with torch.no_grad():
            if self.random is None:
                self.random = (
                    random_dictionary(self.a, x[0], self.seed),
                    random_dictionary(self.b, y[0], self.seed + 1),
                )
            one, two = self.a.encode(x[0]), self.b.encode(y[0])
            self.sums["features"].add(one, two)
            self.sums["shuffled"].add(one, two[torch.randperm(len(two), generator=self.draw)])
            self.sums["random"].add(self.random[0].encode(x[0]), self.random[1].encode(y[0]))
            if len(x) > 1:
                self.sums["neurons"].add(x[1], y[1])

    def result(self, about: dict[str, Any], notes: tuple[str, ...]) -> Universality:
        results = {name: sums.correlations() for name, sums in self.sums.items() if sums.n}
        best = {name: likeness(values) for name, values in results.items()}
        back = likeness(results["features"].T)
        order = {"features": best.pop("features"), "back": back} | best
        figures = {name: one.median(self.seed) for name, one in order.items()}
        features = order["features"]
        if features.silent:
            notes = (*notes, f"{features.silent} features of the first never vary on these tokens: left out")
        if "neurons" not in figures:
            notes = (*notes, "no neurons beside: name two places, neurons=('blocks.0.mlp', 'blocks.1.mlp')")
        return Universality(figures, features, about, notes, best.get("neurons"))


def _neurons(first: Any, second: Any, places: tuple[str, str]) -> tuple[str, ...]:
    """Neurons of the two blocks; of one model and block, those of the block beside; () if there are none."""
    names = [name for name in site_names(first) if name.endswith(".neurons")]
    others = [name for name in site_names(second) if name.endswith(".neurons")]
    if not names or not others:
        return ()
    one = places[0].rsplit(".", 1)[0] + ".neurons"
    two = places[1].rsplit(".", 1)[0] + ".neurons"
    one = one if one in names else names[0]
    two = two if two in others else others[0]
    if first is second and one == two:
        at = names.index(one)
        beside = names[at + 1 : at + 2] or names[at - 1 : at]
        return (one, *beside) if beside else ()
    return one, two


def _same_tokens(first: TokenModel, second: TokenModel) -> None:
    probe = "The two must read the same tokens: naïve, 1984!"
    ids = [model.token_ids(probe, special=True) for model in (first, second)]
    if list(ids[0]) != list(ids[1]):
        raise HeedfulError(
            f"{first.name} and {second.name} cut texts into different tokens",
            "activations are compared token by token",
            "Compare models with one tokenizer",
        )
