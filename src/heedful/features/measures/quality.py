"""How good a dictionary is, on the model it was trained for. No single number tells; here are the usual ones.

    l0                 mean number of latents above zero a token
    explained          1 - E||x - x̂||² / E||x - E x||²
    dead, dense        share of latents that never fire on these tokens; that fire on more than 10 % of them
    activation         mean of a_i ||W_dec,i|| over what is active: a length in the model's space
    size               E sum_i a_i ||W_dec,i|| / E||x||: decoder-norm-weighted activations beside the input
    recovered (zero)   (CE_zero - CE_sae) / (CE_zero - CE_clean): activations set to zero as the worst
    recovered (mean)   the same with activations set to their mean over these tokens, a harder standard

CE is the mean of -log p(next token) of causal language models; of classifiers, of -log p(label), or of the
model's own answer where no labels are given. Positions that are changed, and looked at, are those of the
text: special tokens stay as they are, dictionaries are not trained on them.

Controls: identity (activations put back as they were: 1), the mean alone (0 by definition for "mean", telling
for "zero"), and a random dictionary as wide and as sparse. Intervals: 95 %, windows drawn with repetition;
`dead` has none, it is a count that falls with more tokens. Noise of the seed: `measure_seeds`.
Cost: six passes over the texts, and two of the dictionary. Bricken et al. 2023; Templeton et al. 2024.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.core.evidence import MeasuredValue
from heedful.core.model import Loadable
from heedful.core.progress import Report
from heedful.core.result import NotebookRepr
from heedful.features.activations.eval_windows import Corpus, corpus, site_of
from heedful.features.measures.loss_recovered import MEASURED, edits_of, losses_of
from heedful.features.measures.recovery import random_dictionary
from heedful.features.measures.sparsity import DENSE_SHARE, counted
from heedful.features.sae.autoencoder import SAE
from heedful.io.json_codec import to_jsonable
from heedful.models.adapter import TokenModel
from heedful.models.load import load_token_model
from heedful.models.sites.access import width


@dataclass(frozen=True, eq=False)
class Measured(NotebookRepr):
    """The measurements of one SAE."""

    figures: dict[str, MeasuredValue]
    controls: dict[str, dict[str, float]]  # identity, mean, random dictionary -> the same figures
    loss: dict[str, float]  # mean CE, nats: clean, sae, zero, mean, random dictionary
    about: dict[str, Any]  # model, site, tokens, windows, what CE is of
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> float:
        return self.figures[name].value

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


def measure(
    sae: SAE,
    model: Loadable,
    texts: Iterable[str] | str | Path | Corpus,
    *,
    site: str | None = None,
    labels: Iterable[Any] | None = None,
    seed: int = 0,
    progress: Report | None = None,
    **reading: Any,
) -> Measured:
    """Measure the quality of an SAE. Use texts that it was not trained on, if possible.

    site     default: where it was trained
    labels   of classifiers, one per text; default: the model's own answers
    reading  context, pack, rows, text_column, label_column: see
    heedful.features.activations.eval_windows.corpus
    """

    loaded = load_token_model(model)
    where = site_of(sae, site)
    if width(loaded, where) != sae.config.d:
        raise HeedfulError(
            f"an SAE of width {sae.config.d} for {where}, which has {width(loaded, where)}",
            "it was trained at another place or model",
            "Name its site and model",
        )
    result = texts if isinstance(texts, Corpus) else corpus(loaded, texts, labels=labels, **reading)
    counts, others, mean = counted(sae, loaded, result, where, seed, progress)
    about = {"model": loaded.name, "site": where, "tokens": result.tokens, "windows": result.units}
    about |= {"kind": sae.config.kind, "width": sae.config.width, "dense above": DENSE_SHARE}
    about |= {"loss of": _loss_of(loaded, result), "seed": seed}
    figures, controls = counts.figures(seed), {"random dictionary": others.values()}
    if loaded.kind not in MEASURED:
        why = f"no loss recovered: it is not defined here for a model of kind {loaded.kind}"
        return Measured(figures, controls, {}, about, (*result.notes, why))
    edits = edits_of(sae, random_dictionary(sae, counts.sample, seed), mean)
    losses = losses_of(loaded, result, where, edits, progress)
    for worst in ("zero", "mean"):
        name = f"recovered ({worst})"
        figures[name] = losses.recovered("sae", worst, seed)
        for edit in ("identity", "mean", "random dictionary"):
            controls.setdefault(edit, {})[name] = losses.recovered(edit, worst, None).value
    return Measured(figures, controls, losses.means(), about, (*result.notes, *losses.notes()))


def _loss_of(model: TokenModel, found: Corpus) -> str | None:
    if model.kind == "causal-lm":
        return "the next token"
    if model.kind == "classifier":
        return "the model's own answer" if found.labels is None else "the label"
    return None


# --- noise of the seed -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Noise(NotebookRepr):
    """One figure over dictionaries that differ in their seed alone."""

    values: tuple[float, ...]
    mean: float
    sd: float
    cv: float  # sd / |mean|

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


def noise(values: Sequence[float]) -> Noise:
    mean = float(np.mean(values))
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return Noise(tuple(values), mean, sd, sd / abs(mean) if mean else math.nan)


def measure_seeds(
    saes: Sequence[SAE], model: Loadable, texts: Any, **settings: Any
) -> tuple[dict[str, Noise], list[Measured]]:
    """Every figure over the seeds, and each dictionary's own."""

    if len(saes) < 2:
        raise HeedfulError(f"{len(saes)} SAE cannot show differences between seeds", fix="Give two or more")
    loaded = load_token_model(model)
    own = ("labels", "context", "pack", "rows", "text_column", "label_column")
    reading = {name: settings.pop(name) for name in own if name in settings}
    result = texts if isinstance(texts, Corpus) else corpus(loaded, texts, **reading)
    every = [measure(sae, loaded, result, **settings) for sae in saes]
    return {name: noise([one[name] for one in every]) for name in every[0].figures}, every
