"""Seven explainers, one sentence, several answers; and what evidence says about them.

The sentence and the seven methods are those of Lopardo, Precioso & Garreau 2024, figure 1: attention (mean
and maximum over heads), LIME, and the gradient as mean, L1 norm, L2 norm and times input. The model is
zoo:one-layer.

    agreement   Kendall's tau between two rankings of the words; signed scores where both have signs, else
                their sizes
    evidence    comprehensiveness: how far the logit falls when the best-ranked words are deleted, as skill:
                (value - random orders) / (best order found - random orders)

One sentence ranks nobody, so agreement and evidence are also measured on held-out film reviews, and beside
the agreement of two methods stands that of one with itself: LIME, which draws, run again with another seed.

Lopardo, Precioso & Garreau, Attention Meets Post-hoc Interpretability, ICML 2024; Krishna et al., The
Disagreement Problem in Explainable Machine Learning, 2022; Neely et al. 2021 (agreement does not say who is
right).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

import heedful
from heedful.comparisons import agreement
from heedful.comparisons.result import Comparison
from heedful.core.arrays import Floats
from heedful.core.charts import BarGroup, Bars, Heat, Panel, Scored, WordGrid
from heedful.core.model import Model
from heedful.core.phrases import listed
from heedful.labs.base.claims import claim_mean
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.data.reviews import reviews
from heedful.metrics.score import score_explanations
from heedful.stats.intervals import SIGNED, max_t

SENTENCE = "attention based explanations are popular but questionable"
SEVEN = ("attention-avg", "attention-max", "lime", "grad-avg", "grad-l1", "grad-l2", "grad-x-input")
KINDS = {"attention": SEVEN[:2], "gradient size": SEVEN[4:6], "direction": ("lime", "grad-x-input")}
METRIC = "comprehensiveness"
FAST = 40  # reviews of a fast run
ALL_TEXTS = {"lime": {"precision": 0.0}}  # no early stop: seven words have 128 texts, and all are run


@lab(
    "disagreement",
    title="Seven explainers on one sentence",
    minutes=0.8,
    cite="Lopardo, Precioso & Garreau 2024; Krishna et al. 2022",
)
def disagreement(run: LabRun) -> None:
    model = heedful.load("zoo:one-layer")
    comparison = heedful.explain(
        model, SENTENCE, SEVEN, seed=run.seed, params=ALL_TEXTS, evidence=False, keep_partial=False
    )
    one_sentence(run, comparison)
    count = FAST if run.fast else 200
    rng = np.random.default_rng(run.seed)
    texts = [reviews("held")[i].text for i in rng.permutation(len(reviews("held")))[:count]]
    result, again, skills = [], [], []
    for number, text in enumerate(texts):
        run.progress(number, count, "reviews")
        each = heedful.explain(model, text, SEVEN, seed=run.seed, evidence=False, keep_partial=False)
        other = heedful.explain(
            model, text, ["lime"], seed=run.seed + count, evidence=False, keep_partial=False
        )
        result.append(matrix_of(each)[np.triu_indices(len(SEVEN), 1)])
        again.append(agreement.kendall(*(one["lime"].unit_scores() for one in (each, other))))
        skills.append(skill(model, each, run.seed))
    many_agree(run, np.array(result), np.array(again), matrix_of(comparison))
    evidence(run, np.array(skills))


def one_sentence(run: LabRun, told: Comparison) -> None:
    """Scores of each method, and the matrix of agreement."""
    words = [word.text for word in told["lime"].words()]
    scores = {name: scaled(told, name) for name in SEVEN}
    run.say(
        f'''The sentence is "{SENTENCE}". The answer of the model is {told["lime"].target.label}. '''
        "Positive scores support this answer."
    )
    run.table(
        "Scores, divided by the largest score of each method",
        ["word", *SEVEN],
        [[word, *(float(scores[name][i]) for name in SEVEN)] for i, word in enumerate(words)],
    )
    names, values = told.agreement()
    chosen = [names.index(name) for name in SEVEN]
    matrix = values[np.ix_(chosen, chosen)]
    run.table(
        "Agreement of two methods on the sentence (Kendall's tau)",
        ["", *SEVEN],
        [[a, *row] for a, row in zip(SEVEN, matrix, strict=True)],
    )
    run.figure(
        "sentence",
        WordGrid(words, [Scored(n, scores[n].tolist(), told[n].signed) for n in SEVEN], SENTENCE),
        "Scores, divided by the largest score of each method. Blue words support the answer, orange words "
        "are against it. Purple methods have no sign: they show how important a word is, but not in which "
        "direction.",
    )
    lime, attention = dict(zip(words, scores["lime"], strict=True)), told["attention-avg"].top(2)
    run.claim(
        "'popular' is one of the two words with the most attention, but LIME gives it a negative score "
        "(number: LIME's score of this word, divided by LIME's largest score).",
        value=lime["popular"],
        exact=True,
        holds=lime["popular"] < -0.2 and "popular" in [word.text for word in attention],
        against=scores["attention-avg"][words.index("popular")],
        control="score of this word by attention, which has no sign",
    )


def scaled(told: Comparison, name: str) -> Floats:
    """(words,) scores over the largest."""
    scores = told[name].unit_scores()
    return np.asarray(scores / np.abs(scores).max())


def matrix_of(told: Comparison) -> Floats:
    """(7, 7) Kendall's tau."""
    names, values = told.agreement()
    at = [names.index(name) for name in SEVEN]
    return np.asarray(values[np.ix_(at, at)])


