"""Do special tokens get much attention because they are never split into pieces? Three comparisons (E13).

    attention of P   a(P) = mean over layers, heads and queries outside P of sum_{t in P} A[query, t]
                     P: the tokens of a word, or one special token
    split, whole     each word that the tokenizer splits, beside the whole word of the same text that is
                     nearest to it in frequency (counts of film sentences, at most a factor of two apart)
    special          [CLS] and [SEP], beside the most frequent whole word of the same text
    put twice        [SEP] [SEP] in place of [SEP], and the same for a whole word: what splitting would do

If not to be split were the reason, whole words would get as much as special tokens, split words less than
whole ones, and a special token in two parts no more than one part had. Intervals: 95 %, texts drawn again.
Cost: four passes per text. Needs attention weights and a WordPiece tokenizer ("##" marks a later piece).

The conjecture stands in lecture notes; Clark et al., What Does BERT Look At?, 2019, have the finding.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.labs.base.registry import LabRun
from heedful.labs.data.reviews import reviews
from heedful.labs.errata_checks.formula import texts
from heedful.modalities.text import TextInput, text_of
from heedful.models.load import load_token_model
from heedful.stats.intervals import Interval, bootstrap_ratio

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

PIECE = "##"  # a token that goes on with a word
NEAR = 1.0  # most that two words of equal frequency differ, in log2 of their counts


@dataclass(frozen=True)
class TokenisedWord:
    """Tokens that are one word, and how often it occurs in the corpus."""

    places: tuple[int, ...]
    count: int

    @property
    def split(self) -> bool:
        return len(self.places) > 1


@dataclass(frozen=True, eq=False)
class ComparedAttention:
    """Attention of what is compared and of what it is compared with, summed over each text."""

    over: Floats  # (texts,)
    under: Floats  # (texts,)
    pairs: int

    @property
    def ratio(self) -> float:
        return float(self.over.sum() / self.under.sum())

    def interval(self, seed: int) -> Interval:
        return bootstrap_ratio(self.over, self.under, seed)


@cache
def counts() -> Counter[str]:
    """How often words occur in the film sentences that come with the package."""
    every = (review.text for part in ("train", "held") for review in reviews(part))
    return Counter(word for text in every for word in re.findall(r"\w+|[^\w\s]", text.lower()))


def words_of(x: TextInput) -> list[TokenisedWord]:
    """Words by the tokenizer's own marks; special tokens are none."""
    groups: list[list[int]] = []
    for place, (token, special) in enumerate(zip(x.tokens, x.special, strict=True)):
        if special:
            continue
        if token.startswith(PIECE) and groups and groups[-1][-1] == place - 1:
            groups[-1].append(place)
        else:
            groups.append([place])
    known = counts()
    spelt = ["".join(x.tokens[t].removeprefix(PIECE) for t in group) for group in groups]
    return [TokenisedWord(tuple(group), known[text]) for group, text in zip(groups, spelt, strict=True)]


def attention_map(model: TokenModel, x: TextInput) -> Floats:
    """(T, T) mean over layers and heads, query by row."""
    maps = [layer.double().mean(0).numpy() for layer in model.attention_only(x).attentions]  # each (T, T)
    return np.asarray(np.mean(maps, axis=0))


def received(seen: Floats, places: Sequence[int]) -> float:
    """Share of their attention that all other tokens give to these together."""
    outside = np.setdiff1d(np.arange(len(seen)), places)
    return float(seen[np.ix_(outside, np.asarray(places))].sum(1).mean())


def partner(word: TokenisedWord, words: Sequence[TokenisedWord]) -> TokenisedWord | None:
    """The whole word nearest in frequency, if one is near."""
    whole = [each for each in words if not each.split and each.count and each is not word]
    if not whole or not word.count:
        return None
    apart = [abs(log2(each.count / word.count)) for each in whole]
    best = int(np.argmin(apart))
    return whole[best] if apart[best] <= NEAR else None


def twice(x: TextInput, place: int) -> TextInput:
    """The same text with one token put twice."""
    order = [*range(place + 1), *range(place, len(x))]

    def again(values: Any) -> Any:
        return None if values is None else tuple(values[t] for t in order)

    names = ("ids", "tokens", "offsets", "special", "words", "segments", "type_ids")
    return replace(x, **{name: again(getattr(x, name)) for name in names})


