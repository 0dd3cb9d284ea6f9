"""Inside the model: the attention of every head, features on a text, one feature's page, steering.

The dictionary of a model is opened once, and read on its texts once (heedful.server.feature_cache) when the
first page of a feature is asked for. Everything drawn here is drawn by the code of the report.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.comparisons.result import Comparison
from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.features.reading.results import SavedFeature
from heedful.heads.atlas import Atlas
from heedful.modalities.text import TextInput
from heedful.server.feature_cache import Codes, read_codes
from heedful.server.job_queue import Job
from heedful.server.live_explain import predicted
from heedful.server.model_pool import ServedModel
from heedful.server.schemas import requests, responses

if TYPE_CHECKING:
    from heedful.features.interpretation.results import Explanation
    from heedful.features.steering.results import Sides
    from heedful.models.adapter import TokenModel

SHOWN_FEATURES = 24  # features shown of a text
FEATURE_TOKENS = 20_000  # tokens on which features are read,
CONTRAST_TOKENS = 5_000  # and of which a difference of means is taken: while somebody waits
MAX_ATLAS_WEIGHTS = 2_000_000  # weights an atlas in the page may have, all heads


class Dictionary:
    """Features of one model; opened when first asked for."""

    def __init__(self, served: ServedModel) -> None:
        self.served = served
        self._lock = threading.Lock()
        self._sae: Any = None
        self._codes: Codes | None = None
        self._corpus: Any = None
        self.names: dict[int, str] = {}  # feature -> what it is active on, by rules; "" where none was found

    @property
    def exists(self) -> bool:
        return self.served.dictionary is not None

    @property
    def sae(self) -> Any:
        from heedful.features.sae.autoencoder import SAE

        if not self.exists:
            raise HeedfulError(
                f"{self.served.name} has no dictionary here", fix="Start with --sae FOLDER, or use zoo:lm"
            )
        with self._lock:
            if self._sae is None:
                given = self.served.dictionary
                self._sae = given if isinstance(given, SAE) else SAE.load(given)
        return self._sae

    def site(self, model: TokenModel) -> str:
        from heedful.features.reading.read_features import site_of

        return site_of(self.sae, model, None)

    def check(self, feature: int) -> None:
        if feature >= self.sae.config.width:
            raise HeedfulError(
                f"there is no feature {feature:,}", f"the dictionary has 0 to {self.sae.config.width - 1:,}"
            )

    def codes(self, model: TokenModel, job: Job) -> Codes:
        """What features do on the texts; one pass, the first time."""
        if self._codes is None:
            if self.served.texts is None:
                raise HeedfulError("there are no texts to read features on", fix="Start with --texts FILE")
            self._codes = read_codes(
                model, self.sae, self.site(model), self.served.texts, FEATURE_TOKENS, job.report_step
            )
        return self._codes

    def corpus(self, model: TokenModel) -> Any:
        """The texts cut once, for the difference of means beside a steer; None where there are none."""
        from heedful.features.activations.eval_windows import corpus

        if self._corpus is None and self.served.texts is not None:
            self._corpus = corpus(model, self.served.texts, rows=CONTRAST_TOKENS)
        return self._corpus

    def max_activation(self, feature: int) -> float | None:
        """Its greatest activation, as training recorded it or as the texts show."""
        from heedful.features.sae.maxima import known_maxima

        known = known_maxima(self.sae)
        if known is not None and len(known) > feature and float(known[feature]) > 0:
            return float(known[feature])
        if self._codes is not None and self._codes.firing.most[feature] > 0:
            return float(self._codes.firing.most[feature])
        return None


# --- attention -------------------------------------------------------------------------------------


def attention_atlas(model: Model, raw: Any, job: Job) -> Atlas:
    """Every head on a text or a picture, where that is not too much for a page."""
    from heedful.heads.atlas import attention, encoded

    job.report("reading every head")
    if why := model.lacks({"attentions"}):
        raise HeedfulError(f"{model.name} shows no attention", why)
    x = encoded(model, raw, "error")
    positions = len(x.positions.owner)
    config = getattr(model.module, "config", None)
    heads = int(getattr(config, "num_hidden_layers", 1)) * int(getattr(config, "num_attention_heads", 1))
    if heads * positions**2 > 40 * MAX_ATLAS_WEIGHTS:
        what = "tokens" if isinstance(x, TextInput) else "patches"
        raise HeedfulError(
            f"{heads} heads on {positions:,} {what} are too many weights for a page",
            fix="Write a file instead: heedful attention INPUT --html heads.html",
        )
    return attention(model, raw)


def atlas_parts(atlas: Atlas) -> dict[str, Any]:
    """The static part and the numbers of its page."""
    from heedful.core.document import Island
    from heedful.reports.html import body

    document = atlas.document()
    (island,) = (node for node in document.nodes if isinstance(node, Island))
    return {"html": body(document, 2), "data": dict(island.data), "component": island.component}


# --- features --------------------------------------------------------------------------------------


def active_features(
    model: TokenModel, ask: requests.FeaturesRequest, dictionary: Dictionary
) -> responses.FeatureActivity:
    """The features that are strongest on a text, by activation x length of the decoder row."""
    from heedful.features.reading.feature_pages import own_text

    sae, site = dictionary.sae, dictionary.site(model)
    context, values, text = own_text(model, sae, site, ask.text)  # (T, F), (T,)
    most = values.max(0)
    lengths = sae.W_dec.norm(dim=1).numpy()
    order = np.argsort(-most * lengths, kind="stable")[:SHOWN_FEATURES]
    pieces = context.pieces
    out = []
    for feature in (int(f) for f in order if most[f] > 0):
        own, at = values[:, feature], int(values[:, feature].argmax())
        top = dictionary.max_activation(feature)
        shares = [float(value / own.max()) if value > 0 else 0.0 for value in own]
        out.append(
            responses.ActiveFeature(
                feature=feature,
                most=float(own.max()),
                share=None if top is None else float(own.max() / top),
                token=pieces[at],
                at=at,
                html=_shaded(pieces, shares, at),
                name=dictionary.names.get(feature, ""),
            )
        )
    return responses.FeatureActivity(
        features=out,
        site=site,
        width=sae.config.width,
        active=float((values[text] > 0).sum(1).mean()),
        notes=[*sae.config.notes],
    )


def _shaded(pieces: Sequence[str], shares: Sequence[float], here: int) -> str:
    from heedful.core.document import Piece
    from heedful.reports.html import HtmlRenderer

    shown = (
        Piece(piece.replace("\n", "↵"), share, here=at == here and share > 0)
        for at, (piece, share) in enumerate(zip(pieces, shares, strict=True))
    )
    return "".join(HtmlRenderer("").piece(each, signed=False) for each in shown)


def feature_page(
    model: TokenModel, ask: requests.FeatureRequest, dictionary: Dictionary, job: Job
) -> SavedFeature:
    """What it fires on, what it does, what is near, and what rules say it means."""
    from heedful.features.interpretation.interpret import interpret
    from heedful.features.interpretation.rules import Rules
    from heedful.features.reading.feature_pages import page_of
    from heedful.features.reading.read_features import Kept

    dictionary.check(ask.feature)
    codes, sae = dictionary.codes(model, job), dictionary.sae
    job.report("looking at its examples")
    (result,) = Kept().of(codes.passes([ask.feature]), [ask.feature], model)
    results = interpret([result], Rules(), Rules(), progress=job.report_step)
    dictionary.names[ask.feature] = _name(results[0].explanation)
    job.report("measuring what it does")
    one = page_of(model, sae, dictionary.site(model), result, results[0])
    about = f"Read on {codes.firing.tokens:,} tokens of {codes.texts}."
    return SavedFeature(ask.model, dictionary.site(model), sae.config.width, about, one)


def feature_names(model: TokenModel, ask: requests.NamesRequest, dictionary: Dictionary, job: Job) -> None:
    """What each feature is active on, by rules, one after the other; shown as they come."""
    from heedful.features.interpretation.interpret import split
    from heedful.features.interpretation.rules import Rules
    from heedful.features.reading.read_features import Kept

    for feature in ask.features:
        dictionary.check(feature)
    names = dictionary.names
    if new := [feature for feature in dict.fromkeys(ask.features) if feature not in names]:
        codes = dictionary.codes(model, job)
        job.report("naming features", 0, len(new))
        readings = Kept().of(codes.passes(new), new, model)
        for count, reading in enumerate(readings):
            job.report("naming features", count, len(new))
            parts = split(reading)
            names[reading.feature] = _name(Rules().explain(parts.training)) if parts.enough else ""
            job.show({"names": {str(f): names[f] for f in ask.features if f in names}})
    job.show({"names": {str(f): names[f] for f in ask.features}})


def _name(said: Explanation) -> str:
    """A rule without a condition says nothing."""
    return said.text if said.rule is not None and said.rule.atoms else ""


def feature_parts(saved: SavedFeature) -> dict[str, Any]:
    """As it stands in the panel, where neighbours can be opened."""
    from heedful.reports import html, one_feature

    shown = one_feature.section(saved.feature, range(saved.width))
    drawn = html.nodes_html([shown], 3, prefix="")  # the script of the page finds neighbours by their links
    given = saved.feature.interpretation
    name = "" if given is None else _name(given.explanation)
    return {"html": drawn, "about": saved.about, "feature": saved.feature.feature, "name": name}


# --- steering --------------------------------------------------------------------------------------


def next_tokens(
    model: TokenModel, ask: requests.SteerRequest, dictionary: Dictionary
) -> responses.NextTokens:
    """The next token, base beside steered."""
    from heedful.features.steering.steer import steer

    how = strength(ask, dictionary)
    x = model.encode(ask.given())
    base = model.predict(x, 8)
    with steer(model, dictionary.sae, {ask.feature: how}) as applied:
        steered = model.predict(x, 8)
    return responses.NextTokens(
        base=_predictions(model, base),
        steered=_predictions(model, steered),
        greatest=dictionary.max_activation(ask.feature),
        moved=applied.size,
    )


def _predictions(model: TokenModel, shares: Sequence[tuple[str, float]]) -> list[responses.Prediction]:
    facts = {"kind": model.kind, "prediction": [list(pair) for pair in shares]}
    return predicted(Comparison((), model=facts))


def strength(ask: requests.SteerRequest, dictionary: Dictionary) -> float:
    """So many times the greatest activation."""
    dictionary.check(ask.feature)
    top = dictionary.max_activation(ask.feature)
    if top is None:
        raise HeedfulError(
            f"the greatest activation of feature {ask.feature:,} is not known",
            "it never fired where that was measured",
            "Open its page first, or choose another",
        )
    return ask.strength * top


def steered_text(model: TokenModel, ask: requests.WriteRequest, dictionary: Dictionary, job: Job) -> Sides:
    """What it writes, base | steered; greedily, so that the steer alone makes the difference. Where there are
    texts, a difference of means of the same size stands beside."""
    from heedful.features.steering.compare import before_after

    job.report("reading texts")
    texts = dictionary.corpus(model)
    job.report("writing")
    how = {ask.feature: strength(ask, dictionary)}
    writing: dict[str, Any] = {"max_new_tokens": ask.tokens, "strategy": "greedy", "seed": 0}
    return before_after(model, dictionary.sae, how, ask.given(), texts=texts, **writing)
