"""What features fire on: one pass over texts, constant memory, the same at every run with one seed.

For each chosen feature: how often it fires (activation > 0), a histogram of its activations, the windows in
which it is strongest, and examples drawn at random from every quantile of its activations that are not zero.
The strongest alone hide a feature that means other things when it is weak (Bolukbasi et al. 2021).

    firings    each gets a random key u; the R least keys are a uniform sample of all firings
    quantiles  that sample, sorted by activation and cut into Q parts of equal size; examples are drawn in
               each
    silent     a uniform sample of places where the feature is zero, for tests of what is said about it

Cost: one pass of the model up to the site and one of the encoder a token; a second one before it where the
rule that chooses features asks how often they fire. Memory: examples * features, whatever the texts.
Needs: a site that can be told (heedful.models.sites.access).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable
from heedful.core.progress import Report, counting
from heedful.features.activations.eval_windows import BATCH_TOKENS
from heedful.features.activations.windows import (
    Batch,
    Cut,
    TextSource,
    batches,
    cut_for,
    first_of,
    open_texts,
    windows,
)
from heedful.features.reading.collect import FeatureCollector, Values
from heedful.features.reading.results import Reading, Readings
from heedful.features.reading.select import FiringRates, among, parse
from heedful.features.sae.maxima import MAX_CODES
from heedful.models.adapter import TokenModel
from heedful.models.sites.access import read, width

SAMPLED_FIRINGS = 40  # firings kept for each quantile, and as many silent places in all
Passes = Iterator[tuple[int, Batch, Values]]  # number of the first window, batch, activations (B, T, wanted)


def read_features(
    model: Loadable,
    sae: Any,
    texts: Iterable[str] | str | Path,
    features: Sequence[int] | None = None,
    *,
    choose: str = "random:10",
    examples: int = 10,
    quantiles: int = 10,
    a_quantile: int = 2,
    site: str | None = None,
    rows: int | None = None,
    context: int | None = None,
    text_column: str = "text",
    seed: int = 0,
    progress: Report | None = None,
) -> Readings:
    """Find the texts on which features of an SAE are active.

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
    choose
        The rule that selects N features: "random:N", "most-active:N", "strongest:N", "spread:N" or "any:N"
        (`heedful.features.reading.select`).
    examples
        Number of strongest examples per feature.
    quantiles
        Number of ranges into which activations are divided.
    a_quantile
        Number of examples per range.
    site
        Place in the model. If `None`, the place where the SAE was trained.
    rows
        Number of tokens to read. If `None`, all tokens.
    context
        Number of tokens that the model reads at once. If `None`, 128 tokens, or the maximum of the model if
        it is smaller.
    text_column
        Column of the texts in a table file.
    seed
        Random seed.
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.

    Returns
    -------
    Readings
        One reading per feature: how often it is active, and examples from weak to strong.

    Examples
    --------
    >>> import heedful
    >>> sae = heedful.SAE.load("zoo:lm")
    >>> texts = ["The king is dead, long live the king."]
    >>> readings = heedful.read_features("zoo:lm", sae, texts, choose="most-active:2")
    >>> len(readings.features)
    2
    """
    from heedful.models.load import load_token_model

    loaded = load_token_model(model, "reading features")
    stream = Stream(
        model=loaded,
        sae=sae,
        texts=texts,
        site=site_of(sae, loaded, site),
        rows=rows,
        context=context,
        column=text_column,
        progress=progress,
    )
    wanted, chosen = _wanted(stream, sae, features, choose, seed)
    kept = Kept(examples, quantiles, a_quantile, seed)
    result = kept.of(stream.passes(wanted, "reading"), wanted, loaded)
    settings = {
        "tokens": result[0].tokens,
        "context": stream.cut.context,
        "examples": examples,
        "quantiles": quantiles,
        "seed": seed,
    }
    return Readings(
        features=result,
        site=stream.site,
        model=loaded.name,
        texts=stream.told,
        chosen=chosen,
        settings=settings,
        notes=stream.notes,
    )


@dataclass(frozen=True)
class Kept:
    """How much is kept of each feature; see `read_features`."""

    examples: int = 10
    quantiles: int = 10
    a_quantile: int = 2
    seed: int = 0

    def of(self, passes: Passes, wanted: Sequence[int], tokenizer: Any) -> tuple[Reading, ...]:
        """What the wanted features fired on."""
        collector = FeatureCollector(wanted, self.examples, self.quantiles * SAMPLED_FIRINGS, self.seed)
        for number, batch, values in passes:
            collector.add(number, batch, values)
        if not collector.tokens:
            raise HeedfulError("there are no texts", fix="Give at least one that is not empty")
        every = range(len(wanted))
        return tuple(collector.reading(at, tokenizer, self.quantiles, self.a_quantile) for at in every)


def site_of(sae: Any, model: TokenModel, site: str | None) -> str:
    """Where the autoencoder reads; refuses a site of another width."""
    result = site or sae.config.source.get("site")
    if not result:
        raise HeedfulError("the SAE does not say which site it reads", fix="Name one: --site blocks.2.resid")
    if width(model, result) != sae.config.d:
        raise HeedfulError(
            f"{result} of {model.name} has width {width(model, result)}",
            f"the SAE reads width {sae.config.d}",
            "Name the model and the site it was trained on",
        )
    return str(result)


def told_apart(sae: Any, model: TokenModel) -> list[str]:
    """A note when the autoencoder was trained on another model's activations."""
    trained = sae.config.source.get("model") or {}
    mark = trained.get("fingerprint")
    if mark and mark != model.facts().get("fingerprint"):
        return [f"the autoencoder was trained on another model: {sae.config.source.get('name', 'unknown')}"]
    return []


