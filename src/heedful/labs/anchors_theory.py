"""Anchors without a search: on a linear rule, and on one head of attention, theory says which words do.

An anchor A keeps its words; every other is removed with probability 1/2. With weights w_t towards the answer:

    precision(A) ~ Phi((bias + sum_A w + 1/2 sum_{not A} w) / sqrt(1/4 sum_{not A} w^2))

Linear      TF-IDF and logistic regression: w_t = lambda_j idf_j at each place of word j.
One head    f = N / D with D > 0: the sign of f is that of N, which is linear, w_t = n_t - n_{h,t} (h: UNK).
            With several heads, whose denominators differ, it is not.

Shown: predicted against true precision; the error as texts grow (Berry-Esseen); the anchors that the search
of Ribeiro et al. finds against the words of the largest weights, which are the best anchor of every size, and
against the shortest anchor that the Gaussian foretells.

Lopardo, Precioso & Garreau, A Sea of Words: An In-Depth Analysis of Anchors for Text Data, AISTATS 2023;
Ribeiro, Singh & Guestrin, Anchors: High-Precision Model-Agnostic Explanations, AAAI 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from scipy import stats

import heedful
from heedful.core.charts import Curve, Curves, Scatter, Series
from heedful.engine.question import run_explainer
from heedful.explainers.exact_one_layer import games
from heedful.labs.base.claims import claim_mean
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.data.anchor_cases import AnchorCase, bag_case, chosen, head_case, one_head
from heedful.labs.data.reviews import reviews
from heedful.labs.models.tfidf import TfidfModel, fit_tfidf, words
from heedful.models.load import load_token_model
from heedful.nn.one_layer import OneLayerClassifier
from heedful.stats import linear_anchors
from heedful.stats.intervals import UNIT, share_of
from heedful.stats.lime_limit import Floats
from heedful.stats.linear_anchors import LinearRule

THRESHOLD = 0.95
LAWS = (linear_anchors.exact, linear_anchors.gaussian)
LENGTHS = (10, 20, 40, 80, 160)
SIDES = {
    "overlap with the words of the largest weights": "overlap",
    "overlap with random words": "overlap_chance",
    "share equal to the predicted anchor": "same",
    "the same share with shuffled weights": "same_chance",
}
SAME = (0.15, 0.4)  # of the texts at least, linear and one head: the anchor found is the one foretold


@lab(
    "anchors-theory",
    title="Anchors on linear and one-head attention classifiers",
    minutes=1.0,
    cite="Lopardo, Precioso & Garreau 2023; Ribeiro, Singh & Guestrin 2018",
)
def anchors_theory(run: LabRun) -> None:
    count = 30 if run.fast else 100
    rng = np.random.default_rng(run.seed)
    texts = [reviews("held")[i].text for i in rng.permutation(len(reviews("held")))]
    train = [reviews("train")[i] for i in rng.permutation(len(reviews("train")))]
    bag = fit_tfidf(train[:2000] if run.fast else train)
    zoo = load_token_model("zoo:one-layer")
    assert isinstance(zoo.module, OneLayerClassifier)
    single = heedful.load(one_head(zoo.module, 0), tokenizer=zoo)
    cases = {
        "linear": chosen(texts, lambda text: bag_case(bag, text), count),
        "one-head": chosen(texts, lambda text: head_case(single, text), count),
    }
    run.say(
        "The lab uses two classifiers of film reviews. The linear one is TF-IDF with logistic regression, "
        "trained here. The one-head classifier has a single attention head, taken from zoo:one-layer; its "
        "answer depends only on the sign of a sum over the words. This sum is called its linear rule. Each "
        f"classifier reads {count} short reviews, chosen among those whose answer depends on their words."
    )
    run.say(
        "The precision of an anchor is the probability that the answer stays the same if the words of the "
        "anchor are kept and every other word is removed with probability 1/2."
    )
    same_sign(run, cases["one-head"], zoo, rng)
    precisions(run, cases)
    growing(run, bag, texts, rng)
    searched(run, cases)


def same_sign(run: LabRun, cases: list[AnchorCase], zoo: Any, rng: np.random.Generator) -> None:
    """Whether the answer follows the linear rule on texts with words removed at random."""
    wrong, spread = [], []
    for number, case in enumerate(cases):
        run.progress(number, len(cases), "answers of the linear rule")
        keep = rng.random((200, len(case.rule.weights))) < 0.5
        margin = replace(case.target, contrast=1 - case.target.index)
        values = case.model.values(case.x, margin, keep, case.operator, "word")
        wrong.append(float(np.mean((values > 0) != (case.rule(keep) > 0))))
        answer = zoo.target(case.x)
        whole = replace(answer, contrast=1 - answer.index)
        heads = games(zoo, case.x, whole, "word")
        added = sum(linear_anchors.of_head(head)(keep) / (head.always_g + head.g1.sum()) for head in heads)
        spread.append(float(np.mean((np.mean([head(keep) for head in heads], 0) > 0) != (added > 0))))
    run.claim(
        "A model with one attention head gives the same answers as its linear rule, whichever words are "
        "removed (number: largest share of different answers).",
        value=max(wrong),
        exact=True,
        holds=max(wrong) == 0.0,
        against=float(np.mean(spread)),
        control="mean share with six heads",
    )
    claim_mean(
        run,
        "With six heads, the model and the sum of the linear rules of its heads give different answers "
        "for some texts with removed words (number: mean share of such texts).",
        spread,
        above=0.0,
        limits=UNIT,
        against=float(np.mean(wrong)),
        control="mean share with one head",
    )


def precisions(run: LabRun, cases: dict[str, list[AnchorCase]]) -> None:
    """Predicted against counted precision: no anchor, every single word, and the best few."""
    series, rows = [], []
    for (name, some), bound in zip(cases.items(), (0.06, 0.12), strict=True):
        pairs = [precision_pairs(case.rule) for case in some]  # each (anchors, 2): Gaussian, exact
        off = np.array([np.abs(each[:, 0] - each[:, 1]).mean() for each in pairs])
        flat = np.array([constant_error(each[:, 1]) for each in pairs])
        every = np.concatenate(pairs)
        series.append(Series(name, [(a, b) for a, b in every[:: max(1, len(every) // 300)].tolist()]))
        alike = float(stats.pearsonr(every[:, 0], every[:, 1]).statistic)
        rows.append([name, len(every), float(off.mean()), float(flat.mean()), alike])
        claim_mean(
            run,
            f"For the {name} classifier, the Gaussian approximation predicts the precision of anchors with "
            f"a mean error below {bound}.",
            off,
            below=bound,
            limits=UNIT,
            against=float(flat.mean()),
            control="mean error of the best constant prediction for each text",
        )
    run.table(
        "Precision by the Gaussian approximation, compared with the exact precision",
        ["classifier", "anchors", "mean error", "mean error of the best constant", "correlation"],
        rows,
    )
    run.say(
        "The attention weights of a head are exponentials of its scores. So a few words contribute most of "
        "the sum, and its distribution is less Gaussian than that of the linear classifier."
    )
    run.figure(
        "precision",
        Scatter(series, "predicted precision", "exact precision", "Precision of anchors"),
        "Predicted and exact precision of anchors in short reviews: the empty anchor, every single word, and "
        "the best two, three and four words. Only some of the anchors are plotted.",
    )


def constant_error(precisions: Floats) -> float:
    """Mean error of one number for all, the best one: the median."""
    return float(np.abs(precisions - np.median(precisions)).mean())


def precision_pairs(rule: LinearRule) -> Floats:
    """(anchors, 2)"""
    order = np.argsort(-rule.weights).tolist()
    anchors = [(), *((t,) for t in np.flatnonzero(rule.weights).tolist()), *(order[:k] for k in (2, 3, 4))]
    return np.array([[linear_anchors.gaussian(rule, a), linear_anchors.exact(rule, a)] for a in anchors])


def growing(run: LabRun, bag: TfidfModel, texts: list[str], rng: np.random.Generator) -> None:
    """How far the sum of what comes and goes is from a normal law, as texts grow: largest gap of the laws."""
    count, draws = (24, 8000) if run.fast else (60, 40000)
    known = [bag.weights[w] for text in texts for w in words(text.lower()) if w in bag.weights]
    gaps = np.empty((count, len(LENGTHS)))
    for i in range(count):
        run.progress(i, count, "longer texts")
        for k, length in enumerate(LENGTHS):
            start = int(rng.integers(len(known) - length))
            gaps[i, k] = normal_gap(np.array(known[start : start + length]), draws, rng)
    mean, error = gaps.mean(0), gaps.std(0, ddof=1) / np.sqrt(count)
    points = list(zip(LENGTHS, mean.tolist(), strict=True))
    run.figure(
        "lengths",
        Curves(
            [Curve("largest distance", points, (mean - 2 * error).tolist(), (mean + 2 * error).tolist())],
            "words of the text with a weight",
            "distance between the distributions",
            "The Gaussian approximation is better for longer texts",
            log="xy",
            better="low",
        ),
        "Largest distance between the distribution function of the sum and that of the normal distribution "
        f"with the same mean and variance; mean over texts. With {draws} samples, distances below about "
        f"{0.87 / np.sqrt(draws):.3f} cannot be measured.",
    )
    claim_mean(
        run,
        "The Gaussian approximation is better for longer texts: with 160 words, the distance between the "
        "distributions is less than half of that with 10 words (number: distance with 10 words minus twice "
        "the distance with 160 words).",
        gaps[:, 0] - 2 * gaps[:, -1],
        above=0.0,
        against=float(gaps[:, -1].mean()),
        control="distance with 160 words",
    )


def normal_gap(weights: Floats, draws: int, rng: np.random.Generator) -> float:
    """Kolmogorov's distance of sum w_t z_t, standardised, from the normal law."""
    kept = rng.random((draws, len(weights))) < 0.5
    sums = (kept @ weights - weights.sum() / 2) / np.sqrt(np.square(weights).sum() / 4)
    return float(stats.kstest(sums, "norm").statistic)


