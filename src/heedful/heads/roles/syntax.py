"""Does a head follow syntax? How often a word's most-attended other word is the one it depends on.

    to the head     argmax over j ≠ i of A[i, j] is the head of i
    from the head   argmax over j ≠ i of A[j, i] is the head of i: of all words, its head looks at i most

A is a head's map between the treebank's surface tokens: attention summed TO the tokens of a word, averaged
FROM them; special tokens are left out. A token of the model that reaches over several words makes them one. A
word whose head lies in the same surface token is left out (counted in a note), as are root and punct. Behind
a causal mask a word never looks at a later one, so heads to the right are found only "from the head".

    baseline    the best fixed offset, "the head is the word o further", o in -5 ... 5 without 0
    chance      mean of 1/(words - 1), any other word being as likely
    naive       the best of all heads and directions and the best offset, chosen and measured on all
                sentences: the best of many is too good, the more so the fewer examples
    crossed     sentences are parted at random into two halves; head and offset are chosen on one and measured
                on the other, both ways, and added up. This is the number to quote
    interval    95 % of head less baseline over sentences drawn again with repetition, choices kept

Clark et al. (2019) use offsets -3 ... 2, relations with at least 100 examples, the naive choice, and put the
possessive's 's to its word; the last is not done here.

Cost: one forward a sentence. Needs: attention weights.
Clark et al. 2019 (What does BERT look at?); Voita et al. 2019; Chernozhukov et al. 2018 (cross-fitting).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats, Span
from heedful.core.errors import HeedfulError
from heedful.core.progress import Report
from heedful.core.result import Result
from heedful.heads.roles.conllu import Sentence
from heedful.io.json_codec import to_jsonable
from heedful.modalities.text import TextInput
from heedful.stats.intervals import Interval, bootstrap_ratio

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

OFFSETS = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)
DIRECTIONS = ("to", "from")  # to the head; from the head
LEFT_OUT = ("root", "punct")
ALL = "all"
MIN_EXAMPLES = 100  # examples of a relation, at least, in Clark et al. 2019
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HeadAccuracy:
    """A head's accuracy beside that of the best offset."""

    accuracy: float
    baseline: float
    gain: float
    interval: Interval  # of gain


@dataclass(frozen=True)
class Relation:
    """What heads do for one relation ("all" for every one)."""

    relation: str
    n: int
    chance: float
    layer: int  # the best head and offset over all sentences
    head: int
    direction: str
    offset: int
    naive: HeadAccuracy
    crossed: HeadAccuracy
    agreed: bool  # both halves chose the same head and direction


@dataclass(frozen=True, eq=False)
class Syntax(Result):
    """Accuracy of every head, and the best for each relation."""

    kind: ClassVar[str] = "syntax"

    model: str
    sentences: int
    least: int
    seed: int
    relations: tuple[Relation, ...]  # "all" first, then by number of examples
    accuracy: dict[str, Floats] = field(repr=False)  # relation -> (L, H, 2): to the head, from the head
    notes: tuple[str, ...] = ()

    def table(self) -> list[dict[str, Any]]:
        """One flat row a relation."""
        rows = []
        for each in self.relations:
            row = {k: v for k, v in asdict(each).items() if k not in ("naive", "crossed")}
            for name in ("naive", "crossed"):
                choice: HeadAccuracy = getattr(each, name)
                row |= {
                    name: choice.accuracy,
                    f"{name}_baseline": choice.baseline,
                    f"{name}_gain": choice.gain,
                }
                row |= {f"{name}_low": choice.interval[0], f"{name}_high": choice.interval[1]}
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        accuracy = {name: values.round(6) for name, values in self.accuracy.items()}
        return dict(to_jsonable(vars(self) | {"accuracy": accuracy}))


@dataclass(frozen=True, eq=False)
class SentenceCounts:
    """Sentence by sentence: right answers of every guesser, and how many there were to give."""

    names: tuple[str, ...]  # R relations, "all" first
    right: Ints  # (S, L H 2, R)
    fixed: Ints  # (S, O, R) of the offsets
    asked: Ints  # (S, R)
    chance: Floats  # (S, R) right answers a random guess would give
    shape: tuple[int, int]  # L, H


