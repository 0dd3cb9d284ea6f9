"""The gradient of an attention classifier in closed form, with the row the literature forgets.

K heads read one text; head i attends from the class token at place 0. With u_t = W_l v_t (a number) and
ubar = sum_s alpha_s u_s, the gradient of the logit f with respect to the embedding of token t is

    df/de_t = 1/K sum_i  alpha_t W_v' W_l'                                     the value carries
                       + alpha_t (u_t - ubar) / sqrt(d) W_k' q                 the key is looked for
                       + 1[t = class token] / sqrt(d) W_q' sum_s alpha_s (u_s - ubar) k_s      the query looks

The published theorem has the first two lines. They are right for every token but the class token, whose
embedding is also the query; for it they are right only if the query is a constant.

Gradient x input does not sum to f. By Euler's theorem on the three lines, the gap is a covariance under the
attention weights, mean over heads:

    sum_t <df/de_t, e_t> = f + 2 Cov_alpha(score, u)         score_t = q . k_t / sqrt(d)
                         = f +   Cov_alpha(score, u)         with a constant query
    sum_t alpha_t u_t    = f                                 the values' part alone: complete

Drawn: the error of both formulas token by token; the gap against the covariance.

Lopardo, Precioso & Garreau, Attention Meets Post-hoc Interpretability, ICML 2024 (the first two lines).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import heedful
from heedful.core.arrays import Floats
from heedful.core.charts import Curve, Curves, Scatter, Series
from heedful.core.target import Target
from heedful.explainers.exact_one_layer import gradient
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.data.reviews import reviews
from heedful.modalities.text import text_of
from heedful.nn import OneLayerClassifier, OneLayerConfig, single_query
from heedful.stats.intervals import mean_of

ROUNDING = 1e-12  # of the gradient's size: float64
HEADS = (1, 2, 6)
TOKENS = 24
SHOWN = {"published formula": "published", "with the term for the query": "ours"}


@dataclass(frozen=True)
class HeadTerms:
    """What one head computes on one text, and the weights it computes it with."""

    w_q: Tensor  # (d, d_e)
    w_k: Tensor  # (d, d_e)
    w_v: Tensor  # (d_out, d_e)
    w_l: Tensor  # (d_out,)
    q: Tensor  # (d,)
    k: Tensor  # (T, d)
    u: Tensor  # (T,) read-out of each value
    alpha: Tensor  # (T,)

    @property
    def scale(self) -> float:
        return math.sqrt(len(self.q))

    @property
    def pull(self) -> Tensor:
        """alpha_t (u_t - ubar): who is looked at, and says other than the average (T,)"""
        return self.alpha * (self.u - self.alpha @ self.u)

    @property
    def covariance(self) -> Tensor:
        """Cov_alpha(score, u)"""
        return self.pull @ (self.k @ self.q) / self.scale


def heads(
    module: OneLayerClassifier, label: int, e: Tensor, asking: Tensor | None = None
) -> Iterator[HeadTerms]:
    """Embeddings e (T, d_e) read head by head; `asking` is the query's embedding, if not that of place 0."""
    first = e[0] if asking is None else asking
    for w_q, w_k, w_v, read in zip(module.query, module.key, module.value, module.readout, strict=True):
        q, k, v = w_q @ first, e @ w_k.T, e @ w_v.T
        yield HeadTerms(
            w_q=w_q,
            w_k=w_k,
            w_v=w_v,
            w_l=read[label],
            q=q,
            k=k,
            u=v @ read[label],
            alpha=single_query(q, k, v)[1],
        )


def logit(module: OneLayerClassifier, label: int, e: Tensor, asking: Tensor | None = None) -> Tensor:
    """f = mean over heads of sum_t alpha_t u_t."""
    return torch.stack([head.alpha @ head.u for head in heads(module, label, e, asking)]).mean()


def as_published(module: OneLayerClassifier, label: int, e: Tensor) -> Tensor:
    """The theorem's two lines (T, d_e)."""
    rows = [
        head.alpha[:, None] * (head.w_v.T @ head.w_l)
        + head.pull[:, None] / head.scale * (head.w_k.T @ head.q)
        for head in heads(module, label, e)
    ]
    return torch.stack(rows).mean(0)


def query_path(module: OneLayerClassifier, label: int, e: Tensor) -> Tensor:
    """The third line: what the class token's row lacks (d_e,)."""
    rows = [head.w_q.T @ (head.pull @ head.k) / head.scale for head in heads(module, label, e)]
    return torch.stack(rows).mean(0)


