"""Remove and retrain, on pictures: does a network trained without the places that a map ranks first still
know the class?

    for every share, method and seed: the best share of the units of each picture, of train AND test, by that
    picture's own scores, is replaced; a network is trained from scratch; right answers are counted

    mean      the mean colour of the picture itself, per channel
    linear    each removed place is the weighted mean of its neighbours, plus noise (ROAD's imputation)

Units are ranked by the size of their scores: what is asked is whether the information is gone, whichever way
it pointed. Beside the methods stand random scores, edges (Sobel), and the smoothed control: the scores of
each method smoothed over neighbours, and random scores smoothed likewise, because smoothing alone makes
removal more effective (heedful.modalities.neighbours).

The rest (intervals, leakage, words) is heedful.retraining.roar's.
Cost: 2 * methods * shares * seeds trainings; half of it with leakage=False.
Hooker et al. 2019; Adebayo et al. 2018 (edges); Rong et al. 2022; Song et al. 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.defaults import CONTROL
from heedful.core.errors import HeedfulError
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.explainers.picture_controls import edge_strength
from heedful.modalities.image import ImageInput
from heedful.modalities.image_operators import IMPUTED_NOISE, imputed
from heedful.modalities.neighbours import SMOOTHED, smoothed
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader
from heedful.retraining.impute import Imputer
from heedful.retraining.retrain import Fit, like, trainer
from heedful.retraining.roar import RoarSettings, Scores, TokenSplit, roar
from heedful.retraining.roar_stats import Roar
from heedful.stats.linear_imputation import Gone

Pictures = tuple[Sequence[Any], Sequence[int]]  # pictures, labels
IMPUTERS = ("mean", "linear")
EDGES = "edges"


def roar_pictures(
    model: ImageModel,
    train: Pictures,
    test: Pictures,
    methods: Sequence[str],
    settings: RoarSettings | None = None,
    *,
    imputer: str = "mean",
    fit: Fit | None = None,
    smooth: Sequence[str] = (CONTROL,),
    **explaining: Any,
) -> Roar:
    """Explain every picture's prediction with a loaded classifier, then remove and retrain.

    Parameters
    ----------
    model
        The classifier that is explained.
    train, test
        Pictures and their labels.
    methods
        Names of methods. Random scores and edges are added.
    settings
        Shares, seeds, and whether the bare pattern of removal is tried too.
    imputer
        "mean" (the mean colour of each picture) or "linear" (filled in from the places around it).
    fit
        (pictures (n, 3, H, W) as the module reads them, labels, seed) -> predict. If `None`, a network of the
        same class and configuration is trained as heedful.retraining.retrain does. A module without a
        configuration needs `trainer(build)` with `build(seed)` a fresh module.
    smooth
        Methods whose scores are also tried smoothed; "random" gives a smoothed random map.
    explaining
        Of `explained_pictures`: `unit`, what is ranked and removed ("pixel", "patch", "grid:7"), and
        `params`, parameters by method.

    Returns
    -------
    Roar
        Accuracy by share and method, with intervals. `str()` says what follows.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from heedful.models.image_reader import ImageReader
    >>> from heedful.nn.train import TrainConfig
    >>> from heedful.retraining.retrain import trainer
    >>> def build(seed):
    ...     torch.manual_seed(seed)
    ...     return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 2))
    >>> model = ImageModel(build(0), ImageReader((8, 8)))
    >>> rng = np.random.default_rng(0)
    >>> data = list(rng.integers(0, 256, (12, 8, 8, 3)).astype(np.uint8)), [0, 1] * 6
    >>> quick = RoarSettings(shares=(0.5,), seeds=2, leakage=False)
    >>> fit = trainer(build, TrainConfig(steps=2, batch=4, progress=False))
    >>> found = roar_pictures(model, data, data, ["grad-l2"], quick, fit=fit)
    >>> sorted(curve.method for curve in found.curves)
    ['edges', 'grad-l2', 'random', 'random, smoothed']
    """
    settings = settings or RoarSettings()
    names = [*dict.fromkeys([*methods, *(name for name in smooth if name != CONTROL)])]
    explaining = {"seed": settings.seed, **explaining}
    of_train, of_test = (explained_pictures(model, given[0], names, **explaining) for given in (train, test))
    retrain = trainer(like(model.module)) if fit is None else fit
    filler = picture_imputer(imputer, model.reader)
    return roar_explained(of_train, of_test, (train[1], test[1]), retrain, filler, settings, smooth)


def roar_explained(
    train: ExplainedPictures,
    test: ExplainedPictures,
    labels: tuple[Sequence[int], Sequence[int]],
    fit: Fit,
    imputer: Imputer,
    settings: RoarSettings | None = None,
    smooth: Sequence[str] = (CONTROL,),
) -> Roar:
    """Remove and retrain, with scores that are already there: one explanation serves several imputers."""
    settings = settings or RoarSettings()
    scores: dict[str, Scores] = {name: (train.scores[name], test.scores[name]) for name in train.scores}
    for name in smooth:
        scores[name + SMOOTHED] = train.smoothed(name, settings.seed), test.smoothed(name, settings.seed)
    found = roar(train.split(labels[0]), test.split(labels[1]), scores, fit, imputer, settings)
    return replace(found, what="picture", part=train.pictures[0].unit_noun(train.unit))


class ExplainedPictures:
    """Pictures as the model sees them, and the size of each method's scores by unit."""

    def __init__(self, pictures: list[ImageInput], unit: str, scores: dict[str, list[Floats]]) -> None:
        self.pictures, self.unit, self.scores = pictures, unit, scores

    def split(self, labels: Sequence[int]) -> TokenSplit:
        """What `roar` removes from: the colours, one place after the other."""
        groups: dict[bytes, list[list[int]]] = {}  # most pictures are cut alike, and lists are large
        units = []
        for x in self.pictures:
            own = x.units(self.unit)
            units.append(groups.setdefault(own.owner.tobytes(), list(own)))
        tokens: Any = tuple(_Colours(x.pixels / np.float32(255)) for x in self.pictures)
        return TokenSplit(tokens, tuple(int(label) for label in labels), tuple(units))

    def smoothed(self, name: str, seed: int) -> list[Floats]:
        """The scores of a method, or random scores, smoothed over neighbours."""
        rng = np.random.default_rng([seed, len(self.pictures)])
        drawn = (rng.random(len(x.units(self.unit))) for x in self.pictures)
        each = drawn if name == CONTROL else self.scores[name]
        return [smoothed(x, own, self.unit) for x, own in zip(self.pictures, each, strict=True)]


