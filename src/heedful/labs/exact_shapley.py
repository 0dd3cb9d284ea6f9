"""Exact Shapley values, Banzhaf values and LIME coefficients of an attention classifier, without sampling.

A word is present, or the unknown-word token stands in its place. One head is then a ratio of two sums over
words, f = N(z) / D(z), and a text of d words has 2^d versions. None of them is run, because

    1 / D = int_0^inf exp(-x D) dx                 is a product over words under the integral, and
    choosing how many words stay, then which,      is a mixture of coin tosses of one probability p

so the mean of f over all versions, with word j or without, is a double integral that two quadrature rules do
to rounding (heedful.stats.ratio_game):

    Shapley   int_0^1 E_p[f | j] - E_p[f | no j] dp        Banzhaf   the integrand at p = 1/2
    LIME      the slopes of a line, from the same means    heads     are averaged: all three are linear in f

Checked against the definitions, on every subset of short texts, and used on long ones as the truth that
KernelSHAP, which samples, should come to. Drawn: the explanations of one sentence; KernelSHAP's error.

Shapley 1953; Banzhaf 1965; Owen 1972; Lundberg & Lee 2017 (KernelSHAP); Lopardo et al. 2024 (the model).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.charts import BarGroup, Bars, Curve, Curves
from heedful.core.target import Target
from heedful.engine.question import run_explainer
from heedful.explainers.exact_one_layer import games
from heedful.explainers.kernel_shap import shapley_law
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.data.reviews import reviews
from heedful.modalities.text import TextInput
from heedful.models.load import load_token_model
from heedful.nn import OneLayerClassifier
from heedful.stats import enumeration, ratio_game
from heedful.stats.intervals import NORMAL_QUANTILE, POSITIVE, UNIT, mean_of
from heedful.stats.lime_limit import Masks
from heedful.stats.ratio_game import RatioGame

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

SENTENCE = "attention based explanations are popular but questionable"
EXACT: dict[str, Callable[[RatioGame], Floats]] = {
    "Shapley": ratio_game.shapley,
    "Banzhaf": ratio_game.banzhaf,
    "LIME (bandwidth 0.25)": ratio_game.lime,
    "LIME (no kernel)": lambda game: ratio_game.lime(game, np.inf),
}
BRUTE: dict[str, Callable[[Floats], Floats]] = {
    "Shapley": enumeration.shapley,
    "Banzhaf": enumeration.banzhaf,
    "LIME (bandwidth 0.25)": lambda values: enumeration.lime(values)[1],
    "LIME (no kernel)": lambda values: enumeration.lime(values, np.inf)[1],
}


@lab(
    "exact-shapley",
    title="Exact Shapley values of an attention classifier, without sampling",
    minutes=2.0,
    cite="Shapley 1953; Owen 1972; Lundberg & Lee 2017; Lopardo, Precioso & Garreau 2024",
)
def exact_shapley(run: LabRun) -> None:
    rng = np.random.default_rng(run.seed)
    model = in_float64(load_token_model("zoo:one-layer"))
    run.say(
        "The model is zoo:one-layer, which has six heads, in float64. The explained output is the logit of "
        "the answer. An absent word is replaced by the unknown-word token."
    )
    one_sentence(run, model)
    against_brute_force(run, model, rng)
    against_sampling(run, model, rng)


def in_float64(model: TokenModel) -> TokenModel:
    """The same weights in double precision."""
    theirs = model.module
    assert isinstance(theirs, OneLayerClassifier)
    module = OneLayerClassifier(theirs.config).double()
    module.load_state_dict(theirs.state_dict())
    return load_token_model(module.eval(), tokenizer=model, labels=model.labels)


def solved(model: TokenModel, x: TextInput, target: Target, solve: Callable[[RatioGame], Floats]) -> Floats:
    """(d,) the mean over heads of each head's solution."""
    return np.asarray(np.mean([solve(game) for game in games(model, x, target, "word")], axis=0))


def of_words(scores: Floats | None, x: TextInput) -> Floats:
    """(T,) of tokens -> (d,) of words; a word's standard error is spread over its tokens, too."""
    assert scores is not None
    return x.units("word").sums(scores)


def distance(found: Floats, truth: Floats) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def texts(words: range, count: int, rng: np.random.Generator) -> list[str]:
    """Film reviews, or several joined, of as many words as asked."""
    held = [review.text for review in reviews("held")]
    lines: list[str] = []
    while len(lines) < count:
        text = ""
        while len(text.split()) < words.start:
            text = f"{text} {held[int(rng.integers(len(held)))]}".strip()
        lines.append(" ".join(text.split()[: words.stop - 1]))
    return lines


