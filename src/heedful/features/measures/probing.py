"""k-sparse probing: can a label be read from a few features?

    z = mean over a text's tokens of a_i ||W_dec,i||,   the k features with the largest
    max_c |mean(z | c) - mean(z | not c)| on one half of the texts, a logistic regression on these,
    accuracy on the other half; then the halves change places (cross-fitting: no text judges what it chose)

Beside it, from the same halves: k random features that fire, the k best coordinates of the raw activations,
all raw coordinates (what is there to be read), and the most frequent label. Intervals: 95 %, texts drawn
with repetition.
Cost: one pass a text up to the site; small regressions. Gurnee et al. 2023; k = 1, 2, 5 as in SAEBench.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.evidence import MeasuredValue
from heedful.core.model import Loadable
from heedful.core.result import NotebookRepr
from heedful.features.activations.eval_windows import activations, corpus, site_of
from heedful.features.measures.sparsity import ratio
from heedful.features.sae.autoencoder import SAE
from heedful.io.json_codec import to_jsonable
from heedful.io.labels import label_classes
from heedful.models.load import load_token_model

KS = (1, 2, 5)
RIDGE = 1e-2  # on standardised inputs, a text
RANDOM_DRAWS = 5  # draws of random features
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Probed(NotebookRepr):
    """Accuracies by k, with controls."""

    features: dict[int, MeasuredValue]
    controls: dict[str, dict[int, MeasuredValue]]  # random features, raw coordinates: by k
    whole: dict[str, MeasuredValue]  # all raw coordinates, the most frequent label
    chosen: dict[int, list[list[int]]]  # k -> the features each half chose
    labels: tuple[str, ...]
    texts: int
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        shown = {**vars(self), "controls": {**self.controls, **self.whole}}
        del shown["whole"]
        return dict(to_jsonable(shown))


def probe(
    sae: SAE,
    model: Loadable,
    texts: Iterable[str] | str | Path,
    labels: Iterable[Any] | None = None,
    *,
    site: str | None = None,
    ks: Sequence[int] = KS,
    seed: int = 0,
    **reading: Any,
) -> Probed:
    """Probe a dictionary with labelled texts; of a file, name the label_column."""

    loaded = load_token_model(model)
    if labels is None and not reading.get("label_column"):
        raise HeedfulError("probing needs labels", fix="Give labels=[...] or label_column='label'")
    windows_read = corpus(loaded, texts, labels=labels, **reading)
    where = site_of(sae, site)
    lengths = sae.W_dec.detach().norm(dim=1)
    codes, raw = [], []
    for batch, observed in activations(loaded, windows_read, [where]):
        with torch.no_grad():
            for x, keep in zip(observed[where], batch.keep, strict=True):
                raw.append(x[keep].double().mean(0).numpy())
                codes.append((sae.encode(x[keep]) * lengths).double().mean(0).numpy())
    return probed(np.array(codes), np.array(raw), windows_read.labels or (), ks, seed, windows_read.notes)


def probed(
    codes: Floats,
    raw: Floats,
    labels: Sequence[Any],
    ks: Sequence[int],
    seed: int,
    notes: tuple[str, ...] = (),
) -> Probed:
    """codes (n, F), raw (n, d), one label per row; they need not be labels of the model."""
    names, numbers = label_classes(labels)
    y = np.array(numbers)
    halves = halved(y, seed)
    if len(names) < 2 or min(np.bincount(y)) < 2:
        raise HeedfulError("probing needs two labels, each on two texts or more", f"there are {names}")
    rng = np.random.default_rng(seed)
    alive = np.flatnonzero(codes.any(0))
    features, random, coordinates, chosen = {}, {}, {}, {}
    for k in ks:
        right, picks = _crossed(codes, y, halves, lambda z, t, k=k: best(z, t, k))
        features[k], chosen[k] = _share(right, seed), picks
        draws = [
            _crossed(codes, y, halves, lambda z, t, k=k: rng.permutation(alive)[:k])[0]
            for _ in range(RANDOM_DRAWS)
        ]
        random[k] = _share(np.mean(draws, axis=0), seed)
        coordinates[k] = _share(_crossed(raw, y, halves, lambda z, t, k=k: best(z, t, k))[0], seed)
    every = _crossed(raw, y, halves, lambda z, t: np.arange(z.shape[1]))[0]
    whole = {
        "all raw coordinates": _share(every, seed),
        "most frequent label": _share(_majority(y, halves), seed),
    }
    controls = {"random features": random, "raw coordinates": coordinates}
    return Probed(
        features=features,
        controls=controls,
        whole=whole,
        chosen=chosen,
        labels=names,
        texts=len(y),
        notes=notes,
    )


def halved(y: Ints, seed: int) -> Any:
    """(n,) bool: one half, with as many of each label as the other, up to one."""
    rng, half, extra = np.random.default_rng(seed), np.zeros(len(y), bool), 0
    for label in np.unique(y):
        where = rng.permutation(np.flatnonzero(y == label))
        half[where[: (len(where) + extra) // 2]] = True
        extra = (extra + len(where)) % 2  # odd ones go to this half and the other in turn
    return half


def best(z: Floats, y: Ints, k: int) -> Ints:
    """The k columns of (n, F) whose means differ most between one label and the others."""
    differences = [np.abs(z[y == c].mean(0) - z[y != c].mean(0)) for c in np.unique(y)]
    return np.argsort(-np.max(differences, axis=0), kind="stable")[:k]


def _crossed(z: Floats, y: Ints, half: Any, choose: Any) -> tuple[Floats, list[list[int]]]:
    """(n,) whether each text's label is told by what the other half chose and fitted."""
    right, picks = np.zeros(len(y)), []
    for train in (half, ~half):
        columns = choose(z[train], y[train])
        picks.append([int(column) for column in columns])
        result = fit(z[train][:, columns], y[train], int(y.max()) + 1)
        right[~train] = result(z[~train][:, columns]) == y[~train]
    return right, picks


def _majority(y: Ints, half: Any) -> Floats:
    right = np.zeros(len(y))
    for train in (half, ~half):
        right[~train] = y[~train] == np.bincount(y[train]).argmax()
    return right


def _share(right: Floats, seed: int) -> MeasuredValue:
    return ratio(right, np.ones(len(right)), seed)


def fit(x: Floats, y: Ints, classes: int) -> Any:
    """Multinomial logistic regression with a ridge on standardised columns; returns inputs -> labels."""
    mean, scale = x.mean(0), x.std(0)
    scale = np.where(scale > 1e-12 * (1 + np.abs(mean)), scale, 1.0)
    z, n, k = (x - mean) / scale, len(x), x.shape[1]
    true = np.eye(classes)[y]  # (n, C)

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(k + 1, classes)
        logs = log_softmax(z @ weights[:-1] + weights[-1], axis=1)
        slope = (np.exp(logs) - true) / n
        value = -(true * logs).sum() / n + RIDGE / 2 * np.square(weights[:-1]).sum()
        return value, np.concatenate([z.T @ slope + RIDGE * weights[:-1], slope.sum(0)[None]]).ravel()

    values = minimize(loss, np.zeros((k + 1) * classes), jac=True, method="L-BFGS-B")
    weights = values.x.reshape(k + 1, classes)
    return lambda new: ((new - mean) / scale @ weights[:-1] + weights[-1]).argmax(1)