class _Colours:
    """(H, W, 3) colours that count their places, and remember how they were filled in last: seeds that remove
    the same places differ in the noise alone."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self._last: tuple[bytes, Any] = b"", None

    def filled(self, gone: Gone) -> Any:
        """(H, W, 3) with removed places filled in from those around them, without noise."""
        if self._last[0] != (key := gone.tobytes()):
            out = gone.reshape(self.values.shape[:2])
            self._last = key, imputed(self.values.astype(np.float64), out)
        return self._last[1]

    def __len__(self) -> int:
        return int(self.values.shape[0] * self.values.shape[1])


def explained_pictures(
    model: ImageModel,
    pictures: Sequence[Any],
    methods: Sequence[str],
    *,
    unit: str = "pixel",
    seed: int = 0,
    params: Mapping[str, Mapping[str, Any]] | None = None,
) -> ExplainedPictures:
    """Each method's scores of the prediction, by size, and edges beside them."""
    from heedful.core import registry

    results: dict[str, list[Floats]] = {name: [] for name in (*methods, EDGES)}
    read = []
    for raw in pictures:
        x = model.encode(raw)
        session, target = Session(model), model.target(x)
        for name in methods:
            entry = registry.get(name)
            known = {"seed": seed, **(params or {}).get(name, {})}
            own = {key: value for key, value in known.items() if key in entry.params}
            results[name].append(np.abs(run_explainer(entry, session, x, target, **own).unit_scores(unit)))
        if EDGES not in methods:
            results[EDGES].append(x.units(unit).sums(edge_strength(x.pixels).ravel()))
        read.append(x)
    return ExplainedPictures(read, unit, results)


def picture_imputer(name: str, reader: ImageReader) -> Imputer:
    """One of IMPUTERS; what it returns is (3, H, W), as the network reads it."""
    if name not in IMPUTERS:
        raise HeedfulError(f"unknown imputer {name!r}", fix=f"Use one of: {', '.join(IMPUTERS)}")
    shift, scale = (np.array(part, dtype=np.float32) for part in (reader.mean, reader.std))

    def ready(colours: Any) -> Any:
        return np.ascontiguousarray(((colours - shift) / scale).transpose(2, 0, 1), dtype=np.float32)

    def fill(own: Any, gone: Gone, rng: np.random.Generator) -> Any:
        colours = own.values
        out = gone.reshape(colours.shape[:2])
        if name == "mean":
            return ready(np.where(out[..., None], colours.mean((0, 1)), colours))
        noise = IMPUTED_NOISE * rng.standard_normal(colours.shape) * out[..., None]
        return ready(np.clip(own.filled(gone) + noise, 0, 1))

    def pattern(gone: Gone) -> Any:
        height, width = reader.size or (len(gone), 1)
        return ready(np.repeat(gone.reshape(height, width, 1), 3, axis=2).astype(np.float32))

    return Imputer("mean colour" if name == "mean" else "noisy linear", fill, pattern)