def one_sentence(run: LabRun, model: TokenModel) -> None:
    x = model.encode(SENTENCE)
    target = model.target(x, "positive")
    names = [x.word_text(word) for word in range(len(x.word_spans))]
    results = {name: solved(model, x, target, solve) for name, solve in EXACT.items()}
    rows = [[word, *(values[j] for values in results.values())] for j, word in enumerate(names)]
    run.table(f"Exact scores of the words of “{SENTENCE}” for the label positive", ["word", *results], rows)
    groups = [
        BarGroup(word, [float(values[j]) for values in results.values()]) for j, word in enumerate(names)
    ]
    run.figure(
        "sentence",
        Bars(groups, list(results), "score for the label positive (logit)", "Four exact explanations"),
        "Exact scores of every word by four methods.",
    )


def against_brute_force(run: LabRun, model: TokenModel, rng: np.random.Generator) -> None:
    """Every subset of short texts, run through the model itself."""
    most, count = (8, 4) if run.fast else (12, 12)
    errors: dict[str, list[float]] = {name: [] for name in EXACT}
    apart: list[float] = []  # of two different games: what a wrong game would miss by
    whole: list[float] = []
    for done, text in enumerate(texts(range(most - 2, most), count, rng)):
        run.progress(done, count, "every subset")
        x = model.encode(text)
        target = model.target(x)
        values = model.values(x, target, enumeration.every_mask(len(x.units("word"))), "unk")
        want = {name: solve(values) for name, solve in BRUTE.items()}
        for name, solve in EXACT.items():
            size = np.abs(want[name]).max()
            errors[name].append(float(np.abs(solved(model, x, target, solve) - want[name]).max() / size))
        apart.append(float(np.abs(want["Banzhaf"] - want["Shapley"]).max() / np.abs(want["Shapley"]).max()))
        total = float(solved(model, x, target, ratio_game.shapley).sum())
        whole.append(abs(total - (values[-1] - values[0])) / max(abs(total), 1.0))
    run.table(
        "Largest difference between quadrature and all subsets, relative to the largest score",
        ["explanation", "mean over texts", "worst text"],
        [[name, np.mean(result), max(result)] for name, result in errors.items()],
    )
    for name, result in errors.items():
        value, span = mean_of(result, POSITIVE)
        run.claim(
            f"{name}: the quadrature (numerical integration) gives the same scores as the calculation over "
            "all subsets of the words (number: largest relative difference, mean over texts).",
            value=value,
            interval=span,
            holds=bool(max(result) < 1e-8 and min(apart) > 1e-6),
            against=float(np.mean(apart)),
            control="difference between Banzhaf and Shapley values",
        )
    value, span = mean_of(whole, POSITIVE)
    run.claim(
        "The exact Shapley values sum to the difference between the logit with all words and the logit "
        "without words (number: relative error).",
        value=value,
        interval=span,
        holds=bool(max(whole) < 1e-10),
    )


def published_kernel_shap(
    ask: Callable[[Masks], Floats], d: int, rows: int, rng: np.random.Generator
) -> Floats:
    """KernelSHAP as published: subsets drawn by the Shapley kernel, then a line through both ends."""
    law = shapley_law(d)
    kept = rng.choice(d + 1, rows - 2, p=law / law.sum())
    keep = rng.random((rows - 2, d)).argsort(1) < kept[:, None]
    everything, nothing = ask(np.repeat([[True], [False]], d, axis=1)).tolist()
    gap, share = everything - nothing, keep.mean(1)
    design, rest = keep - share[:, None], ask(keep) - nothing - gap * share  # what an even split leaves over
    return np.asarray(np.linalg.lstsq(design, rest, rcond=None)[0] + gap / d)