@dataclass(frozen=True)
class Aligned:
    """A sentence as the model reads it."""

    units: tuple[tuple[int, ...], ...]  # tokens of each unit: a surface token, or several that share a token
    arcs: tuple[tuple[int, int, str], ...]  # unit, unit of its head, relation
    dropped: int  # arcs inside one unit, or to a word without a token


def align(sentence: Sentence, x: TextInput) -> Aligned:
    """Tokens by the treebank's own spans; words may be cut otherwise than heedful's."""
    owner = [
        _overlapping(span, sentence.spans) if not x.special[t] else [] for t, span in enumerate(x.offsets)
    ]
    group = list(range(len(sentence.spans)))  # surface token -> first one of its unit
    for touched in owner:
        for other in touched[1:]:
            group = [group[touched[0]] if g == group[other] else g for g in group]
    tokens: dict[int, list[int]] = {}
    for t, touched in enumerate(owner):
        if touched:
            tokens.setdefault(group[touched[0]], []).append(t)
    order = {g: index for index, g in enumerate(sorted(tokens))}
    arcs, dropped = [], 0
    for word in sentence.words:
        if word.head < 0 or word.relation.split(":")[0] in LEFT_OUT:
            continue
        own, head = (order.get(group[s]) for s in (word.surface, sentence.words[word.head].surface))
        if own is None or head is None or own == head:
            dropped += 1
        else:
            arcs.append((own, head, word.relation))
    return Aligned(tuple(tuple(tokens[g]) for g in order), tuple(arcs), dropped)


def _overlapping(span: Span, spans: Sequence[Span]) -> list[int]:
    return [i for i, (start, end) in enumerate(spans) if max(start, span[0]) < min(end, span[1])]


def between_units(maps: npt.NDArray[np.float32], units: Sequence[Sequence[int]]) -> Floats:
    """(L, H, U, U) of maps (L, H, T, T): summed to, averaged from."""
    member = np.zeros((len(units), maps.shape[-1]))
    for unit, tokens in enumerate(units):
        member[unit, list(tokens)] = 1
    mean = member / member.sum(1, keepdims=True)
    values: Floats = mean @ maps.astype(np.float64) @ member.T
    return values


def guesses(words: Floats) -> Ints:
    """(L, H, 2, U): the other unit most attended to, and that which attends most; -1 where there is none."""
    both = np.stack([words, np.swapaxes(words, -1, -2)], 2)  # (L, H, 2, U, U)
    units = words.shape[-1]
    both[..., range(units), range(units)] = -1.0
    # nothing at all, as behind a causal mask, is no answer
    return np.where(both.max(-1) > 0, both.argmax(-1), -1)


def count(maps: npt.NDArray[np.float32], aligned: Aligned, names: Sequence[str]) -> tuple[Ints, ...]:
    """Right answers (L H 2, R) and of offsets (O, R), asked (R,): one sentence's, of maps (L, H, T, T)."""
    result = guesses(between_units(maps, aligned.units)).reshape(-1, len(aligned.units))  # (G, U)
    own, head = (np.array([arc[k] for arc in aligned.arcs], dtype=np.int64) for k in (0, 1))  # (N,)
    kinds = np.array([[name in (ALL, arc[2]) for name in names] for arc in aligned.arcs], dtype=np.int64)
    kinds = kinds.reshape(len(own), len(names))
    right = (result[:, own] == head).astype(np.int64) @ kinds
    fixed = (np.array(OFFSETS)[:, None] == head - own).astype(np.int64) @ kinds
    return right, fixed, kinds.sum(0)


def syntax(
    model: TokenModel,
    sentences: Sequence[Sentence],
    *,
    least: int = MIN_EXAMPLES,
    seed: int = 0,
    progress: Report | None = None,
) -> Syntax:
    """Every head against every relation with at least `least` examples."""
    from heedful.heads.batched_maps import batched_maps, require_maps, row_of

    require_maps(model)
    inputs, aligned, notes = _read(model, sentences)
    names = (ALL, *sorted({arc[2] for a in aligned for arc in a.arcs}))
    results: dict[int, tuple[Ints, ...]] = {}
    shape = (0, 0)
    for part in batched_maps(model, [row_of(x) for x in inputs], progress):
        for index, maps in zip(part.rows, part.maps, strict=True):
            results[index] = count(maps, aligned[index], names)
            shape = (maps.shape[0], maps.shape[1])
        notes += [note for note in part.notes if note not in notes]
    right, fixed, requested = (np.stack([results[i][k] for i in range(len(inputs))]) for k in range(3))
    chance = requested / np.array([[max(len(a.units) - 1, 1)] for a in aligned])
    counts = SentenceCounts(
        names=names, right=right, fixed=fixed, asked=requested, chance=chance, shape=shape
    )
    return summarise(counts, model.name, least, seed, tuple(notes))