def by_autograd(module: OneLayerClassifier, label: int, e: Tensor, constant_query: bool) -> Tensor:
    """(T, d_e), the judge."""
    e = e.detach().clone().requires_grad_(True)
    f = logit(module, label, e, e[0].detach() if constant_query else None)
    return torch.autograd.grad(f, e)[0]


@dataclass(frozen=True)
class GradientCase:
    """One text before one model. Errors are relative to the gradient's largest row."""

    published: Floats  # (T,) error of each row
    ours: Floats  # (T,)
    library: Floats  # (T,) of heedful.explainers.exact_one_layer.gradient
    constant: Floats  # (T,) error of the published rows when the query is a constant
    f: float
    sums: tuple[float, float]  # gradient x input: as it is, and with a constant query
    covariance: float  # mean over heads
    values_alone: float  # sum_t alpha_t u_t

    @property
    def size(self) -> float:
        """Of f or of the sum, whichever is larger: what gaps are relative to."""
        return max(abs(self.f), abs(self.sums[0]), abs(self.sums[1]))


def measured(module: OneLayerClassifier, label: int, e: Tensor) -> GradientCase:
    """Formulas against autograd, sums against covariances; the module is in float64."""
    true, frozen = (by_autograd(module, label, e, constant) for constant in (False, True))
    with torch.no_grad():
        two_lines = as_published(module, label, e)
        all_lines = two_lines.clone()
        all_lines[0] += query_path(module, label, e)
        in_library, _ = gradient(module, Target("class", label), e)
        f = float(module.attend(inputs_embeds=e[None]).logits[0, label])
        result = list(heads(module, label, e))
        size = true.norm(dim=-1).max()

        def error(rows: Tensor, judge: Tensor = true) -> Floats:
            return np.asarray(((rows - judge).norm(dim=-1) / size).numpy())

        return GradientCase(
            published=error(two_lines),
            ours=error(all_lines),
            library=error(in_library),
            constant=error(two_lines, frozen),
            f=f,
            sums=(float((true * e).sum()), float((frozen * e).sum())),
            covariance=float(torch.stack([head.covariance for head in result]).mean()),
            values_alone=float(torch.stack([head.alpha @ head.u for head in result]).mean()),
        )


def drawn(k: int, seed: int) -> GradientCase:
    """A random model of k heads, its scores spread enough for attention to matter, on a random text."""
    config = OneLayerConfig(vocab_size=100, heads=k, width=32, d_att=16, d_out=16, pad_id=None)
    module = OneLayerClassifier(config, seed).double()
    with torch.no_grad():
        for weights in (module.query, module.key, module.readout):
            weights.mul_(3)
    ids = torch.randint(100, (1, TOKENS), generator=torch.Generator().manual_seed(seed))
    return measured(module, 1, module.embed(ids)[0].detach())


def trained(count: int, seed: int) -> list[GradientCase]:
    """zoo:one-layer on film reviews it never saw."""
    model = heedful.load("zoo:one-layer")
    theirs: Any = model.module
    module = OneLayerClassifier(theirs.config).double()
    module.load_state_dict(theirs.state_dict())
    texts = np.random.default_rng(seed).choice(
        [review.text for review in reviews("held")], count, replace=False
    )
    ids = (torch.tensor([text_of(model.encode(str(text), long="truncate")).ids]) for text in texts)
    return [measured(module, 1, module.embed(row)[0].detach()) for row in ids]


@lab(
    "gradient-theorem",
    title="The gradient of an attention classifier in closed form, class token included",
    minutes=0.2,
    cite="Lopardo, Precioso & Garreau 2024",
)
def gradient_theorem(run: LabRun) -> None:
    draws, texts = (10, 50) if run.fast else (100, 400)
    run.say(
        "The models are random classifiers with one, two and six heads, and the trained zoo:one-layer on "
        "film reviews, all in float64. The published formula of the gradient has two terms: one for the "
        "value and one for the key of each token. Our formula adds a third term for the class token, "
        "because its embedding is also the query. Both formulas are compared with autograd. The gradient "
        "has one row per token; the error of a row is divided by the norm of the largest row."
    )
    groups = {}
    for k in HEADS:
        groups[f"random, {k} head{'s' * (k > 1)}"] = [drawn(k, 1000 * run.seed + i) for i in range(draws)]
        run.progress(len(groups), 4, "random models")
    groups["zoo:one-layer"] = trained(texts, run.seed)
    closed_form(run, groups)
    completeness(run, groups)


