"""Two toy languages and a translation by rule, so that the true alignment of every sentence is known.

    source   the [adjective] noun verb the [adjective] noun [preposition the [adjective] noun] [adverb] .
    target   [adverb] subject [adjective] [noun [adjective] postposition] object [adjective] verb

Order changes: the verb goes last, the adverb first, adjectives follow their noun, prepositions become
postpositions. Forms change: a noun takes an ending by its part in the sentence and its number, an adjective
by the gender of its noun, the verb by the number of its subject (which the source verb does not show).
Articles have no translation. Stems and genders are drawn from a seed.

Every target word translates one source word (`links`, the sure alignment of Och & Ney 2003) and may owe its
ending to another one (`forms`, which with the first makes the possible alignment). Three marks stand before
all words in the vocabulary: padding, start, end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

PAD, START, END = 0, 1, 2
MARKS = ("<pad>", "<s>", "</s>")
THE = "the"
NOUNS = {
    "dog": "dogs",
    "cat": "cats",
    "fox": "foxes",
    "horse": "horses",
    "goose": "geese",
    "child": "children",
    "king": "kings",
    "farmer": "farmers",
    "sister": "sisters",
    "teacher": "teachers",
}
ADJECTIVES = ("red", "old", "small", "happy", "quiet", "strong")
VERBS = ("saw", "followed", "heard", "found", "met", "called")
PREPOSITIONS = ("near", "behind", "without")
ADVERBS = ("today", "often", "suddenly")
CASES = {"subject": ("", "i"), "place": ("l", "li"), "object": ("m", "mi")}  # endings: singular, plural
GENDERS, NUMBERS = ("a", "o"), ("t", "nt")  # endings of adjectives, and of verbs
OPTIONAL = 0.5  # chance of each adjective, place and adverb


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation; alignments are one entry per target word."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[int, ...]  # the source word it translates
    forms: tuple[int, ...]  # the source word that decides its ending; the same as `links` where none does


@dataclass(frozen=True)
class Language:
    """Stems of the target language, and the gender of its nouns."""

    stems: Mapping[str, str]  # source word (a noun's singular) -> stem
    gender: Mapping[str, int]

    @property
    def vocabulary(self) -> dict[str, int]:
        """Word -> id: both languages in one."""
        nouns = [self.stems[n] + ending for n in NOUNS for pair in CASES.values() for ending in pair]
        others = [self.stems[a] + ending for a in ADJECTIVES for ending in GENDERS]
        others += [self.stems[v] + ending for v in VERBS for ending in NUMBERS]
        others += [self.stems[word] for word in (*PREPOSITIONS, *ADVERBS)]
        source = (THE, *NOUNS, *NOUNS.values(), *ADJECTIVES, *VERBS, *PREPOSITIONS, *ADVERBS)
        return {word: i for i, word in enumerate((*MARKS, *source, *nouns, *others))}


def language(seed: int) -> Language:
    """Stems of two syllables, all different."""
    rng = np.random.default_rng(seed)
    syllables = [c + v for c in "bdfgkprstvz" for v in "aeou"]
    words = (*NOUNS, *ADJECTIVES, *VERBS, *PREPOSITIONS, *ADVERBS)
    drawn = rng.choice(len(syllables) ** 2, len(words), replace=False)
    stems = [syllables[i // len(syllables)] + syllables[i % len(syllables)] for i in drawn.tolist()]
    gender = dict(zip(NOUNS, rng.permutation(len(NOUNS)) % 2, strict=True))
    return Language(dict(zip(words, stems, strict=True)), {noun: int(g) for noun, g in gender.items()})


@dataclass(frozen=True)
class NounPhrase:
    """The [adjective] noun: what is drawn of it."""

    noun: str
    plural: int
    adjective: str | None

    def source(self) -> tuple[str, ...]:
        noun = NOUNS[self.noun] if self.plural else self.noun
        return (THE, noun) if self.adjective is None else (THE, self.adjective, noun)


def translate(
    words: Language, groups: Mapping[str, NounPhrase], verb: str, preposition: str | None, adverb: str | None
) -> Pair:
    """`groups` has a subject, an object, and with a preposition a place."""
    source, at = [*groups["subject"].source(), verb, *groups["object"].source()], {"subject": 0}
    at |= {"verb": len(groups["subject"].source())}
    at |= {"object": at["verb"] + 1, "preposition": len(source), "place": len(source) + 1}
    if preposition is not None:
        source += [preposition, *groups["place"].source()]
    if adverb is not None:
        source.append(adverb)
    target: list[tuple[str, int, int]] = []  # word, the source word it translates, that of its ending

    def add(part: str) -> None:
        group, start = groups[part], at[part]
        noun = start + len(group.source()) - 1
        ending = CASES[part][group.plural]
        target.append(
            (words.stems[group.noun] + ending, noun, at["preposition"] if part == "place" else noun)
        )
        if group.adjective is not None:
            target.append((words.stems[group.adjective] + GENDERS[words.gender[group.noun]], start + 1, noun))

    if adverb is not None:
        target.append((words.stems[adverb], len(source) - 1, len(source) - 1))
    add("subject")
    if preposition is not None:
        add("place")
        target.append((words.stems[preposition], at["preposition"], at["preposition"]))
    add("object")
    form = words.stems[verb] + NUMBERS[groups["subject"].plural]
    target.append((form, at["verb"], at["verb"] - 1))  # the subject noun stands before its verb
    written, links, forms = zip(*target, strict=True)
    return Pair(tuple(source), tuple(written), tuple(links), tuple(forms))


def sentences(words: Language, count: int, seed: int) -> list[Pair]:
    """So many different sentences."""
    rng = np.random.default_rng(seed)
    pairs: dict[tuple[str, ...], Pair] = {}
    while len(pairs) < count:
        pair = _drawn(words, rng)
        pairs.setdefault(pair.source, pair)
    return list(pairs.values())


def _drawn(words: Language, rng: np.random.Generator) -> Pair:
    def maybe(some: Sequence[str]) -> str | None:
        return str(rng.choice(some)) if rng.random() < OPTIONAL else None

    nouns = rng.choice(list(NOUNS), 3, replace=False).tolist()  # no noun twice: its copies would look alike
    adjectives = [*rng.permutation(ADJECTIVES)[:3].tolist()]
    kept = [a if rng.random() < OPTIONAL else None for a in adjectives]
    parts = zip(("subject", "object", "place"), nouns, kept, strict=True)
    groups = {part: NounPhrase(noun, int(rng.integers(2)), adjective) for part, noun, adjective in parts}
    return translate(words, groups, str(rng.choice(VERBS)), maybe(PREPOSITIONS), maybe(ADVERBS))


def rows(pairs: Sequence[Pair], vocabulary: Mapping[str, int]) -> tuple[Tensor, Tensor]:
    """Source (n, T), words and END; target (n, S), START, words and END; padded on the right."""

    def padded(lines: Iterator[list[int]]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(line) for line in lines], True, PAD)

    source = padded([*(vocabulary[w] for w in pair.source), END] for pair in pairs)
    return source, padded([START, *(vocabulary[w] for w in pair.target), END] for pair in pairs)