def searched(run: LabRun, cases: dict[str, list[AnchorCase]]) -> None:
    """The search that knows nothing of weights, against what the weights foretell."""
    rows = []
    for (name, some), least in zip(cases.items(), SAME, strict=False):
        met = []
        for number, case in enumerate(some):
            run.progress(number, len(some), f"anchors ({name})")
            numbers = anchor_of(case, 1500 if run.fast else 4000, run.seed)
            met.append(Met.of(case.rule, numbers, np.random.default_rng([run.seed, number])))
        rows.append(
            [name, *np.mean([[*m.lengths, m.precision] for m in met], axis=0).tolist()]
            + [fmean(getattr(m, side) for m in met) for side in SIDES.values()]
        )
        found_claims(run, name, least, met)
    lengths = [f"words in the {which} anchor" for which in ("found", "shortest", "predicted")]
    columns = ["classifier", *lengths, "exact precision of the found anchor", *SIDES]
    run.table(
        "Anchors found by the search, and the shortest anchors predicted by the Gaussian approximation",
        columns,
        rows,
    )
    run.say(
        "If the found and the predicted anchor differ, the search usually stopped one word earlier. The "
        f"search accepts an anchor if its estimated precision is at least {THRESHOLD} and its true "
        "precision is, with high confidence, at most 0.05 lower. If no anchor is accepted before all "
        "samples are used, the search returns the best anchor so far."
    )