def closed_form(run: LabRun, groups: dict[str, list[GradientCase]]) -> None:
    """Which rows each formula gets right."""
    _error_table(run, groups)
    every = [case for cases in groups.values() for case in cases]
    ours = [max(case.ours.max(), case.library.max()) for case in every]
    value, span = mean_of(ours)
    run.claim(
        "With the term for the query, the closed form equals the gradient from autograd for every token "
        "and any number of heads (value: relative error).",
        value=value,
        interval=span,
        holds=bool(max(ours) < ROUNDING),
    )
    first, others = [case.published[0] for case in every], [case.published[1:].max() for case in every]
    value, span = mean_of(first)
    run.claim(
        "Without this term, the gradient is wrong for the class token, and only for it (value: relative "
        "error).",
        value=value,
        interval=span,
        against=float(np.mean(others)),
        control="largest error of the other tokens, mean over texts",
        holds=bool(min(first) > 1e3 * ROUNDING and span[0] > 0.01 and max(others) < ROUNDING),
    )
    constant = [case.constant.max() for case in every]
    value, span = mean_of(constant)
    run.claim(
        "The published formula is the gradient of a model whose query is a constant (value: relative error).",
        value=value,
        interval=span,
        holds=bool(max(constant) < ROUNDING),
    )
    shown = groups["random, 6 heads"]
    lines = [Curve(name, digits(shown, which)) for name, which in SHOWN.items()]
    run.figure(
        "rows",
        Curves(
            lines,
            "token (0 is the class token)",
            "number of digits that agree",
            "Agreement with autograd",
            better="high",
        ),
        "Number of digits to which each formula agrees with autograd, token by token (random models with six "
        "heads, mean over models).",
    )


def _error_table(run: LabRun, groups: dict[str, list[GradientCase]]) -> None:
    run.table(
        "Error of each formula compared with autograd: the largest error of the tokens, mean over texts",
        [
            "model",
            "published formula: class token",
            "published formula: other tokens",
            "our formula: all tokens",
            "texts",
        ],
        [
            [
                name,
                np.mean([case.published[0] for case in cases]),
                np.mean([case.published[1:].max() for case in cases]),
                np.mean([case.ours.max() for case in cases]),
                len(cases),
            ]
            for name, cases in groups.items()
        ],
    )


def digits(cases: list[GradientCase], which: str) -> list[tuple[float, float]]:
    """(token, mean of -log10 of the error); rounding leaves some sixteen."""
    errors = np.array([getattr(case, which) for case in cases])  # (n, T)
    return [(float(t), float(-np.log10(np.maximum(errors[:, t], 1e-17)).mean())) for t in range(TOKENS)]


def completeness(run: LabRun, groups: dict[str, list[GradientCase]]) -> None:
    """What gradient x input sums to."""
    every = [case for cases in groups.values() for case in cases]
    gaps = [abs(case.sums[0] - case.f) / case.size for case in every]
    left = [
        max(abs(case.sums[0] - case.f - 2 * case.covariance), abs(case.sums[1] - case.f - case.covariance))
        / case.size
        for case in every
    ]
    value, span = mean_of(left)
    run.claim(
        "The sum of gradient x input minus the logit equals twice the covariance of score and value under "
        "the attention weights. If the query is a constant, it equals the covariance itself, not twice "
        "the covariance (value: relative error).",
        value=value,
        interval=span,
        against=float(np.mean(gaps)),
        control="relative size of the difference itself",
        holds=max(left) < 1e-10 and float(np.mean(gaps)) > 1e-3,
    )
    alone = [abs(case.values_alone - case.f) / case.size for case in every]
    value, span = mean_of(alone)
    run.claim(
        "Attention times value, without the gradient of attention, sums to the logit (value: relative "
        "error).",
        value=value,
        interval=span,
        against=float(np.mean(gaps)),
        control="relative error of gradient x input",
        holds=max(alone) < 1e-10,
    )
    real = groups["zoo:one-layer"]
    share = [abs(2 * case.covariance) / abs(case.f) for case in real]
    value, span = mean_of(np.log10(share))
    run.claim(
        "On the trained model, the sum of gradient x input is far from the logit: the difference, as a "
        "geometric mean over texts, is at least a tenth of the logit (value: share of the logit).",
        value=10**value,
        interval=(10 ** span[0], 10 ** span[1]),
        holds=span[0] > -1,
    )
    series = [
        Series(
            name, [(2 * case.covariance / case.size, (case.sums[0] - case.f) / case.size) for case in cases]
        )
        for name, cases in groups.items()
        if name in ("random, 6 heads", "zoo:one-layer")
    ]
    run.figure(
        "gap",
        Scatter(
            series,
            "twice the covariance of score and value, relative",
            "gradient x input minus logit, relative",
            "Gradient x input does not sum to the logit",
        ),
        "The sum of gradient x input minus the logit (vertical axis), and twice the covariance of score "
        "and value under the attention weights (horizontal axis). All points are on one line.",
    )
