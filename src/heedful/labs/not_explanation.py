"""Attention is not explanation: Jain and Wallace's three tests, on models that run here.

    correlation   Kendall tau-b over the tokens of a text, of attention and |gradients| (attention held
                  fixed), of attention and leave-one-out, of gradients and leave-one-out; and, as the most
                  that can be asked for, of leave-one-out and leave-one-out in a model of another seed
    permutation   median |change of the answer| with attention in 100 random orders
    adversary     the attention farthest from the model's own, by JSD, that moves the answer by at most 0.01

They found that the attention of a BiLSTM agrees with gradients and leave-one-out less than these with one
another, that it agrees better where every state is one token's, that its order hardly matters, and that quite
other attention gives the same answer. What follows from that is what the lab not-not-explanation is about.

Jain & Wallace, Attention is not Explanation, NAACL 2019; published numbers are of SST, sentences like ours,
from the logs that come with their code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.charts import Box, Boxes, Scatter, Series
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.models.attention_setup import AttentionSetup, stage
from heedful.models.adapter import TokenModel
from heedful.stats.intervals import UNIT, WHOLE, Interval, nanmean_of, two_way_mean
from heedful.trials.adversary_search import Search
from heedful.trials.examples import Cases, prepare
from heedful.trials.tests.adversary import adversary
from heedful.trials.tests.correlation import correlation, kendall, leave_one_out
from heedful.trials.tests.permutation import Permutation, permutation

PAIRS = ("attention and gradients", "attention and leave-one-out", "gradients and leave-one-out")
OTHER_SEED = "leave-one-out and leave-one-out of another seed"
PUBLISHED = {"lstm": (0.35, 0.29, 0.71), "average": (0.61, 0.62, float("nan"))}  # SST; the third: 0.35 + 0.36
NAMES = {"lstm": "BiLSTM", "average": "attention over single words", "one-layer": "zoo:one-layer"}
FAR_SHARE = 0.5  # of the farthest attention there is


@lab(
    "not-explanation",
    title="Attention is not explanation: three tests of Jain and Wallace",
    minutes=3.0,
    cite="Jain & Wallace 2019",
)
def not_explanation(run: LabRun) -> None:
    size = (2000, 60, 80, 2) if run.fast else (6943, 60, 300, 3)  # sentences, to test on, steps, seeds
    here = stage(run.seed, size[0], size[1], size[2])
    models = cast(run, here, size[3])
    tried = {name: [_cases(model, here) for model in some] for name, some in models.items()}
    tell_correlation(run, tried)
    tell_permutation(run, tried)
    few = 6 if run.fast else 30
    search = Search(steps=25, starts=2, draws=20) if run.fast else Search()
    tell_adversary(run, {name: some[0] for name, some in tried.items() if name != "average"}, few, search)


def cast(run: LabRun, here: AttentionSetup, count: int) -> dict[str, list[Any]]:
    """Name -> models that differ by their seed; zoo:one-layer is one."""
    results: dict[str, list[Any]] = {"lstm": [], "average": [], "one-layer": [here.one]}
    for number in range(count):
        for place, encoder in enumerate(("lstm", "average")):
            results[encoder].append(here.model(encoder, 1000 * run.seed + number))
            run.progress(2 * number + place + 1, 2 * count, "training")
    return results


def _cases(model: TokenModel, here: AttentionSetup) -> Cases:
    assert model.module is not None
    model.module.requires_grad_(False)
    return prepare(model, [each.text for each in here.shown], [each.label for each in here.shown])


# --- correlation -------------------------------------------------------------------------------------------


def tell_correlation(run: LabRun, tried: Mapping[str, Sequence[Cases]]) -> None:
    run.say(
        "There are three measures of how much a token matters: its attention weight, the gradient of the "
        "answer, and the change of the answer when the token is left out (leave-one-out). Do they rank the "
        "tokens in the same way? Three models are tested: a BiLSTM, in which every state has read the "
        "whole sentence; the same attention over single words; and zoo:one-layer, which also attends over "
        "single words."
    )
    taus: dict[str, Floats] = {}
    for number, (name, some) in enumerate(tried.items(), 1):
        taus[name] = np.stack([correlation(cases, seed=run.seed).tau for cases in some])  # (seeds, texts, 3)
        run.progress(number, len(tried), "correlations")
    taus["lstm"] = np.concatenate([taus["lstm"], again(tried["lstm"])[:, :, None]], 2)
    taus = whole(taus)
    rows: list[tuple[Any, ...]] = [
        (NAMES[name], pair, *_told(tau[:, :, i]), PUBLISHED.get(name, (None,) * 3)[i])
        for name, tau in taus.items()
        for i, pair in enumerate(PAIRS)
    ]
    rows.insert(len(PAIRS), (NAMES["lstm"], OTHER_SEED, *_told(taus["lstm"][:, :, 3]), None))
    columns = ("model", "agreement of", "Kendall's tau", "low", "high", "tau in the paper, on SST")
    run.table("Do rankings of tokens agree?", columns, rows)
    groups = [
        Box(f"{NAMES[name]}: {short}", tau[:, :, i].mean(0).tolist(), [PUBLISHED[name][i]])
        for name, tau in taus.items()
        if name in PUBLISHED
        for i, short in enumerate(("A, G", "A, L", "G, L"))
    ]
    run.figure(
        "correlation",
        Boxes(
            groups,
            "Kendall tau-b",
            "Agreement of rankings, one dot per sentence",
            ["mean in the paper, on SST"],
        ),
        "A: attention, G: gradients, L: leave-one-out. Each dot is one sentence (mean over seeds).",
    )
    claim_correlation(run, taus)


def again(some: Sequence[Cases]) -> Floats:
    """(seeds, texts) tau of a model's leave-one-out and that of the next seed: a ranking that is not even
    itself again cannot be asked of attention."""
    arrays = [leave_one_out(cases) for cases in some]
    rows = []
    for own, other in zip(arrays, [*arrays[1:], arrays[0]], strict=True):
        real = [np.isfinite(one) for one in own]
        rows.append([kendall(a[r], b[r])[0] for a, b, r in zip(own, other, real, strict=True)])
    return np.array(rows)


def whole(taus: Mapping[str, Floats]) -> dict[str, Floats]:
    """The sentences that have a number of every kind: a constant ranking has none."""
    real = np.all([np.isfinite(tau).all((0, 2)) for tau in taus.values()], 0)
    return {name: tau[:, real] for name, tau in taus.items()}


def claim_correlation(run: LabRun, taus: Mapping[str, Floats]) -> None:
    lstm, average = taus["lstm"], taus["average"]
    gap, reach = over(lstm[:, :, 3] - lstm[:, :, 1])
    run.claim(
        "In a BiLSTM, leave-one-out agrees less with attention than with leave-one-out of a second "
        "BiLSTM, trained with another seed (value: difference of Kendall's tau).",
        value=gap,
        interval=reach,
        holds=reach[0] > 0,
        against=0.0,
        control="difference if both agreed equally",
    )
    gap, reach = over(average[:, :, 0] - lstm[:, :, 0])
    run.claim(
        "Attention over single words agrees better with gradients than attention in a BiLSTM does (value: "
        "difference of Kendall's tau).",
        value=gap,
        interval=reach,
        holds=reach[0] > 0,
        against=0.26,
        control="difference in the paper, on SST",
    )
    gap, reach = over(lstm[:, :, 2] - lstm[:, :, 0])
    run.table(
        "BiLSTM: how much better do gradients agree with leave-one-out than with attention?",
        ("", "difference of tau", "low", "high"),
        [("here", gap, *reach), ("in the paper, on SST", 0.36, None, None)],
    )
    reproduced = (
        "is reproduced here" if reach[0] > 0 else ("is not reproduced here: the interval contains zero")
    )
    run.say(
        "In the paper, gradients agree better with leave-one-out than with attention. This result "
        f"{reproduced}. It is not a claim of this lab, because it depends on the length of training. Also, "
        "the word vectors used here contain sentiment; the word vectors of the paper did not. The first "
        "claim does not compare attention with another explainer, but with a second BiLSTM: this model "
        "predicts the effect of removing a word better than attention does."
    )


def over(values: Floats, limits: Interval = WHOLE) -> tuple[float, Interval]:
    """(mean, interval) of values (seeds, texts), over both; two seeds say too little of seeds, and the
    interval of their mean is then over texts alone."""
    return two_way_mean(values if len(values) > 2 else values.mean(0, keepdims=True), limits)


def _told(values: Floats) -> tuple[float, float, float]:
    value, reach = over(values, (-1.0, 1.0))
    return value, *reach


# --- permutation -------------------------------------------------------------------------------------------


def tell_permutation(run: LabRun, tried: Mapping[str, Sequence[Cases]]) -> None:
    results = {}
    for number, (name, some) in enumerate(tried.items(), 1):
        results[name] = permutation(some[0], seed=run.seed, permutations=30 if run.fast else 100)
        run.progress(number, len(tried), "permutations")
    run.say(
        "If shuffling the attention weights does not change the answer, attention was not the reason for "
        "the answer. For comparison, the table also shows the effect of deleting one word and of uniform "
        "weights."
    )
    rows = [
        (
            NAMES[name],
            each.change[:, 0].mean(),
            each.deleted.mean(),
            each.uniform[:, 0].mean(),
            each.largest[:, 0].mean(),
        )
        for name, each in results.items()
    ]
    columns = ("model", "weights shuffled", "one word deleted", "uniform weights", "largest attention weight")
    title = "Change of the answer (total variation distance), and the largest attention weight"
    run.table(f"{title}; means over sentences", columns, rows)
    run.figure(
        "permutation",
        Scatter(
            [Series(NAMES[name], _dots(each)) for name, each in results.items()],
            "largest weight of the sentence",
            "median change of the answer (TVD)",
            "Change of the answer when attention is shuffled",
        ),
        "Each dot is one sentence. If attention is peaked and shuffling it does not change the answer, "
        "attention was not the reason for the answer.",
    )
    value, reach = nanmean_of(results["average"].change[:, 0] - results["average"].deleted)
    run.claim(
        "With attention over single words, shuffling the weights changes the answer more than deleting a "
        "word does (value: difference of the changes).",
        value=value,
        interval=reach,
        holds=reach[0] > 0,
        against=0.0,
        control="difference if both changed it equally",
    )
    value, reach = nanmean_of(results["lstm"].change[:, 0] - results["average"].change[:, 0])
    run.claim(
        "Shuffling the weights changes the answer less in a BiLSTM than with attention over single words "
        "(value: difference of the changes).",
        value=value,
        interval=reach,
        holds=reach[1] < 0,
        against=0.0,
        control="difference if both changed equally",
    )


def _dots(found: Permutation) -> list[tuple[float, float]]:
    return list(zip(found.largest[:, 0].tolist(), found.change[:, 0].tolist(), strict=True))


# --- adversary ---------------------------------------------------------------------------------------------


def tell_adversary(run: LabRun, tried: Mapping[str, Cases], few: int, search: Search) -> None:
    run.say(
        "The last test searches for other attention weights, sentence by sentence. They should be as far "
        "as possible from the model's own weights, but change the answer by at most 0.01. The distance is "
        "the Jensen-Shannon divergence (JSD). Its upper limit is ln 2 (about 0.69), but how close it can "
        "come to ln 2 depends on the model's own weights. In the paper, the search came close to ln 2."
    )
    results = {}
    for name, cases in tried.items():
        some = Cases(cases.model, cases.cases[:few])
        say = run.progress_of(f"adversaries of {NAMES[name]}")
        results[name] = adversary(some, seed=run.seed, search=search, progress=say)
    rows = [
        (NAMES[name], each.distance.mean(), each.random.mean(), each.largest.mean(), each.change.max())
        for name, each in results.items()
    ]
    columns = (
        "model",
        "JSD of the weights found",
        "largest JSD of random weights",
        "largest possible JSD",
        "largest change of an answer",
    )
    run.table("Other attention weights with the same answer", columns, rows)
    for name, each in results.items():
        share, reach = nanmean_of((each.distance / each.largest)[:, 0], UNIT)
        run.claim(
            f"{NAMES[name]}: other attention weights give the same answer (within 0.01), and their "
            "distance from the model's own weights is more than half of the largest possible distance "
            "(value: share of this distance).",
            value=share,
            interval=reach,
            holds=reach[0] > FAR_SHARE and float(each.change.max()) <= search.epsilon,
            against=float((each.random / each.largest).mean()),
            control="share for the most distant random weights",
        )
    run.say(
        "The results of shuffling and of the search are as in the paper. But note: with attention over "
        "single words, shuffling the weights changes the answer very much, and yet there are other weights "
        "that give the same answer. The search changes the weights of one sentence at a time and leaves "
        "the rest of the model unchanged. Whether a model could learn such attention is another question; "
        "see the lab not-not-explanation."
    )