def _wanted(
    stream: Stream, sae: Any, features: Sequence[int] | None, choose: str, seed: int
) -> tuple[list[int], str]:
    """Which features, and how they were chosen."""
    if features is not None:
        wrong = [f for f in features if not 0 <= f < sae.config.width]
        if wrong or not features:
            fix = f"Features are numbered 0 to {sae.config.width - 1:,}"
            raise HeedfulError(f"there is no feature {wrong[0]}" if wrong else "no feature is named", fix=fix)
        return list(dict.fromkeys(int(f) for f in features)), "named"
    rule = parse(choose)
    firing = FiringRates.none(sae.config.width)
    if rule.looks:
        stream.again()
        for _, batch, values in stream.passes(None, "counting firings"):
            firing.add(values[batch.keep.numpy()])
    return among(rule, firing, sae.W_dec.norm(dim=1).double().numpy(), seed), choose


@dataclass
class Stream:
    """Texts on their way through the model and the encoder."""

    model: TokenModel
    sae: Any
    texts: Any
    site: str
    rows: int | None
    context: int | None
    column: str
    progress: Report | None
    cut: Cut = None  # type: ignore[assignment]
    told: str = ""

    def __post_init__(self) -> None:
        self.cut = cut_for(self.model, self.context, None, skip_special=True)
        self.skipped: tuple[str, ...] = ()
        facts = open_texts(self.texts, self.column).facts()
        self.told = str(facts.get("name", facts.get("kind", "texts")))

    def again(self) -> None:
        """Texts are read twice: what can be read once only is refused."""
        if isinstance(self.texts, Iterator):
            raise HeedfulError(
                "the texts can be read once only", "this rule reads them twice", "Give a list or a file"
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the texts, once they are read."""
        return (*self.skipped, *told_apart(self.sae, self.model))

    def passes(self, wanted: Sequence[int] | None, what: str) -> Passes:
        """(number of the first window, batch, activations (B, T, wanted)); zero where nothing is kept."""
        texts = TextSource(open_texts(self.texts, self.column))
        number = tokens = 0
        for batch in batches(windows(texts, self.model, self.cut), BATCH_TOKENS, self.cut.pad):
            batch = first_of(batch, None if self.rows is None else self.rows - tokens)
            if not (new := int(batch.keep.sum())):
                if tokens == self.rows:
                    break
                continue
            yield number, batch, activations(self.model, self.sae, self.site, batch, wanted)
            number, tokens = number + len(batch.ids), tokens + new
            counting(self.progress, what)(tokens, self.rows or 0)
        self.skipped = texts.notes()


def activations(model: TokenModel, sae: Any, site: str, batch: Batch, wanted: Sequence[int] | None) -> Values:
    """(B, T, wanted) of a batch, zero at positions that are not kept."""
    with torch.inference_mode():
        result = read(model, model.padded(batch.ids, batch.mask), [site])[site]
        rows = result[batch.keep.to(result.device)].float()
        index = torch.arange(sae.config.width) if wanted is None else torch.tensor(list(wanted))
        size = max(1, MAX_CODES // sae.config.width)
        parts = [sae.encode(piece)[:, index].cpu().float() for piece in torch.split(rows, size)]
        out = torch.zeros(*batch.ids.shape, len(index))
        out[batch.keep] = torch.cat(parts)
    return out.numpy()