def against_sampling(run: LabRun, model: TokenModel, rng: np.random.Generator) -> None:
    """KernelSHAP on long texts, whose 2^d versions nobody can run, held to the exact values."""
    words, count = (range(20, 24), 5) if run.fast else (range(55, 65), 12)
    budgets = (256, 724, 2048) if run.fast else (256, 512, 1024, 2048, 4096, 8192)
    again = 40 if run.fast else 25  # runs per text with the fewest rows, for the intervals
    times = 5 if run.fast else 1  # runs per text and budget: few texts leave the slope of the error vague
    plain, ours = np.zeros((2, count, len(budgets)))
    covered = np.zeros((count, again))
    seconds = []
    for i, text in enumerate(texts(words, count, rng)):
        run.progress(i, count, "KernelSHAP")
        x = model.encode(text)
        target, d = model.target(x), len(x.units("word"))
        began = time.perf_counter()
        truth = solved(model, x, target, ratio_game.shapley)
        seconds.append(time.perf_counter() - began)
        ask = partial(model.values, x, target, operator="unk")
        for b, rows in enumerate(budgets):
            off = [distance(published_kernel_shap(ask, d, rows, rng), truth) for _ in range(times)]
            plain[i, b] = np.exp(np.mean(np.log(off)))
            result = sampled(model, x, target, rows, rng)
            ours[i, b] = distance(of_words(result.scores, x), truth)
        for r in range(again):
            result = sampled(model, x, target, budgets[0], rng)
            covered[i, r] = held(of_words(result.scores, x), of_words(result.stderr, x), truth)
    run.table(
        f"Mean relative error of the Shapley values of {count} texts with {words.start} to {words.stop - 1} "
        "words",
        ["model inputs", "published KernelSHAP", "heedful's kernel-shap"],
        [[rows, plain[:, b].mean(), ours[:, b].mean()] for b, rows in enumerate(budgets)]
        + [["none (quadrature)", 0.0, 0.0]],
    )
    run.say(
        f"The exact values of such a text took {np.mean(seconds):.2g} seconds and needed no model input. To "
        f"test how often the intervals contain the exact value, heedful's kernel-shap was run {again} more "
        f"times on each text, with {budgets[0]} model inputs."
    )
    sampling_claims(run, budgets, plain, ours, covered.ravel())


def sampled(
    model: TokenModel, x: TextInput, target: Target, rows: int, rng: np.random.Generator
) -> Attribution:
    """heedful's kernel-shap with so many rows, no early stop."""
    settings = {"samples": rows, "precision": 0.0, "operator": "unk", "seed": int(rng.integers(2**31))}
    return run_explainer("kernel-shap", model, x, target, **settings)


def held(scores: Floats, stderr: Floats, truth: Floats) -> float:
    """The share of words whose 95 % interval holds the truth."""
    return float(np.mean(np.abs(scores - truth) <= NORMAL_QUANTILE * stderr))


def sampling_claims(
    run: LabRun, budgets: tuple[int, ...], plain: Floats, ours: Floats, covered: Floats
) -> None:
    """Errors (texts, budgets) of both estimators; covered (runs,): the share of ours whose intervals held."""
    value, span = mean_of([np.polyfit(np.log(budgets), np.log(row), 1)[0] for row in plain])
    run.claim(
        "The error of the published KernelSHAP is roughly inversely proportional to the square root of "
        "the number of model inputs (number: slope in a plot of both logarithms).",
        value=value,
        interval=span,
        against=-0.5,
        control="slope if exactly inversely proportional",
        holds=abs(value + 0.5) < 0.15 and span[0] > -0.8 and span[1] < -0.2,
    )
    value, span = mean_of(np.log(plain[:, 0]))
    run.claim(
        "With a few hundred model inputs, the relative error of the published KernelSHAP is still above one "
        "per cent (number: geometric mean over texts).",
        value=np.exp(value),
        interval=(np.exp(span[0]), np.exp(span[1])),
        holds=bool(span[0] > np.log(0.01)),
        against=0.0,
        control="error of the exact values",
    )
    value, span = mean_of(np.log(plain / ours).mean(1))
    run.claim(
        "With the same number of model inputs, heedful's kernel-shap is closer to the exact values than the "
        "published KernelSHAP (number: ratio of the errors, geometric mean).",
        value=np.exp(value),
        interval=(np.exp(span[0]), np.exp(span[1])),
        holds=span[0] > 0,
        against=1.0,
        control="ratio for equal errors",
    )
    value, span = mean_of(covered, UNIT)  # words of one run are not independent; runs are
    run.claim(
        "The 95 % intervals of heedful's kernel-shap contain the exact value about as often as they "
        "should: for more than 90 % and less than 99 % of the words.",
        value=value,
        interval=span,
        holds=span[0] > 0.9 and span[1] < 0.99,
        against=0.95,
        control="nominal share",
    )
    lines = [
        Curve(name, [(float(rows), float(result[:, b].mean())) for b, rows in enumerate(budgets)])
        for name, result in {"published KernelSHAP": plain, "heedful's kernel-shap": ours}.items()
    ]
    run.figure(
        "convergence",
        Curves(lines, "model inputs", "relative error", "Sampled Shapley values", log="xy", better="low"),
        "Relative distance of sampled Shapley values to the exact ones, mean over texts.",
    )
