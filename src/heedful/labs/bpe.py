"""Byte-pair encoding, merge by merge: how a tokenizer gets its words.

    start from single characters; again and again join the pair of neighbours that is most frequent

On ('low', 'login') l and o stand side by side twice, every other pair once: "lo" is the first symbol learnt.
Ties go to the pair learnt, or numbered, first. On a handful of simple words that share parts, the parts
become symbols, and a compound nobody trained on comes apart at its joint: snow|board.

The merges here are found by counting every pair anew at every step. heedful.nn.train_bpe keeps its counts up
to date instead; the library `tokenizers`, which real models use, does the same in Rust. All three must agree.

Drawn: tokens a word of speeches that were not trained on, as the vocabulary grows.

Sennrich, Haddow & Birch, Neural Machine Translation of Rare Words with Subword Units, ACL 2016; Gage 1994.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from heedful.core.charts import Curve, Curves
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.data.speeches import speeches
from heedful.nn import BPE, train_bpe
from heedful.stats.intervals import mean_of

TEXTBOOK = "low login"
SIMPLE = "snow snow snowman snowball ball ball football foot foot board board keyboard key key man man"
MIN_PAIR_COUNT = 3  # times a pair stands there, or it is not joined: whole compounds stand there once
BYTES = 256

Pair = tuple[str, str]


@dataclass(frozen=True)
class MergeStep:
    """One merge: the pair, how often it stood there, and the words afterwards."""

    pair: Pair
    count: int
    runners_up: list[tuple[Pair, int]]
    words: list[list[str]]


def by_counting(text: str, merges: int) -> list[MergeStep]:
    """Character-level BPE of words, counted from scratch at every step."""
    words = [list(word) for word in text.split()]
    place = {symbol: i for i, symbol in enumerate(sorted({*"".join(text)}))}  # order for ties
    steps: list[MergeStep] = []
    for _ in range(merges):
        counts = Counter(pair for word in words for pair in pairwise(word))
        if not counts:
            break
        ranked = sorted(counts.items(), key=lambda item: (-item[1], place[item[0][0]], place[item[0][1]]))
        (pair, count), *others = ranked
        words = [joined(word, pair) for word in words]
        place.setdefault("".join(pair), len(place))
        steps.append(MergeStep(pair, count, others, words))
    return steps


def joined(word: Sequence[str], pair: Pair) -> list[str]:
    """The pair made one symbol wherever it stands, from the left."""
    out, i = list[str](), 0
    while i < len(word):
        result = tuple(word[i : i + 2]) == pair
        out.append("".join(pair) if result else word[i])
        i += 2 if result else 1
    return out


def by_tokenizers(texts: Sequence[str], size: int, byte_level: bool) -> Tokenizer:
    """The library that production models use."""
    tokenizer = Tokenizer(models.BPE())
    alphabet: list[str] = []
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def merges_of(tokenizer: Tokenizer) -> list[Pair]:
    return [(a, b) for a, b in json.loads(tokenizer.to_str())["model"]["merges"]]


@lab(
    "bpe",
    title="Byte-pair encoding, merge by merge",
    minutes=0.1,
    cite="Sennrich, Haddow & Birch 2016; Gage 1994",
)
def bpe(run: LabRun) -> None:
    textbook(run)
    compounds(run)
    on_speeches(run)


def textbook(run: LabRun) -> None:
    """('low', 'login') to the end, and the same by the two libraries."""
    steps = by_counting(TEXTBOOK, 20)
    run.say(
        "The first example has two words, 'low' and 'login'. Pairs of neighbouring symbols are counted "
        "inside words, never across spaces."
    )
    run.table(
        "Merges on 'low' and 'login'",
        ["step", "merge", "count", "next pair (count)", "words after the merge"],
        [
            [
                i + 1,
                " + ".join(step.pair),
                step.count,
                told(step.runners_up),
                "  ".join(map("|".join, step.words)),
            ]
            for i, step in enumerate(steps)
        ],
    )
    agree(
        run,
        "On 'low' and 'login', counting by hand, heedful.nn and the tokenizers library learn the same "
        "merges (number: how many merges are the same).",
        TEXTBOOK,
        steps,
    )
    first = steps[0]
    run.claim(
        "The first merge is l + o, the only pair that occurs twice (number: its count).",
        value=first.count,
        exact=True,
        against=first.runners_up[0][1],
        control="count of the next pair",
        holds=first.pair == ("l", "o") and first.count == 2 and first.runners_up[0][1] == 1,
    )


def told(others: list[tuple[Pair, int]]) -> str:
    """The first of those that were not chosen."""
    return "none" if not others else f"{' + '.join(others[0][0])} ({others[0][1]})"


def agree(run: LabRun, sentence: str, text: str, steps: list[MergeStep]) -> None:
    """One claim: three learners, one list of merges."""
    counted = [step.pair for step in steps]
    letters = len({*text} - {" "})
    ours = train_bpe([text], letters + 1 + len(steps), byte_level=False).merges  # the space is a symbol here
    theirs = merges_of(by_tokenizers([text], letters + len(steps), byte_level=False))
    same = sum(a == b == c for a, b, c in zip(counted, ours, theirs, strict=False))
    run.claim(
        sentence,
        value=same,
        exact=True,
        against=len(counted),
        control="number of all merges",
        holds=same == len(counted) == len(ours) == len(theirs),
    )


def compounds(run: LabRun) -> None:
    """Simple words that share parts; then compounds, one of them never seen."""
    steps = [
        step for step in by_counting(SIMPLE, 40) if step.count >= MIN_PAIR_COUNT
    ]  # counts never rise again
    run.say(
        f"The second example has words that share parts: {SIMPLE}. Only pairs that occur at least "
        f"{MIN_PAIR_COUNT} times are merged."
    )
    run.table(
        "Merges on words that share parts",
        ["step", "merge", "count", "next pair (count)"],
        [[i + 1, " + ".join(step.pair), step.count, told(step.runners_up)] for i, step in enumerate(steps)],
    )
    agree(
        run,
        "On words that share parts, all three also learn the same merges (number: how many merges are the "
        "same).",
        SIMPLE,
        steps,
    )
    model = learnt(steps, SIMPLE)
    results = {
        word: [model.symbols[i] for i in model.encode(word)] for word in ("snowboard", "footman", "keyman")
    }
    observed = set(SIMPLE.split())
    run.table(
        "Compounds that were not in the training words",
        ["word", "split into", "seen in training"],
        [[word, " | ".join(parts), "yes" if word in observed else "no"] for word, parts in results.items()],
    )
    whole = sum(len(parts) == 2 and set(parts) <= observed for parts in results.values())
    run.claim(
        "New compounds are split into the two known words they consist of (number: how many compounds are "
        "split in this way).",
        value=whole,
        exact=True,
        against=len(results),
        control="number of all compounds",
        holds=whole == len(results),
    )


def learnt(steps: list[MergeStep], text: str) -> BPE:
    """What counting found, as a tokenizer of heedful.nn."""
    symbols = [*sorted({*text}), *("".join(step.pair) for step in steps)]
    merges = tuple(step.pair for step in steps)
    return BPE({symbol: i for i, symbol in enumerate(symbols)}, merges, byte_level=False)


def on_speeches(run: LabRun) -> None:
    """Byte-level, on real text: merges, ids, the way back, and how much shorter text gets."""
    sizes = (BYTES, 300, 400, 600) if run.fast else (BYTES, 300, 400, 600, 1000, 2000, 4000)
    rng = np.random.default_rng(run.seed)
    train, kept = (list(speeches(part).values()) for part in ("train", "held"))
    texts = [cut(train[i], 20_000, rng) for i in rng.choice(len(train), 3 if run.fast else 12, replace=False)]
    fresh = [cut(text, 5_000, rng) for text in kept]
    ours = train_bpe(texts, sizes[-1])
    run.progress(1, 3, "merges")
    theirs = by_tokenizers(texts, sizes[-1], byte_level=True)
    same = [a == b for a, b in zip(ours.merges, merges_of(theirs), strict=True)]
    value, span = mean_of([float(ours.encode(text) == theirs.encode(text).ids) for text in fresh])
    run.claim(
        "On speeches, heedful.nn and the tokenizers library learn the same merges and encode new speeches "
        "with the same ids (number: share of new speeches).",
        value=value,
        interval=span,
        holds=all(same) and value == 1.0,
    )
    value, span = mean_of([float(ours.decode(ours.encode(text)) == text) for text in [*fresh, *odd(rng, 50)]])
    run.claim(
        "Byte-level encoding loses nothing: new speeches and random strings of any characters are decoded "
        "exactly (number: share of these texts).",
        value=value,
        interval=span,
        holds=value == 1.0,
    )
    rates = np.array(
        [[rate(BPE.from_merges(ours.merges[: size - BYTES], ()), text) for size in sizes] for text in fresh]
    )
    run.progress(3, 3, "merges")
    value, span = mean_of(rates[:, 0] / rates[:, -1])
    run.claim(
        "With merges learnt on some speeches, other speeches need at least a third fewer tokens than "
        "without merges (number: tokens without merges divided by tokens with merges).",
        value=value,
        interval=span,
        holds=span[0] > 1.5,
        against=1.0,
        control="if merges had no effect",
    )
    bands = [mean_of(rates[:, i]) for i in range(len(sizes))]
    line = Curve(
        "new speeches",
        [(float(size), value) for size, (value, _) in zip(sizes, bands, strict=True)],
        [low for _, (low, _) in bands],
        [high for _, (_, high) in bands],
    )
    run.figure(
        "tokens",
        Curves([line], "size of the vocabulary", "tokens per word", "Tokens per word", better="low"),
        "Tokens per word of new speeches: mean over speeches with its 95 % interval.",
    )


def cut(text: str, length: int, rng: np.random.Generator) -> str:
    """A stretch of the text, at random."""
    start = int(rng.integers(max(1, len(text) - length)))
    return text[start : start + length]


def odd(rng: np.random.Generator, count: int) -> list[str]:
    """Strings of any characters but lone surrogates."""
    codes = [c for c in rng.integers(1, 0x2FFFF, 20 * count).tolist() if not 0xD800 <= c <= 0xDFFF]
    return ["".join(map(chr, codes[i : i + 12])) for i in range(0, 12 * count, 12)]


def rate(model: BPE, text: str) -> float:
    """Tokens a word."""
    return len(model.encode(text)) / len(text.split())
