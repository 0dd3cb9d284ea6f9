"""A translation whose true alignment is known: which method finds the source word of a target word?

A transformer (heedful.nn.Transformer) learns to translate a toy language in which word order and word forms
change by rule (heedful.labs.data.toy_language), until it translates sentences it trains on. Then every
target word is explained (heedful.labs.measures.alignment_scores): cross-attention, the classic source x
target map; rollout; Chefer's rules for encoder-decoders; removal of source words; beside the diagonal and
random scores.

What must hold: only one source word knows what a target word means, and for some words one other knows their
ending. Removal has to find one of these. Cross-attention may find the first, as the decoder reads the word
somewhere; of the second it need not say anything, as the encoder may have carried the ending over before the
decoder looks. Intervals are over sentences, models averaged.

Bahdanau et al. 2015 (the map); Vaswani et al. 2017; Abnar & Zuidema 2020; Chefer et al. 2021; Och & Ney 2003.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.charts import BarGroup, Bars, Matrices, Matrix
from heedful.labs.base.claims import claim_mean
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.data.toy_language import Language, Pair, language, rows, sentences
from heedful.labs.measures.alignment_scores import (
    CHEFER,
    DIAGONAL,
    MEAN,
    METRICS,
    RANDOM,
    REMOVAL,
    ROLLOUT,
    exact,
    explained,
    measured,
)
from heedful.nn.train import TrainConfig, fit
from heedful.nn.transformer import Transformer, TransformerConfig
from heedful.stats.intervals import UNIT, mean_of, two_way_mean

SOLVED_SHARE = 0.99  # share of training sentences translated without a mistake
ROUNDS = 12  # of training, at most
LIMITS = ("95 % low", "95 % high")  # columns
SHOWN = {MEAN: "cross-attention", ROLLOUT: "rollout", CHEFER: "Chefer's rules", REMOVAL: "removal"}


@dataclass(frozen=True)
class AlignmentSizes:
    train: int  # sentences
    test: int
    texts: int  # explained, the first of the test
    models: int  # each with a language of its own
    steps: int  # of a round of training
    width: int


FULL = AlignmentSizes(train=8000, test=500, texts=80, models=4, steps=250, width=64)
FAST = AlignmentSizes(train=4000, test=300, texts=30, models=1, steps=250, width=48)


@dataclass(frozen=True, eq=False)
class Translator:
    """A trained model and its language; all languages have the same source sentences."""

    model: Transformer
    words: Language
    test: list[Pair]
    steps: int  # of training
    right: Floats  # (n,) 1 where a test sentence is translated without a mistake


@lab(
    "alignment",
    title="Word alignment: attention, rollout, Chefer's rules and removal compared with the truth",
    minutes=3.0,
    cite="Bahdanau et al. 2015; Vaswani et al. 2017; Chefer, Gur & Wolf 2021",
)
def alignment(run: LabRun) -> None:
    sizes = FAST if run.fast else FULL
    models = []
    for number in range(sizes.models):
        run.progress(number, sizes.models, "training")
        models.append(trained(1000 * run.seed + number, run.seed, sizes))
    tell_translation(run, models, sizes)
    result = measures(run, models, sizes)
    tell_found(run, result)
    claim_found(run, result)
    draw_map(run, models[0])


def trained(seed: int, data: int, sizes: AlignmentSizes) -> Translator:
    """Round by round until it translates what it trains on; test sentences have no say."""
    words = language(seed)
    pairs = sentences(words, sizes.train + sizes.test, data)
    source, target = rows(pairs, words.vocabulary)
    config = TransformerConfig(
        vocab_size=len(words.vocabulary),
        context=24,
        layers=2,
        heads=4,
        width=sizes.width,
        hidden=2 * sizes.width,
        dropout=0.0,
    )
    model, rng = Transformer(config, seed), torch.Generator().manual_seed(seed)

    def loss(_: int) -> Tensor:
        pick = torch.randint(sizes.train, (64,), generator=rng)
        return model.loss(source[pick], target[pick])

    train = TrainConfig(sizes.steps, 64, 3e-3, warmup=40, weight_decay=0.01, seed=seed, progress=False)
    steps = 0
    while steps < ROUNDS * sizes.steps:
        steps += len(fit(model, loss, train))
        if exact(model, source[:500], target[:500]).double().mean() >= SOLVED_SHARE:
            break
    tensor = slice(sizes.train, None)
    right = exact(model, source[tensor], target[tensor]).double().numpy()
    return Translator(model, words, pairs[tensor], steps, right)


def tell_translation(run: LabRun, models: list[Translator], sizes: AlignmentSizes) -> None:
    pair = models[0].test[0]
    run.say(
        f'''Example: "{" ".join(pair.source)}" is translated to "{" ".join(pair.target)}". In the target '''
        "language verbs are last, adverbs first, and adjectives follow their noun. Prepositions become "
        "postpositions, and there are no articles. Nouns have endings for case and number, adjectives have "
        "endings for the gender of their noun, and verbs have endings for the number of their subject. There "
        f"are {sizes.train} sentences for training and {sizes.test} others for testing. Every model is a "
        "transformer with two encoder and two decoder layers and has its own target language."
    )
    table = [(i + 1, each.steps, *_flat(each.right)) for i, each in enumerate(models)]
    columns = ("language", "training steps", "share of test sentences without a mistake", *LIMITS)
    run.table("Accuracy of the translation models", columns, table)
    value, low, high = _flat(np.mean([each.right for each in models], 0))
    run.claim(
        "The models translate nearly all test sentences without a mistake.",
        value=value,
        interval=(low, high),
        holds=low > 0.9,
    )


def _flat(shares: Floats) -> tuple[float, float, float]:
    """(mean, 95 %) over sentences (n,); where all are 0 or all are 1 the interval is exact, not empty."""
    value, span = two_way_mean(shares[None], UNIT)
    return value, *span


Found = Mapping[str, Floats]  # method -> (sentences, METRICS), models averaged


def measures(run: LabRun, models: list[Translator], sizes: AlignmentSizes) -> Found:
    rng = np.random.default_rng(run.seed)
    every: dict[str, list[list[tuple[float, ...]]]] = {}
    for number, each in enumerate(models):
        lines: dict[str, list[tuple[float, ...]]] = {}
        for pair in each.test[: sizes.texts]:
            for name, scores in explained(each.model, each.words, pair, rng).items():
                lines.setdefault(name, []).append(measured(scores, pair, rng))
        for name, values in lines.items():
            every.setdefault(name, []).append(values)
        run.progress(number + 1, len(models), "explaining")
    return {name: np.mean(values, 0) for name, values in every.items()}


def tell_found(run: LabRun, found: Found) -> None:
    table = []
    for name, values in found.items():
        right, low, high = _flat(values[:, 0])
        table.append((name, right, low, high, *(float(np.nanmean(values[:, m])) for m in (1, 2, 3))))
    columns = ("method", METRICS[0], *LIMITS, *METRICS[1:])
    run.table("How often each method finds the source word of a target word", columns, table)
    run.say(
        "In the table, attention is cross-attention, averaged over heads. Removal is the fall of the "
        "target word's log-probability when one source word is hidden from the model. The method "
        "'diagonal' prefers the source word at the same relative position in the sentence."
    )
    run.say(
        f"The column '{METRICS[0]}' is the share of target words for which the source word with the highest "
        "score is the translated one. AER is the alignment error rate; choosing the word that decides an "
        f"ending counts as half a mistake. AP is average precision. The column '{METRICS[3]}' uses only "
        "target words whose ending is decided by another source word. It is the share of them for which this "
        "other word has the highest score, if the translated word is left out (by chance in about one of "
        "eight cases)."
    )
    groups = []
    for name, values in found.items():
        spans = [_flat(values[:, 0]), _flat(values[np.isfinite(values[:, 3]), 3])]
        parts = ([span[i] for span in spans] for i in range(3))
        groups.append(BarGroup(name, *parts))
    run.figure(
        "found",
        Bars(
            groups,
            ["translated word", "word that decides the ending"],
            "share of target words",
            "How often each method finds the source word",
            better="high",
        ),
        "Share of target words for which each method finds the translated word and the word that decides the "
        "ending, with 95 % intervals.",
    )


def claim_found(run: LabRun, found: Found) -> None:
    right = {name: values[:, 0] for name, values in found.items()}
    possible = 2 * (1 - found[REMOVAL][:, 1]) - right[REMOVAL]  # AER = 1 - (right + possible) / 2
    value, low, high = _flat(np.round(possible, 9).clip(0, 1))  # less what rounding adds
    run.claim(
        "Removal nearly always points to the translated word or to the word that decides the ending "
        "(number: share of target words). By the rules of the language, no other source word influences "
        "the target word.",
        value=value,
        interval=(low, high),
        holds=low > 0.8,
        against=float(right[REMOVAL].mean()),
        control="share for the translated word alone",
    )
    claim_mean(
        run,
        "Cross-attention, averaged over heads and layers, finds the translated word more than twice as "
        "often as random scores do (number: its share minus twice the share of random scores).",
        right[MEAN] - 2 * right[RANDOM],
        above=0.0,
        against=0.0,
        control="if exactly twice as often",
    )
    weakest = min((MEAN, CHEFER, REMOVAL), key=lambda name: right[name].mean())
    blind = max((DIAGONAL, RANDOM), key=lambda name: right[name].mean())
    claim_mean(
        run,
        "Even the weakest of cross-attention, Chefer's rules and removal finds the translated word more "
        "often than random scores and the diagonal do (number: difference of the shares).",
        right[weakest] - right[blind],
        above=0.0,
        against=0.0,
        control="if equally often",
    )
    endings = found[REMOVAL][:, 3] - found[MEAN][:, 3]
    claim_mean(
        run,
        "Removal finds the word that decides an ending more often than cross-attention does (number: "
        "difference of the shares). A possible reason: the encoder has already moved the information of "
        "this word to other positions, so the decoder does not need to attend to it.",
        endings[np.isfinite(endings)],
        above=0.0,
        against=0.0,
        control="if equally often",
    )
    gap, (low, high) = mean_of(right[MEAN] - right[ROLLOUT])
    less = "less often" if low > 0 else "not significantly less often"
    run.say(
        f"Here rollout finds the translated word {less} than mean cross-attention does (difference of the "
        f"shares {gap:.2f}, {low:.2f} to {high:.2f}). This is not a claim of the lab, because the result "
        "changes from one training to another. The layers also differ: often the attention of the last "
        "layer alone finds the most words, but one cannot know this without the true alignment."
    )


def draw_map(run: LabRun, one: Translator) -> None:
    """The longest of the first test sentences."""
    pair = max(one.test[:20], key=lambda each: len(each.source))
    scores = explained(one.model, one.words, pair, np.random.default_rng(run.seed))
    marked = [(row, link) for row, link in enumerate(pair.links)]
    maps = []
    for name, title in SHOWN.items():
        positive = np.clip(scores[name], 0, None)
        shares = positive / np.maximum(positive.sum(1, keepdims=True), 1e-12)
        maps.append(Matrix(title, shares.tolist(), pair.target, pair.source, marked))
    run.figure(
        "map",
        Matrices(maps, "Target words (rows) by source words (columns)"),
        "Scores of the source words (columns) for each target word (rows), as shares of the row. The "
        "outline marks the translated word. For Chefer's rules and removal, negative scores count as zero.",
    )
