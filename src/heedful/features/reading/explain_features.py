"""One text explained by its few strongest features, each with its effect on the target.

    strength_i  = sum_t f_it ||W_dec,i||                                how much of the site it makes up
    effect_i    = target(x) - target(x with f_i := 0 on the text)       measured; the error term is kept
    estimate_i  = sum_t f_it (W_dec,i . g_t),  g_t = d target / d x_t   one backward; exact where linear

t runs over the tokens of the text. Special tokens ([CLS], a beginning, what a chat template adds) are not the
text: they are not edited and have no score. What lies there is told apart: the share of sum_i |f_it W_dec,i .
g_t| over these features, and the effect of removing the same features there alone.

As scores of tokens, so that features are weighed by the same evidence as any explanation:

    score_t = sum_i effect_i |f_it W_dec,i . g_t| / sum_u |f_iu W_dec,i . g_u|

Every feature's measured effect is handed to the positions where it fires and the target listens; the scores
sum to the sum of the effects. A position of a deep layer has seen other tokens: a score says where the
feature was read, not which word put it there.

Controls: as many other active features drawn at random, one by one and together. Completeness: the sum of
single effects beside the effect of removing the same features at once, and of removing all.
Cost: 1 forward + backward, and 2 k + DRAWS + 2 rows, one more where there are special tokens, batched.
Needs: gradients, and a site that holds the text's tokens. Marks et al. 2024, "Sparse Feature Circuits"
(gradient times activation, ablation).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.core.target import Target
from heedful.features.sae.autoencoder import SAE
from heedful.features.steering.directions import site_of
from heedful.io.json_codec import to_jsonable
from heedful.modalities.text import TextInput
from heedful.models import passes
from heedful.models.adapter import TokenModel
from heedful.models.sites.access import changing, reading, width
from heedful.stats.intervals import percentile_interval

DRAWS = 20  # random sets of features that are removed together
BY = ("activation", "gradient")


@dataclass(frozen=True)
class TextFeature:
    """One feature of one text."""

    index: int
    strength: float
    effect: float  # on the target, by ablation
    estimate: float  # of the effect, by gradient times activation
    activations: tuple[float, ...]  # (T,) 0 on special tokens


@dataclass(frozen=True)
class SpecialTokens:
    """What the shown features do on special tokens, which no edit reaches."""

    share: float = 0.0  # of their |activation x decoder . gradient|, all tokens together being 1
    effect: float = 0.0  # of removing them there alone, on the target

    def note(self) -> str:
        return (
            f"special tokens are left as they are: {100 * self.share:.0f} % of these features' gradient "
            "times activation lies there, and removing the features there alone would change the output "
            f"by {-self.effect:+.3g}"
        )


@dataclass(frozen=True, eq=False)
class FeatureExplanation(NotebookRepr):
    """The features of one text, strongest first."""

    x: TextInput
    target: Target
    output: float  # of the model as it is
    features: tuple[TextFeature, ...]
    together: float  # effect of removing these features at once
    everything: float  # effect of removing all features: b_dec and the error stay
    active: int  # features that fire on any token of the text
    control: tuple[TextFeature, ...]  # other active features, drawn at random
    control_together: tuple[float, ...]  # effects of removing as many random ones at once, one a draw
    scores: Floats  # (T,)
    site: str
    by: str
    special: SpecialTokens = SpecialTokens()
    notes: tuple[str, ...] = ()

    @property
    def explained(self) -> float:
        """Sum of the single effects."""
        return float(sum(feature.effect for feature in self.features))

    @property
    def band(self) -> tuple[float, float]:
        """95 % of random sets of features, removed together, have an effect between."""
        return percentile_interval(self.control_together)

    @property
    def attribution(self) -> Attribution:
        """As scores of tokens; see the formula above."""
        params = {"features": [f.index for f in self.features], "site": self.site, "by": self.by}
        return Attribution(
            self.x, self.target, self.scores, "features", params, output=self.output, notes=self.notes
        )

    def to_dict(self) -> dict[str, Any]:
        low, high = self.band
        return {
            "text": self.x.text,
            "tokens": list(self.x.tokens),
            "target": self.target.name,
            "output": self.output,
            "site": self.site,
            "by": self.by,
            "features": to_jsonable(self.features),
            "together": self.together,
            "sum of single effects": self.explained,
            "all features together": self.everything,
            "active": self.active,
            "control": to_jsonable(self.control),
            "control together": {
                "low": to_jsonable(low),
                "high": to_jsonable(high),
                "draws": len(self.control_together),
            },
            "scores": to_jsonable(self.scores),
            "special tokens": to_jsonable(self.special),
            "notes": list(self.notes),
        }


def explain_features(
    model: TokenModel,
    sae: SAE,
    text: Any,
    target: Any = None,
    k: int = 10,
    *,
    by: str = "activation",
    site: str | None = None,
    seed: int = 0,
) -> FeatureExplanation:
    """The k strongest features of a text, by `activation` (times decoder length) or by `gradient`."""
    place = _place(model, sae, site)
    if by not in BY or k < 1:
        raise HeedfulError(
            f"k = {k} features by {by!r} cannot be chosen", fix=f"By: {', '.join(BY)}; k from 1"
        )
    x = model.encode(text)
    aim = model.target(x, target)
    output, codes, slopes = _looked_at(model, sae, x, aim, place)  # codes, slopes (stop, F)
    codes, outside = _of_text(codes, x)
    share = codes * slopes  # (stop, F) what each feature is estimated to give, token by token
    strength = codes.sum(0) * torch.linalg.vector_norm(sae.W_dec, dim=1)  # (F,)
    firing = (codes != 0).any(0).nonzero()[:, 0]
    worth = strength if by == "activation" else share.sum(0).abs()
    order = firing[worth[firing].argsort(descending=True, stable=True)]
    chosen, drawn = order[:k], _drawn(order[k:], k, seed)
    single = drawn[0] if drawn else order[:0]
    sets = [i[None] for i in (*chosen, *single)] + [chosen, firing, *drawn[1:]]
    taken = [codes[:, some] @ sae.W_dec[some] for some in sets]  # each (stop, d)
    apart = [outside[:, chosen] @ sae.W_dec[chosen]] if any(x.special) else []
    effects = output - _less(model, x, aim, place, torch.stack([*taken, *apart]))
    m, n = len(chosen), len(single)
    cuts = [m, m + n, m + n + 2, len(taken)]
    own, control, (together, everything), rest, there = np.split(effects, cuts)
    features, others = (
        tuple(
            TextFeature(
                i, float(strength[i]), float(e), float(share[:, i].sum()), tuple(codes[:, i].tolist())
            )
            for i, e in zip(which.tolist(), result, strict=True)
        )
        for which, result in ((chosen, own), (single, control))
    )
    special = SpecialTokens(_part((outside * slopes)[:, chosen], share[:, chosen]), float(there.sum()))
    few = [f"only {len(order) - m} other features fire: the control has {n}"] if n < m else []
    return FeatureExplanation(
        x=x,
        target=aim,
        output=output,
        features=features,
        together=float(together),
        everything=float(everything),
        active=len(firing),
        control=others,
        control_together=tuple(rest.tolist()),
        scores=_spread(share[:, chosen], codes[:, chosen], own, len(x)),
        site=place,
        by=by,
        special=special,
        notes=(*few, *([special.note()] if apart else [])),
    )


def _of_text(codes: Tensor, x: TextInput) -> tuple[Tensor, Tensor]:
    """Activations (stop, F) on the tokens of the text, and those on special tokens; zero elsewhere."""
    special = torch.tensor(x.special[: len(codes)])[:, None]
    return codes.masked_fill(special, 0.0), codes.masked_fill(~special, 0.0)


def _part(outside: Tensor, share: Tensor) -> float:
    """Share of |outside| in both together; 0 where nothing is."""
    there, here = (float(part.abs().double().sum()) for part in (outside, share))
    return there / (there + here) if there else 0.0


def _drawn(others: Tensor, k: int, seed: int) -> list[Tensor]:
    """Sets of k of the other active features, or of all where there are fewer; [] where there are none."""
    rng = np.random.default_rng(seed)
    n = min(k, len(others))
    return [others[rng.permutation(len(others))[:n]] for _ in range(DRAWS + 1)] if n else []


def feature_attribution(
    model: TokenModel,
    x: Any,
    target: Any,
    *,
    sae: SAE,
    k: int = 10,
    by: str = "activation",
    site: str | None = None,
) -> Attribution:
    """Like an explainer: `Attribution` of the k strongest features, with what it cost."""
    before = model.spent
    result = explain_features(model, sae, x, target, k, by=by, site=site).attribution
    return replace(result, cost=model.spent - before)


def _place(model: TokenModel, sae: SAE, site: str | None) -> str:
    place = site_of(sae, site)
    model.require(("values", "gradients"), "features")
    if place.startswith("decoder."):
        raise HeedfulError(
            f"{place} contains no token of the text",
            "it is where the answer is written",
            "Use an encoder's site",
        )
    if width(model, place) != sae.config.d:
        raise HeedfulError(
            f"the SAE reads activations of width {sae.config.d}",
            f"{place} of {model.name} has {width(model, place)}",
        )
    return place


def _looked_at(
    model: TokenModel, sae: SAE, x: TextInput, target: Target, site: str
) -> tuple[float, Tensor, Tensor]:
    """f(x), activations (T, F), and how the target rises with each: W_dec,i . g_t (T, F)."""
    with (
        model.counted_pass([model.row(x, target)], target),
        torch.inference_mode(False),
        torch.enable_grad(),
        reading(model, [site]) as observed,
    ):
        value = target.score(model.answers([model.row(x, target)], target, graph=True))[0]
        (grad,) = torch.autograd.grad(value, observed[site])
    with torch.no_grad():
        sides = len(target.sides)  # a contrast reads the text once a side: its gradients add up
        own = len(model.row(x, target))
        codes = sae.encode(observed[site][0, :own].detach().cpu())
        slopes = grad[:, :own].sum(0) if sides > 1 else grad[0, :own]
        return float(value), codes, slopes.cpu().to(sae.W_dec) @ sae.W_dec.T


def _less(model: TokenModel, x: TextInput, target: Target, site: str, taken: Tensor) -> Floats:
    """The target with each of `taken` (n, stop, d) subtracted at the text's places, one row each."""
    row = model.row(x, target)
    queue = torch.split(taken, model.rows_that_fit(max(len(row), 1) * len(target.sides)))

    def run(part: Tensor) -> Floats:
        rows = [row] * len(part)

        def edit(acts: Tensor) -> Tensor:  # (sides n, T, d)
            less = part.repeat(len(target.sides), 1, 1).to(acts)
            tail = acts.shape[1] - less.shape[1]
            return acts - torch.nn.functional.pad(less, (0, 0, 0, tail))

        count, tokens = len(rows), model.tokens_read(rows, target)
        with model.meter.counted(forwards=count, unique=count, tokens=tokens), changing(model, site, edit):
            return target.score(model.answers(rows, target)).double().cpu().numpy()

    return np.concatenate([result for _, result in passes.run_with_oom_retry(queue, run)])


def _spread(share: Tensor, codes: Tensor, effects: Floats, length: int) -> Floats:
    """(T,) effects handed to tokens in proportion to |share| (T, k); by activation where that is all zero."""
    weight = share.abs().double()
    weight = torch.where(weight.sum(0) > 0, weight, codes.double())
    weight = weight / weight.sum(0).clamp_min(1e-300)
    scores = np.zeros(length)
    scores[: len(weight)] = (weight @ torch.from_numpy(np.asarray(effects, dtype=np.float64))).numpy()
    return scores