def _read(
    model: TokenModel, sentences: Sequence[Sentence]
) -> tuple[list[TextInput], list[Aligned], list[str]]:
    """Sentences the model can read, with something to ask."""
    inputs, aligned, long, dropped = [], [], 0, 0
    for sentence in sentences:
        x = model.encode_whole(sentence.text)
        if model.window is not None and len(x) > model.window:
            long += 1
            continue
        result = align(sentence, x)
        dropped += result.dropped
        if result.arcs:
            inputs.append(x)
            aligned.append(result)
    notes = [f"sentences left out, longer than the model reads: {long}"] if long else []
    if dropped:
        notes.append(f"words left out, with their head in the same surface token or token: {dropped}")
    if len(inputs) < 4:
        raise HeedfulError(
            "too few sentences are left to measure heads",
            f"{len(inputs)} of {len(sentences)} read",
            "Give a treebank with at least four sentences of several words",
        )
    return inputs, aligned, notes


def summarise(
    counts: SentenceCounts, model: str, least: int, seed: int, notes: tuple[str, ...] = ()
) -> Syntax:
    """The best head for each relation, chosen naively and across halves."""
    sizes = counts.asked.sum(0)
    kept = [r for r in sorted(range(len(sizes)), key=lambda r: (r > 0, -sizes[r])) if sizes[r] >= least]
    if not kept:
        raise HeedfulError(
            f"no relation has {least} examples",
            f"the treebank has {sizes[0]} words with a head in all",
            f"Lower --least, or give more than these {len(counts.asked)} sentences",
        )
    if least < MIN_EXAMPLES:
        few = f"relations with fewer than {MIN_EXAMPLES} examples are shown too"
        notes = (*notes, f"{few}; published comparisons have none")
    halves = np.random.default_rng(seed).permutation(len(counts.asked)) % 2
    relations = tuple(_relation(counts, r, halves, seed) for r in kept)
    accuracy = {
        counts.names[r]: counts.right[..., r].sum(0).reshape(*counts.shape, 2) / sizes[r] for r in kept
    }
    return Syntax(
        model=model,
        sentences=len(counts.asked),
        least=least,
        seed=seed,
        relations=relations,
        accuracy=accuracy,
        notes=notes,
    )


def _relation(counts: SentenceCounts, r: int, halves: Ints, seed: int) -> Relation:
    right, fixed, requested = counts.right[..., r], counts.fixed[..., r], counts.asked[:, r]
    guesser, offset = int(right.sum(0).argmax()), int(fixed.sum(0).argmax())
    naive = _choice(right[:, guesser], fixed[:, offset], requested, seed)
    crossed_right, crossed_fixed, chosen = np.zeros_like(requested), np.zeros_like(requested), []
    for half in (0, 1):
        here, there = halves == half, halves != half
        chosen.append(int(right[here].sum(0).argmax()))
        crossed_right[there] = right[there, chosen[-1]]
        crossed_fixed[there] = fixed[there, int(fixed[here].sum(0).argmax())]
    crossed = _choice(crossed_right, crossed_fixed, requested, seed)
    layer, head, direction = np.unravel_index(guesser, (*counts.shape, 2))
    return Relation(
        relation=counts.names[r],
        n=int(requested.sum()),
        chance=float(counts.chance[:, r].sum() / requested.sum()),
        layer=int(layer),
        head=int(head),
        direction=DIRECTIONS[direction],
        offset=OFFSETS[offset],
        naive=naive,
        crossed=crossed,
        agreed=chosen[0] == chosen[1],
    )


def _choice(right: Ints, fixed: Ints, asked: Ints, seed: int) -> HeadAccuracy:
    """Counts (S,) of one guesser and one offset."""
    total = int(asked.sum())
    gain = (right - fixed).astype(np.float64)
    interval = bootstrap_ratio(gain, asked.astype(np.float64), seed)
    return HeadAccuracy(
        float(right.sum() / total), float(fixed.sum() / total), float(gain.sum() / total), interval
    )