def compared(model: TokenModel, some: Sequence[str]) -> dict[str, ComparedAttention]:
    """Every comparison, over texts; a text that has nothing to compare counts as zero over zero."""
    results: dict[str, list[tuple[float, float, int]]] = {}
    for text in some:
        x = model.encode(text, long="truncate")
        for name, row in of_text(model, x).items():
            results.setdefault(name, []).append(row)
    arrays = {name: np.array(rows) for name, rows in results.items()}
    return {
        name: ComparedAttention(rows[:, 0], rows[:, 1], int(rows[:, 2].sum()))
        for name, rows in arrays.items()
    }


def of_text(model: TokenModel, x: TextInput) -> dict[str, tuple[float, float, int]]:
    """Comparison -> (attention, attention it is compared with, pairs)."""
    observed, words = attention_map(model, x), words_of(x)
    pairs = [(word, other) for word in words if word.split and (other := partner(word, words)) is not None]
    under = sum((received(observed, other.places) for _, other in pairs), 0.0)
    split = [received(observed, word.places) for word, _ in pairs]
    pieces = [len(word.places) for word, _ in pairs]
    rows = {
        "split": (sum(split, 0.0), under, len(pairs)),
        "piece": (sum((a / n for a, n in zip(split, pieces, strict=True)), 0.0), under, len(pairs)),
    }
    frequent = max((word for word in words if not word.split), key=lambda word: word.count)
    special = np.flatnonzero(x.special).tolist()
    for name, place in (("first", special[0]), ("last", special[-1]), ("word", frequent.places[0])):
        one = received(observed, [place])
        doubled = received(attention_map(model, twice(x, place)), [place, place + 1])
        rows[name] = (one, received(observed, frequent.places), 1)
        rows[f"{name} twice"] = (doubled, one, 1)
        rows[f"{name} part"] = (doubled / 2, received(observed, frequent.places), 1)
    return rows


LINES = {
    "split": "split words (all pieces together), divided by whole words of equal frequency",
    "piece": "split words (per piece), divided by whole words of equal frequency",
    "first": "{0}, divided by the most frequent whole word",
    "last": "{1}, divided by the most frequent whole word",
    "first twice": "{0} {0} (both together), divided by one {0}",
    "last twice": "{1} {1} (both together), divided by one {1}",
    "word twice": "the most frequent whole word written twice (both together), divided by one (control)",
    "first part": "{0} {0} (per copy), divided by the most frequent whole word",
    "last part": "{1} {1} (per copy), divided by the most frequent whole word",
}


def special_tokens(run: LabRun, name: str, count: int) -> None:
    """The comparisons on one model: a table, and what it says about the conjecture."""
    model = load_token_model(name)
    result = compared(model, texts(count, run.seed))
    marks = text_of(model.encode("a")).tokens
    spans = {key: result[key].interval(run.seed) for key in LINES}
    run.table(
        f"E13: attention on special tokens, whole words and split words ({name}, {count} film sentences)",
        ["attention compared", "ratio", "95 % low", "95 % high", "pairs"],
        [
            [what.format(marks[0], marks[-1]), result[key].ratio, *spans[key], result[key].pairs]
            for key, what in LINES.items()
        ],
    )
    run.claim(
        f"E13, {name}: split words (all pieces together) get more attention than whole words of equal "
        "frequency, so it is no advantage to be a whole word (number: ratio of the attention).",
        value=result["split"].ratio,
        interval=spans["split"],
        holds=spans["split"][0] > 1,
        against=1.0,
        control="ratio for equal attention",
    )
    most = max(("first", "last"), key=lambda key: result[key].ratio)
    run.claim(
        f"E13, {name}: if the special token with the most attention is written twice, each copy gets more "
        "attention than the most frequent whole word, which is not split either (number: ratio).",
        value=result[f"{most} part"].ratio,
        interval=spans[f"{most} part"],
        holds=spans[f"{most} part"][0] > 1,
        against=result[most].ratio,
        control="ratio if it is written once",
    )
