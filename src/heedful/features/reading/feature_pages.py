"""`heedful.feature_pages`: all there is to know about a few features, gathered for one page.

reading          what they fire on (heedful.features.reading.read_features)
effects          outputs they push, and the loss without them (heedful.features.reading.effects)
neighbours       features that point the same way (heedful.features.reading.similar_features)
interpretation   what they are said to mean, with scores and controls
                 (heedful.features.interpretation.interpret)
own              their activations on texts of the reader
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable
from heedful.core.progress import Report, counting
from heedful.features.interpretation.interpret import Interpreter, Simulator, interpret
from heedful.features.interpretation.results import Interpretation
from heedful.features.interpretation.rules import Rules
from heedful.features.interpretation.scores import Bools
from heedful.features.reading.collect import Values
from heedful.features.reading.effects import effects
from heedful.features.reading.examples import Context, Snippet
from heedful.features.reading.read_features import Stream, read_features
from heedful.features.reading.results import FeaturePages, Page, Reading, Readings
from heedful.features.reading.similar_features import nearest

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel


def feature_pages(
    model: Loadable,
    sae: Any,
    texts: Iterable[str] | str | Path,
    features: Sequence[int] | None = None,
    *,
    own: Sequence[str] = (),
    explainer: Interpreter | None = None,
    simulator: Simulator | None = None,
    seed: int = 0,
    progress: Report | None = None,
    **how: Any,
) -> FeaturePages:
    """Describe features of an SAE: where they are active, what they do, and what they may mean.

    Parameters
    ----------
    model
        The result of `heedful.load`, or anything that `heedful.load` accepts.
    sae
        A `heedful.SAE`, or its folder.
    texts
        A .txt, .csv, .tsv, .jsonl or .parquet file, or a list of texts.
    features
        Numbers of the features. If `None`, the rule `choose` selects them.
    own
        Texts of your own, shown with the activations of each feature.
    explainer
        A model that writes the interpretations. If `None`, rules that need no language model write them.
    simulator
        A model that predicts activations from an interpretation. The predictions give the interpretation a
        score. If `None`, the same rules predict them.
    seed
        Random seed.
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.
    **how
        Further parameters of `heedful.read_features`: choose, examples, quantiles, site, rows, context,
        text_column.

    Returns
    -------
    FeaturePages
        One page per feature. `to_html("features.html")` writes a report.

    Examples
    --------
    >>> import heedful
    >>> sae = heedful.SAE.load("zoo:lm")
    >>> texts = ["The king is dead, long live the king."] * 3
    >>> pages = heedful.feature_pages("zoo:lm", sae, texts, choose="most-active:1")
    >>> len(pages)
    1
    """
    from heedful.models.load import load_token_model

    loaded = load_token_model(model, "feature pages")
    readings = read_features(loaded, sae, texts, features, seed=seed, progress=progress, **how)
    rules = Rules()
    results = interpret(list(readings), explainer or rules, simulator or rules, seed=seed, progress=progress)
    shown = own_texts(loaded, sae, readings, own)
    pages = []
    for at, result in enumerate(readings):
        counting(progress, "measuring effects")(at + 1, len(readings))
        one = page_of(loaded, sae, readings.site, result, results[at], seed)
        pages.append(replace(one, own=shown[result.feature]))
    last = sae.config.source.get("last", {})
    facts = {
        "kind": sae.config.kind,
        "features": sae.config.width,
        "k": sae.config.k,
        "active a token": last.get("l0"),
        "variance explained": last.get("explained"),
    }
    return FeaturePages(tuple(pages), readings, facts)


def page_of(
    model: TokenModel, sae: Any, site: str, found: Reading, said: Interpretation | None, seed: int = 0
) -> Page:
    """One feature that was read: what it does, and what points the same way."""
    what = effects(model, sae, site, found, seed=seed)
    near = nearest(sae, found.feature, seed=seed)
    return Page(found, what, near, float(sae.W_dec[found.feature].norm()), said)


def own_texts(
    model: TokenModel, sae: Any, readings: Readings, texts: Sequence[str]
) -> dict[int, tuple[Snippet, ...]]:
    """Every feature's activations on whole texts; one longer than the model's window is refused."""
    wanted = [r.feature for r in readings]
    out: dict[int, list[Snippet]] = {f: [] for f in wanted}
    for text in texts:
        context, values, _ = own_text(model, sae, readings.site, text, wanted)
        for at, feature in enumerate(wanted):
            own = values[:, at]
            out[feature].append(Snippet(context, tuple(own.tolist()), int(np.argmax(own))))
    return {feature: tuple(result) for feature, result in out.items()}


def own_text(
    model: TokenModel, sae: Any, site: str, text: str, wanted: Sequence[int] | None = None
) -> tuple[Context, Values, Bools]:
    """A whole text, the activations (T, wanted) on it, of all features for None, and which tokens (T,) are
    the text: on the others, special ones, activations are 0."""
    if not text.strip():
        raise HeedfulError("a text to test is empty", fix="Give at least one word")
    size = model.window or None
    tokens = len(model.token_ids(text, special=True)) + 2
    if size is not None and tokens > size:
        raise HeedfulError(
            f"a text to test has {tokens:,} tokens", f"{model.name} reads {size:,}", "Shorten it"
        )
    whole = max(tokens, 8) if size is None else size
    stream = Stream(
        model=model, sae=sae, texts=[text], site=site, rows=None, context=whole, column="text", progress=None
    )
    _, batch, values = next(stream.passes(wanted, ""))
    ids = tuple(batch.ids[0][batch.mask[0] > 0].tolist())
    context, keep = Context(ids, model.pieces(ids)), batch.keep[0, : len(ids)]
    return context, values[0, : len(ids)], keep.numpy()
