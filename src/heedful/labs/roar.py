"""Remove and retrain: if a method ranks the right words first, a model trained without them knows less.

    remove the best share of the words of each text, of train AND test, by that text's own scores
    train from scratch on what is left, and count right answers on the test texts that are left
    fall   mean over shares of  accuracy(random removal) - accuracy(method)

Synthetic    twenty words a text, two of which tell the label: which ones is known. Scores that point at them
             must fall fastest, scores that avoid them slowest. A third kind removes them, too, and then, by
             the label, from the first or the second half of the text: the holes tell what the words did.
Reviews      six sentences of one label a text; by size, the weights of a linear model and scores of
             zoo:one-layer.

Leakage control: the same training is given the bare pattern of holes. Where that reads the label better than
chance and than the holes of random scores, the method is flagged: its small fall says nothing.

What is trained is naive Bayes over words and places of holes: seconds where a network takes hours, and it can
read both. Intervals are over seeds (texts drawn again with repetition) and test texts.

Hooker et al., A Benchmark for Interpretability Methods in Deep Neural Networks, NeurIPS 2019; Rong et al.
2022 (leakage).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.base.retraining_parts import accuracy_at, claim_fall, pattern_at, show_retraining
from heedful.labs.data.reviews import Review, reviews
from heedful.labs.models.tfidf import TfidfModel, fit_tfidf
from heedful.models.load import load_token_model
from heedful.retraining.impute import masked
from heedful.retraining.retrain import Predict
from heedful.retraining.roar import SHARES, RoarSettings, Scores, TokenSplit
from heedful.retraining.roar import roar as retrained
from heedful.stats.lime_limit import Indices

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

HALF = 0.5  # where holes are judged: a share fixed beforehand, not the one that tells most
LENGTH, NEUTRAL, MARKERS = 20, 40, 4  # words a text, words that tell nothing, words that tell each label
HOLE, FILLER = -1, 0  # what stands where a word was removed, and for every other word in the bare pattern
METHODS, LINEAR = ("grad-x-input", "attention-avg"), "linear weights"
SENTENCES = 6


@lab("roar", title="Remove and retrain", minutes=1.2, cite="Hooker et al. 2019; Rong et al. 2022")
def roar(run: LabRun) -> None:
    run.say(
        "The words with the highest scores are removed from every text, and a naive Bayes classifier is "
        "trained again on the rest. If the scores are right, this classifier becomes less accurate than "
        "after random removal. The table shows this fall: accuracy after random removal minus accuracy "
        "after removal by the scores, mean over the shares of words removed. In the synthetic texts, only "
        f"two of the {LENGTH} words of a text depend on the label, so the true scores are known. Scores are "
        "flagged if the positions of the removed words alone predict the label."
    )
    synthetic(run, 240 if run.fast else 1000, 4 if run.fast else 10)
    on_reviews(run, (240, 240) if run.fast else (1200, 600), 8)


def naive_bayes(inputs: Sequence[Sequence[int]], labels: Sequence[int], seed: int) -> Predict:
    """By counts of words, and of holes at each place; texts are drawn again with repetition."""
    n, truth = len(inputs), np.array(labels)
    times = np.bincount(np.random.default_rng(seed).integers(n, size=n), minlength=n)
    size, longest = max(map(max, inputs)) + 1, max(map(len, inputs))
    owner, number = features(inputs, size, longest)
    counts = [
        1 + np.bincount(number, weights=times[owner] * (truth[owner] == label), minlength=size + longest)
        for label in (0, 1)
    ]  # one of each, so that nothing is impossible
    odds = np.log(counts[1] / counts[1].sum()) - np.log(counts[0] / counts[0].sum())
    prior = np.log((times @ truth) / (times @ (1 - truth)))

    def predict(asked: Sequence[Sequence[int]]) -> Any:
        owner, number = features(asked, size, longest)
        return (prior + np.bincount(owner, weights=odds[number], minlength=len(asked)) > 0).astype(int)

    return predict


def features(texts: Sequence[Sequence[int]], size: int, longest: int) -> tuple[Indices, Indices]:
    """For every word the number of its text and its own; a hole's number tells its place. Words beyond `size`
    and places beyond `longest` were never met and are left out."""
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    place = np.concatenate([np.arange(len(text)) for text in texts])
    word = np.concatenate([np.asarray(text) for text in texts])
    known = np.where(word == HOLE, place < longest, word < size)
    return owner[known], np.where(word == HOLE, size + place, word)[known]


def drawn_texts(count: int, rng: np.random.Generator) -> tuple[TokenSplit, list[Floats]]:
    """Texts of LENGTH words with two markers of their label, and 1.0 where these stand."""
    texts, marks = [], []
    labels = rng.integers(2, size=count)
    for label in labels.tolist():
        text = 1 + rng.integers(NEUTRAL, size=LENGTH)
        places = rng.permutation(LENGTH)[:2]
        text[places] = 1 + NEUTRAL + MARKERS * label + rng.integers(MARKERS, size=2)
        marks.append(np.isin(np.arange(LENGTH), places).astype(float))
        texts.append(text.tolist())
    return TokenSplit.of(texts, labels.tolist()), marks


def synthetic(run: LabRun, count: int, seeds: int) -> None:
    """Where the words that tell are known, and a method that leaks."""
    rng = np.random.default_rng(run.seed)
    (train, first), (test, last) = drawn_texts(count, rng), drawn_texts(count // 2, rng)
    scores: dict[str, Scores] = {
        "true scores": (first, last),
        "reversed scores": ([-mark for mark in first], [-mark for mark in last]),
        "true scores whose positions reveal the label": (leaking(train, first), leaking(test, last)),
    }
    settings = RoarSettings(shares=SHARES, seeds=seeds, seed=run.seed)
    result = retrained(train, test, scores, naive_bayes, masked(HOLE, FILLER), settings)
    show_retraining(run, "synthetic", result, HALF)
    truth, avoids, leaks = (result[name] for name in scores)
    claim_fall(run, "Removal by the true scores lowers the accuracy faster than random removal", truth, 1)
    slower = "Removal by the reversed scores lowers the accuracy more slowly than random removal"
    claim_fall(run, slower, avoids, -1)
    value, span = accuracy_at(result, truth, SHARES[0])
    run.claim(
        "After removal of the two words that determine the label, the accuracy is below 0.75.",
        value=value,
        interval=span,
        holds=span[1] < 0.75,
        against=result.whole,
        control="accuracy with nothing removed",
    )
    value, span = accuracy_at(result, leaks, HALF)
    run.claim(
        "If the positions of the removed words reveal the label, they hide the fall of the accuracy: with "
        "half of all words removed, the accuracy is above 0.9.",
        value=value,
        interval=span,
        holds=span[0] > 0.9,
        against=accuracy_at(result, truth, HALF)[0],
        control="accuracy with true scores whose positions do not reveal the label",
    )
    value, span = pattern_at(result, leaks, HALF)
    others = [curve for curve in result.curves if curve is not leaks]
    run.claim(
        "Only the scores whose removed positions reveal the label are flagged. With half of the words "
        "removed, these positions alone predict the label with an accuracy above 0.9.",
        value=value,
        interval=span,
        holds=leaks.leaks and span[0] > 0.9 and not any(curve.leaks for curve in others),
        against=pattern_at(result, truth, HALF)[0],
        control="accuracy from the positions that the true scores remove",
    )


def leaking(split: TokenSplit, marks: list[Floats]) -> list[Floats]:
    """Words that tell come first; then the first half of texts of label 1, the second of the others."""
    first = np.arange(LENGTH) < LENGTH // 2
    return [2 * mark + (first == bool(label)) for mark, label in zip(marks, split.labels, strict=True)]


def on_reviews(run: LabRun, sizes: tuple[int, int], seeds: int) -> None:
    """Scores by size: which words tell, not in which direction."""
    rng = np.random.default_rng([run.seed, 1])
    model: TokenModel = load_token_model("zoo:one-layer")
    bag = fit_tfidf(reviews("train"))
    methods = METHODS[:1] if run.fast else METHODS
    train, first = scored(run, model, bag, joined(reviews("train"), sizes[0], rng), methods)
    test, last = scored(run, model, bag, joined(reviews("held"), sizes[1], rng), methods)
    scores: dict[str, Scores] = {name: (first[name], last[name]) for name in first}
    settings = RoarSettings(shares=SHARES, seeds=seeds, seed=run.seed)
    result = retrained(train, test, scores, naive_bayes, masked(HOLE, FILLER), settings)
    show_retraining(run, "reviews", result, HALF)
    run.say(
        f"{result} If several words contain the same information, removing some of them changes little. "
        "So a small fall does not prove that the scores are wrong."
    )
    claim_fall(
        run,
        "On reviews, removal by the weights of a linear model lowers the accuracy faster than random removal",
        result[LINEAR],
        1,
    )


def joined(sentences: Sequence[Review], count: int, rng: np.random.Generator) -> list[tuple[str, int]]:
    """Texts of SENTENCES sentences of one label, and the label."""
    own = [[review.text for review in sentences if review.label == label] for label in (0, 1)]
    results = []
    for number in range(count):
        some = own[number % 2]
        results.append((" ".join(some[i] for i in rng.integers(len(some), size=SENTENCES)), number % 2))
    return results


def scored(
    run: LabRun, model: TokenModel, bag: TfidfModel, texts: list[tuple[str, int]], methods: Sequence[str]
) -> tuple[TokenSplit, dict[str, list[Floats]]]:
    """Words of each text as ids, and |scores| by word: of zoo:one-layer's methods, and of a linear model."""
    results: dict[str, list[Floats]] = {name: [] for name in (LINEAR, *methods)}
    read = []
    for number, (text, _) in enumerate(texts):
        run.progress(number, len(texts), "explaining reviews")
        x = model.encode(text.lower())
        once: Any = Session(model)  # one pass for all methods
        target, groups = model.target(x), x.units("word")
        for name in methods:
            attribution = run_explainer(name, once, x, target)
            results[name].append(np.abs(groups.sums(attribution.scores)))
        results[LINEAR].append(np.abs([bag.weights.get(x.word_text(j), 0.0) for j in range(len(groups))]))
        read.append(x)
    tokens, units = tuple(x.ids for x in read), tuple(x.units("word") for x in read)
    return TokenSplit(tokens, tuple(label for _, label in texts), units), results