def pair_kinds() -> list[tuple[str, str]]:
    """For each pair of methods, the kinds of the two; grad-avg is of none."""
    kind = {name: family for family, names in KINDS.items() for name in names}
    return [(kind.get(a, a), kind.get(b, b)) for a, b in combinations(SEVEN, 2)]


def many_agree(run: LabRun, found: Floats, again: Floats, on_sentence: Floats) -> None:
    """found: (texts, pairs); again: (texts,) LIME with itself, other rows drawn; on_sentence (7, 7)."""
    real = np.isfinite(found).all(1) & np.isfinite(again)
    found, again = found[real], again[real]
    means = found.mean(0)
    matrix = np.eye(len(SEVEN))
    upper = np.triu_indices(len(SEVEN), 1)  # in the order of combinations
    matrix[upper] = means
    matrix += np.triu(matrix, 1).T
    run.table(
        "Agreement of two methods on reviews (mean of Kendall's tau)",
        ["", *SEVEN],
        [[a, *row] for a, row in zip(SEVEN, matrix, strict=True)],
    )
    run.figure(
        "agreement",
        Heat(
            [Panel("sentence", on_sentence.tolist()), Panel("reviews", matrix.tolist())],
            "Agreement (Kendall's tau)",
        ),
        f"Agreement of the seven methods, in the order {listed(SEVEN)}: on the sentence and on {len(found)} "
        "reviews.",
    )
    within = np.array([a == b for a, b in pair_kinds()])
    claim_mean(
        run,
        "On reviews, two different methods agree less with each other than two runs of LIME with "
        "different seeds: the mean of Kendall's tau over all pairs of the seven methods is more than 0.1 "
        "lower than tau of the two runs (number: difference of tau).",
        again - found.mean(1),
        above=0.1,
        against=float(again.mean()),
        control="tau of two runs of LIME",
    )
    claim_mean(
        run,
        "LIME and the mean gradient both give signed scores, but they do not agree: their tau is below 0.2.",
        found[:, list(combinations(SEVEN, 2)).index(("lime", "grad-avg"))],
        below=0.2,
        against=0.0,
        control="tau of unrelated rankings",
        limits=SIGNED,
    )
    claim_mean(
        run,
        "Methods of the same kind (attention, gradient norm, signed effect) agree more than methods of "
        "different kinds: their mean tau is more than 0.1 higher (number: difference of tau).",
        found[:, within].mean(1) - found[:, ~within].mean(1),
        above=0.1,
        against=float(found[:, ~within].mean()),
        control="mean tau between different kinds",
    )


def skill(model: Model, told: Comparison, seed: int) -> Floats:
    """(methods,) what each wins over random orders, by deletion; LIME itself removed words by UNK."""
    items = [told[name] for name in SEVEN]
    scores = score_explanations(model, items, [METRIC], ["delete"], seed=seed)
    by_name = {score.method: score for score in scores}
    return np.array([by_name[name].skill for name in SEVEN])


def evidence(run: LabRun, skills: Floats) -> None:
    """skills: (texts, methods)."""
    band = max_t(skills, run.seed)
    run.figure(
        "evidence",
        Bars(
            [BarGroup(name, [band.mean[m]], [band.low[m]], [band.high[m]]) for m, name in enumerate(SEVEN)],
            series=["skill"],
            y="skill (random order 0, best order found 1)",
            title="Which methods find the important words",
            better="high",
        ),
        f"Mean skill on {len(skills)} reviews, with simultaneous 95 % intervals. Skill is measured by "
        f"{METRIC}: how far the logit falls when the highest-ranked words are deleted. A random order of the "
        "words has skill 0, the best order found has skill 1.",
    )
    run.table(
        f"Skill of each method ({METRIC}, words are deleted)",
        ["method", "mean", "95 % low", "95 % high"],
        [[name, band.mean[m], band.low[m], band.high[m]] for m, name in enumerate(SEVEN)],
    )
    at = {name: skills[:, m] for m, name in enumerate(SEVEN)}
    claim_mean(
        run,
        "LIME finds important words better than mean attention does: its skill is more than 0.2 higher "
        "(number: difference of skill).",
        at["lime"] - at["attention-avg"],
        above=0.2,
        against=float(at["attention-avg"].mean()),
        control="skill of mean attention",
    )
    claim_mean(
        run,
        "Mean attention finds important words better than a random order of the words does (number: skill).",
        at["attention-avg"],
        above=0.0,
        against=0.0,
        control="skill of a random order",
    )
    run.say(
        "Methods without a sign cannot distinguish words that support the answer from words against it. "
        "But this distinction decides how much the logit falls when words are deleted. Agreement alone "
        "does not show which method is right: the two norms of the gradient agree with each other almost "
        "perfectly, because both measure the size of the same gradient."
    )