def found_claims(run: LabRun, name: str, least: float, met: Sequence[Met]) -> None:
    """The words of the largest weights; and, of so many texts at least, the very anchor foretold."""
    claim_mean(
        run,
        f"For the {name} classifier, the search finds the words with the largest weights: the mean overlap "
        "is above 0.4 (overlap: shared words divided by all words of both sets).",
        [m.overlap for m in met],
        above=0.4,
        against=fmean(m.overlap_chance for m in met),
        control="overlap with the same number of random words",
        limits=UNIT,
    )
    (value, span), dealt = share_of([m.same for m in met]), fmean(m.same_chance for m in met)
    run.claim(
        f"For the {name} classifier, in over {least:.0%} of the texts the search returns exactly the "
        "shortest anchor that the Gaussian approximation predicts.",
        value=value,
        interval=span,
        holds=span[0] > max(least, dealt),
        against=dealt,
        control="share if the weights are shuffled among the words",
    )


@dataclass(frozen=True)
class Met:
    """The anchor found in one text, and how it meets what is foretold."""

    lengths: tuple[int, int, int]  # found, shortest, shortest by the Gaussian
    precision: float  # of the anchor found, counted
    overlap: float  # with as many words of the largest weights
    overlap_chance: float  # with as many words at random
    same: bool  # the words of the Gaussian's shortest anchor
    same_chance: bool  # of that of the same weights in another order

    @classmethod
    def of(cls, rule: LinearRule, found: Sequence[int], rng: np.random.Generator) -> Met:
        best, order = np.argsort(-rule.weights).tolist(), rng.permutation(len(rule.weights))
        shortest, foretold = (linear_anchors.shortest(rule, THRESHOLD, law) for law in LAWS)
        dealt = linear_anchors.shortest(replace(rule, weights=rule.weights[order]), THRESHOLD, LAWS[1])
        return cls(
            (len(found), len(shortest), len(foretold)),
            linear_anchors.exact(rule, found),
            jaccard(found, best[: len(found)]),
            jaccard(found, order.tolist()[: len(found)]),
            {*found} == {*foretold},
            {*found} == {*dealt},
        )


def anchor_of(case: AnchorCase, samples: int, seed: int) -> list[int]:
    """Positions of the anchor that the search finds."""
    settings = {"threshold": THRESHOLD, "samples": samples, "operator": case.operator, "seed": seed}
    attribution = run_explainer("anchors", case.model, case.x, case.target, **settings)
    return [u for u, group in enumerate(case.x.units("word")) if attribution.scores[group].any()]


def jaccard(a: Sequence[int], b: Sequence[int]) -> float:
    """Shared by all; 1 for two that are empty."""
    return len({*a} & {*b}) / len({*a} | {*b}) if a or b else 1.0
