"""Interpretation without a language model: a feature as a few rules about a token and what precedes it.

    rule    any of at most `most` atoms holds
    atom    the token; its word in lower case; what the word begins or ends with; its class (digits, capitals,
            punctuation, inside a word, ...); the token, word or class before it; the two tokens before it;
            the pair of both; the place in the model's window
    fit     greedily, the atom that adds most to (share of activation covered - share of silent tokens
            covered) / 2 over all training tokens, until less than `least` is added: balanced accuracy, strong
            firings weighing more. An atom must hold in firings of at least two windows. Twice: with all
            atoms, and without the broad ones (classes, ends of words, place), after which little is left to
            add; the rule whose predictions correlate more with the training activations stays
    predict the greatest mean training activation of the atoms that hold; 0 where none does

Only what stands before a token is looked at: rules hold for causal models, and miss what an encoder reads
ahead. Cost: some 20 atoms a token, tens of milliseconds a feature. Nothing leaves the machine.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from heedful.features.interpretation.results import Explanation
from heedful.features.interpretation.scores import correlation
from heedful.features.reading.examples import Context, Snippet

Atom = tuple[str, ...]
Bools = npt.NDArray[np.bool_]
BROAD = ("class", "after class", "begins", "ends", "within")
WITHIN = (1, 2, 4, 8, 16)
MAX_ATOMS, MIN_GAIN = 8, 0.01
SENTENCES = {
    "token": "the token {}",
    "word": "the word {}",
    "begins": "words that begin with {}",
    "ends": "words that end in {}",
    "class": "{}",
    "pair": "{}",
    "after": "whatever follows the token {}",
    "after word": "whatever follows the word {}",
    "after two": "whatever follows {}",
    "after class": "whatever follows {}",
    "within": "the first {} tokens of a window",
}


@dataclass(frozen=True)
class TokenRule:
    """Atoms with the mean activation of the training tokens on which each holds."""

    atoms: tuple[Atom, ...]
    strength: tuple[float, ...]

    def at(self, context: Context, place: int) -> float:
        """Predicted activation of a token."""
        here = set(atoms(context, place))
        return max(
            (s for atom, s in zip(self.atoms, self.strength, strict=True) if atom in here), default=0.0
        )


class Rules:
    """Explainer and simulator in one."""

    def __init__(self, most: int = MAX_ATOMS, least: float = MIN_GAIN) -> None:
        self.most, self.least = most, least

    def explain(self, examples: Sequence[Snippet]) -> Explanation:
        rule = fit(examples, self.most, self.least)
        greatest = max((max(s.values, default=0.0) for s in examples), default=0.0)
        return Explanation(told(rule), "rules", rule, greatest, bool(rule.atoms))

    def predict(self, explanation: Explanation, contexts: Sequence[Context]) -> list[Sequence[float]]:
        rule = explanation.rule
        return [[rule.at(context, place) for place in range(len(context))] for context in contexts]


# --- atoms -----------------------------------------------------------------------------------------


def atoms(context: Context, place: int) -> Iterator[Atom]:
    """All that can be said of a token, simplest first."""
    pieces = context.pieces
    piece = pieces[place]
    word = piece.strip().lower()
    before = pieces[place - 1] if place else None
    yield ("token", piece)
    if word:
        yield ("word", word)
    for name in classes(piece, before):
        yield ("class", name)
    for size in (2, 3, 4):
        if len(word) > size:
            yield ("begins", word[:size])
            yield ("ends", word[-size:])
    if before is not None:
        yield ("after", before)
        if before.strip():
            yield ("after word", before.strip().lower())
        for name in classes(before, pieces[place - 2] if place > 1 else None):
            yield ("after class", name)
        yield ("pair", before, piece)
        if place > 1:
            yield ("after two", pieces[place - 2], before)
    for size in WITHIN:
        if context.first + place < size:
            yield ("within", str(size))


@lru_cache(maxsize=1 << 16)  # the same few thousand pairs are asked again and again
def classes(piece: str, before: str | None) -> tuple[str, ...]:
    """Kinds of tokens that can be told by their characters."""
    return tuple(_classes(piece, before))


def _classes(piece: str, before: str | None) -> Iterator[str]:
    inside = piece.strip()
    if not inside:
        yield "line breaks" if "\n" in piece else "white space"
        return
    if any(c.isdigit() for c in inside):
        yield "digits"
    letters = [c for c in inside if c.isalpha()]
    if letters and letters[0].isupper():
        yield (
            "capital letters" if len(letters) > 1 and all(map(str.isupper, letters)) else "capitalised words"
        )
    if all(unicodedata.category(c)[0] in "PS" for c in inside):
        yield "punctuation and signs"
    if not inside.isascii():
        yield "characters beyond ASCII"
    if letters and before is not None:
        starts = piece[0].isspace() or not before[-1:].isalpha()
        yield "beginnings of words" if starts else "parts inside words"


# --- fitting ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Table:
    """Which atoms hold where: entry i says that atom[i] holds at token[i]."""

    names: list[Atom]
    atom: npt.NDArray[np.int64]  # (n,)
    token: npt.NDArray[np.int64]  # (n,)
    values: npt.NDArray[np.float64]  # (T,) activation of each token


def fit(examples: Sequence[Snippet], most: int = MAX_ATOMS, least: float = MIN_GAIN) -> TokenRule:
    """The better of two rules that greedy choice finds."""
    table = _table(examples)
    fires = table.values > 0
    if not fires.any() or fires.all() or not len(table.names):
        return TokenRule((), ())
    narrow = np.array([atom[0] not in BROAD for atom in table.names])
    token_rules = [_greedy(table, allowed, most, least) for allowed in (np.ones_like(narrow), narrow)]
    return max(token_rules, key=lambda pair: pair[1])[0]  # of equal ones the first


def _greedy(table: _Table, allowed: Bools, most: int, least: float) -> tuple[TokenRule, float]:
    """A rule of allowed atoms, and the correlation of its predictions with the activations."""
    fires = table.values > 0
    mass = 0.5 * np.where(fires, table.values, 0.0) / table.values[fires].sum()
    weight = np.where(fires, mass, -0.5 / (~fires).sum())  # gain of covering a token
    covered, predicted = np.zeros(len(fires), bool), np.zeros(len(fires))
    chosen: list[int] = []
    strength: list[float] = []
    while len(chosen) < most:
        new = ~covered[table.token]
        gains = np.bincount(table.atom[new], weights=weight[table.token[new]], minlength=len(table.names))
        best = int(np.where(allowed, gains, -np.inf).argmax())  # of equal ones the simplest, numbered first
        if not allowed[best] or gains[best] < least:
            break
        here = table.token[table.atom == best]
        chosen.append(best)
        strength.append(float(table.values[here].mean()))
        covered[here] = True
        predicted[here] = np.maximum(predicted[here], strength[-1])
    rule = TokenRule(tuple(table.names[a] for a in chosen), tuple(strength))
    return rule, correlation(predicted, table.values)


def _table(examples: Sequence[Snippet]) -> _Table:
    """Atoms that hold in firings of two windows or more; overlapping examples of one place count once."""
    places: dict[tuple[int, int], tuple[float, list[Atom]]] = {}
    seen_in: dict[Atom, set[int]] = defaultdict(set)
    for number, snippet in enumerate(examples):
        window = snippet.window if snippet.window >= 0 else -2 - number
        for place, value in enumerate(snippet.values):
            key = (window, snippet.context.first + place)
            if key in places and len(places[key][1]) >= 12:
                continue
            result = list(dict.fromkeys(atoms(snippet.context, place)))
            places[key] = (value, result)
            if value > 0:
                for atom in result:
                    seen_in[atom].add(window)
    order = list(SENTENCES)
    names = [atom for atom, windows in seen_in.items() if len(windows) > 1]
    names.sort(key=lambda atom: (order.index(atom[0]), atom))
    index = {atom: i for i, atom in enumerate(names)}
    entries = [
        (index[atom], token)
        for token, (_, result) in enumerate(places.values())
        for atom in result
        if atom in index
    ]
    both = np.array(entries, dtype=np.int64).reshape(-1, 2)
    values = np.array([value for value, _ in places.values()])
    return _Table(names, both[:, 0], both[:, 1], values)


# --- words -----------------------------------------------------------------------------------------


def told(rule: TokenRule) -> str:
    """The rule as a sentence, atoms of one kind together."""
    if not rule.atoms:
        return "no rule covers more firing than silent tokens"
    kinds: dict[str, list[str]] = {}
    for kind, *names in rule.atoms:
        plain = kind in ("class", "after class", "within")
        kinds.setdefault(kind, []).append(names[0] if plain else " then ".join(map(_quoted, names)))
    return "; or ".join(SENTENCES[kind].format(" or ".join(names)) for kind, names in kinds.items())


def _quoted(piece: str) -> str:
    """Spaces are part of tokens and would be lost at the end of a line."""
    return '"' + piece.replace("\n", "\\n").replace("\t", "\\t").replace(" ", "␣") + '"'
