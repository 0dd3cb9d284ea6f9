"""Misprints about LIME and its theory: the 3/2, the large-bandwidth corollary, the surrogate, the ratio lemma
(E1, E2, E16, E17), and a lemma on random subsets that is sound."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from heedful.core import registry
from heedful.engine.question import run_explainer
from heedful.labs.errata_checks.formula import Misprint, distance, texts
from heedful.models.load import load_token_model
from heedful.stats import enumeration, lime_first_order, lime_limit, ratio_game
from heedful.stats.lime_limit import PUBLISHED, psi
from heedful.stats.ratio_game import RatioGame


def drawn_head(d: int, spread: float, rng: np.random.Generator) -> RatioGame:
    """A head on d words: attention scores of this spread, values N(0, 1), and a class token always there."""
    g1, g0 = np.exp(spread * rng.normal(size=(2, d)))
    u1, u0 = rng.normal(size=(2, d))
    return RatioGame(n1=g1 * u1, n0=g0 * u0, g1=g1, g0=g0, always_n=float(rng.normal()), always_g=1.0)


def e1_equal_scores(seed: int, n: int) -> Misprint:
    """f is linear in z, so LIME is: its slopes are alpha v - alpha_h v_h, once."""
    rng = np.random.default_rng(seed)
    wrong, right = [], []
    for _ in range(n):
        game = drawn_head(8, 0.0, rng)
        truth = enumeration.lime(game(enumeration.every_mask(8)))[1]
        wrong.append(distance(lime_first_order.published(game), truth))
        right.append(distance(lime_first_order.centred(game), truth))
    return Misprint(
        number="E1",
        sentence="E1: with equal attention scores, LIME's coefficients are equal to the published sum "
        "without the factor 3/2.",
        printed="β_j ≈ 3/2 W(α v − α_h v_h)",
        correct="β_j = W(α v − α_h v_h) if the scores are equal",
        judge="LIME fitted by least squares to all subsets of 8 words",
        wrong=np.array(wrong),
        right=np.array(right),
        least=0.4,
    )


def e1_diffuse(seed: int, n: int) -> Misprint:
    rng = np.random.default_rng(seed)
    wrong, right = [], []
    for _ in range(n):
        game = drawn_head(99, 0.3, rng)
        truth = ratio_game.lime(game)
        wrong.append(distance(lime_first_order.published(game), truth))
        right.append(distance(lime_first_order.centred(game), truth))
    return Misprint(
        number="E1",
        sentence="E1: the factor 3/2 is also wrong for many words with little attention on each, which is "
        "the case that the theorem assumes.",
        printed="β_j ≈ 3/2 W(α v − α_h v_h)",
        correct="β_j ≈ W(g(v − v̄) − g_h(v_h − v̄)) / D̄, where v̄ and D̄ are computed with half of every word",
        judge="the exact limit of LIME for d = 99 words",
        wrong=np.array(wrong),
        right=np.array(right),
        least=0.3,
        most=0.05,  # a first order: attention has some spread
    )


def e1_removed(seed: int, n: int) -> Misprint:
    """Where the 3/2 comes from: the mean share of other words removed, given that word j is kept."""
    sizes = np.random.default_rng(seed).integers(20, 200, n)
    wrong, right = [], []
    for d in sizes.tolist():
        s = np.arange(1, d + 1)
        kept = np.array(
            [comb(d - 1, k) / comb(d, k) if k < d else 0.0 for k in s.tolist()]
        )  # P(j kept | s removed)
        truth = float(kept @ s / kept.sum() / (d - 1))
        wrong.append(distance(0.5, truth))
        _, a1, a2 = lime_limit.alphas(d, np.inf)  # P(j kept), P(j and k kept), up to one factor
        right.append(max(distance(1 - a2 / a1, truth), distance((d + 1) / (3 * (d - 1)), truth)))
    return Misprint(
        number="E1",
        sentence="E1: if a word is kept, on average a third of the other words is removed, not half. So the "
        "factor is 1, not 3/2.",
        printed="E[s/(d−1) | j kept] = 1/2",
        correct="E[s/(d−1) | j kept] = (d+1)/(3(d−1))",
        judge="the mean over all subsets, by counting them",
        wrong=np.array(wrong),
        right=np.array(right),
        least=0.3,
    )


def e2_corollary(seed: int, n: int) -> Misprint:
    rng, d = np.random.default_rng(seed), 8
    keep = enumeration.every_mask(d)[:-1]  # LIME always removes something
    chance = np.array([1 / comb(d, k) for k in range(d)])[keep.sum(1)]
    wrong, right = [], []
    for _ in range(n):
        values = rng.normal(size=1 << d)
        m = chance @ values[:-1] / chance.sum()
        given = np.array([(chance * z) @ values[:-1] / (chance @ z) for z in keep.T])  # E[f | j kept]
        truth = enumeration.lime(values, np.inf)[1]
        wrong.append(distance(3 * given - 3 / d * given.sum(), truth))
        exact = 3 * (d - 1) / (d + 1) * given - 3 * (d - 3) / (d * (d + 1)) * given.sum() - 6 / (d + 1) * m
        ours = lime_limit.limit(
            m, np.array([chance * z @ values[:-1] for z in keep.T]) / chance.sum(), np.inf
        )
        right.append(max(distance(exact, truth), distance(ours[1], truth)))
    return Misprint(
        number="E2",
        sentence="E2: the corollary about LIME with a large bandwidth is not exact for a finite number of "
        "words.",
        printed="β_j = 3E[f | j] − 3/d Σ_k E[f | k]",
        correct="β_j = 3(d−1)/(d+1) E[f | j] − 3(d−3)/(d(d+1)) Σ_k E[f | k] − 6/(d+1) E[f]",
        judge="LIME fitted by least squares to all subsets of 8 words, for random f",
        wrong=np.array(wrong),
        right=np.array(right),
    )


def e16_intercept(seed: int, n: int) -> Misprint:
    """A line with an offset: without an intercept the offset is shared out among the words."""
    rng, d = np.random.default_rng(seed), 8
    keep = enumeration.every_mask(d)
    wrong, right = [], []
    for _ in range(n):
        truth = rng.normal(size=d)
        values = rng.uniform(1, 2) + keep @ truth
        chance = np.array([1 / comb(d, k) for k in range(d)])[keep[:-1].sum(1)]
        root = np.sqrt(chance * psi(1 - keep[:-1].mean(1), PUBLISHED))
        bare = np.linalg.lstsq(keep[:-1] * root[:, None], values[:-1] * root, rcond=None)[0]
        wrong.append(distance(bare, truth))
        right.append(distance(enumeration.lime(values)[1], truth))
    return Misprint(
        number="E16",
        sentence="E16: without an intercept, LIME assigns the constant part of the output to words.",
        printed="β in R^d, no intercept",
        correct="an intercept in addition to β in R^d",
        judge="the true slopes of a random linear function",
        wrong=np.array(wrong),
        right=np.array(right),
    )


def e16_masks(seed: int, n: int) -> Misprint:
    """Texts of four words at nine places: one indicator a word, or one per place, added up by word."""
    rng, model, entry = np.random.default_rng(seed), load_token_model("zoo:one-layer"), registry.get("lime")
    known = sorted({word for text in texts(50, seed) for word in text.split() if word.isalpha()})
    settings = {"samples": 600, "precision": 0.0, "operator": "unk"}  # 2^9 rows: nothing is drawn
    wrong: list[float] = []
    right: list[float] = []
    for _ in range(n):
        places = rng.permutation([*range(4), *rng.integers(4, size=5)])
        x = model.encode(" ".join(rng.choice(known, 4, replace=False)[places]))
        target = model.target(x)
        truth = enumeration.lime(model.values(x, target, enumeration.every_mask(4)[:, places], "unk"))[1]
        for bag, result in ((False, wrong), (True, right)):
            scores = run_explainer(entry, model, x, target, bag=bag, **settings).scores
            each = [float(scores[group].sum()) for group in x.units("word")]
            result.append(distance(np.bincount(places, weights=each), truth))
    return Misprint(
        number="E16",
        sentence="E16: LIME has one indicator for each distinct word, not for each position. So all copies "
        "of a word are removed together.",
        printed="Z in {0,1}^T, T positions",
        correct="Z in {0,1}^d, d distinct words",
        judge="LIME fitted by least squares to zoo:one-layer, on texts with nine positions but only four "
        "distinct words; all subsets of the four words are used",
        wrong=np.array(wrong),
        right=np.array(right),
        least=1e-4,  # words of little weight: some texts hardly tell the two apart
        most=1e-5,  # the model answers in float32
    )


def e17_ratio_lemma(seed: int, n: int) -> Misprint:
    """Read with |X| <= C and Y >= c n: by how much of the bound is |E[X/Y] - E[X]/E[Y]| above it?"""
    rng = np.random.default_rng(seed)
    wrong, right = [], []
    for _ in range(n):
        floor, most = rng.uniform(1, 2), rng.uniform(0.05, 0.2)  # c n, C
        y = floor * (1 + rng.uniform(0, 0.3, 50))
        x = -most * np.sign(y.mean() - y)  # the difference is negative
        gap, sd = abs(float((x / y).mean() - x.mean() / y.mean())), float(y.std())
        printed = most * sd**2 / floor**3 + most**2 * sd / floor**2
        wrong.append(max(gap / printed - 1, 0.0))
        right.append(max(gap / (most * sd / floor**2) - 1, 0.0))
    return Misprint(
        number="E17",
        sentence="E17: the difference in the ratio lemma can be negative, and its absolute value can exceed "
        "the printed bound. Another bound is valid for the absolute value.",
        printed="E[X/Y] − E[X]/E[Y] ≤ C Var(Y)/(cn)³ + C² sd(Y)/(cn)²",
        correct="|E[X/Y] − E[X]/E[Y]| ≤ C sd(Y)/(cn)²",
        judge="distributions of 50 points with |X| ≤ C and Y ≥ cn; the error is the part of the difference "
        "above the bound, divided by the bound (heedful's code does not use this lemma)",
        wrong=np.array(wrong),
        right=np.array(right),
    )


def ok_subset_sums(seed: int, n: int) -> Misprint:
    """Sound: mean and variance of a sum over a random subset; 1/(n-1) for 1/n would be a misprint."""
    rng, size = np.random.default_rng(seed), 9
    wrong, right = [], []
    for _ in range(n):
        h, s = rng.normal(size=size), int(rng.integers(2, size - 1))
        sums = np.array([h[list(chosen)].sum() for chosen in combinations(range(size), s)])
        truth = np.array([sums.mean(), sums.var()])
        factor = s * (size - s) / (size - 1)
        right.append(distance([s * h.mean(), factor * h.var()], truth))
        wrong.append(distance(factor * h.var(ddof=1), truth[1]))
    return Misprint(
        number="OK",
        sentence="Correct as printed: the lemma on sums over random subsets, which uses the variance with "
        "1/n (number: error of the wrong form).",
        printed="the variance with 1/(n−1)",
        correct="E = s h̄, Var = s(n−s)/(n−1) · 1/n Σ(h − h̄)²",
        judge="all subsets of 9 numbers (heedful's code does not use this lemma)",
        wrong=np.array(wrong),
        right=np.array(right),
    )


CHECKS = (
    e1_equal_scores,
    e1_diffuse,
    e1_removed,
    e2_corollary,
    e16_intercept,
    e16_masks,
    e17_ratio_lemma,
    ok_subset_sums,
)
