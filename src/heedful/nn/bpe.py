"""Byte-pair encoding: learn merges by counting, apply them in the order learnt.

    train:  start from single symbols; again and again join the most frequent neighbours into a new symbol
    encode: cut the text into pieces, then join neighbours in each piece, earliest learnt merge first
    decode: write the symbols one after another

Byte-level (GPT-2): symbols start as the 256 bytes of UTF-8, so every text has an encoding and
decode(encode(x)) = x; pieces are words with their leading space. Character-level (textbooks): symbols start
as the characters of the corpus, pieces are words and the white space between; an unseen one is an error.
Ties go to the pair of lower ids, so the merges are those of `tokenizers`.
Cost: train O(corpus + merges x touched words); encode O(n^2) in the length of a piece, each piece once.

Sennrich et al., Neural Machine Translation of Rare Words with Subword Units, ACL 2016; Radford et al. 2019.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import regex

from heedful.core.errors import HeedfulError

# GPT-2's cut: English endings, words, numbers and the rest, each with one leading space; then white space.
GPT2_PIECES = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
PLAIN_PIECES = regex.compile(r"\S+|\s+")

Pair = tuple[int, int]


def byte_alphabet() -> dict[int, str]:
    """Byte -> the visible character that stands for it in GPT-2's files, in the order of GPT-2's ids.

    Printable bytes stand for themselves; the other 68 become U+0100, U+0101, ... (the space is "Ġ").
    """
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in shown]
    return {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}


BYTE_TO_CHAR = byte_alphabet()
CHAR_TO_BYTE = {c: b for b, c in BYTE_TO_CHAR.items()}


@dataclass(frozen=True)
class BPE:
    """A byte-pair encoding. `vocab` maps symbols to ids. `merges` lists the merges in the order in which they
    were learned. Text is never encoded as `specials`."""

    vocab: dict[str, int]
    merges: tuple[tuple[str, str], ...]
    byte_level: bool = True
    specials: tuple[str, ...] = ()
    _seen: dict[str, list[int]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_merges(
        cls, merges: Iterable[tuple[str, str]], specials: Sequence[str] = ("<|endoftext|>",)
    ) -> "BPE":
        """Byte-level, with GPT-2's numbering: the bytes, the merges in their order, then the specials."""
        merges = tuple(merges)
        symbols = dict.fromkeys([*BYTE_TO_CHAR.values(), *(a + b for a, b in merges), *specials])
        return cls({symbol: i for i, symbol in enumerate(symbols)}, merges, True, tuple(specials))

    @cached_property
    def ranks(self) -> dict[Pair, tuple[int, int]]:
        """Pair of ids -> (when it was learnt, id of the joined symbol); the first learnt wins."""
        table: dict[Pair, tuple[int, int]] = {}
        for rank, (a, b) in enumerate(self.merges):
            table.setdefault((self.vocab[a], self.vocab[b]), (rank, self.vocab[a + b]))
        return table

    @cached_property
    def symbols(self) -> dict[int, str]:
        """Id -> symbol."""
        return {i: symbol for symbol, i in self.vocab.items()}

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; special symbols written in the text are treated as text."""
        return [i for piece in pieces(text, self.byte_level) for i in self._encode_piece(piece)]

    def _encode_piece(self, piece: str) -> list[int]:
        if piece not in self._seen:
            unknown = [c for c in piece if c not in self.vocab]
            if unknown:
                raise HeedfulError(
                    f"character {unknown[0]!r} was not in the training text", fix="Use byte_level=True"
                )
            ids = [self.vocab[c] for c in piece]
            while result := min(((self.ranks[p], p) for p in pairwise(ids) if p in self.ranks), default=None):
                (_, joined), pair = result
                ids = join(ids, pair, joined)
            self._seen[piece] = ids
        return self._seen[piece]

    def decode(self, ids: Iterable[int], errors: str = "replace") -> str:
        """Text of `ids`; a character cut in two becomes U+FFFD, or raises with errors="strict"."""
        if not self.byte_level:
            return "".join(self.symbols[i] for i in ids)
        raw = b"".join(self._bytes(self.symbols[i]) for i in ids)
        return raw.decode("utf-8", errors)

    def _bytes(self, symbol: str) -> bytes:
        return symbol.encode() if symbol in self.specials else bytes(CHAR_TO_BYTE[c] for c in symbol)


def pieces(text: str, byte_level: bool) -> list[str]:
    """The stretches that merges never cross; byte-level ones are spelt in the byte alphabet."""
    if not byte_level:
        return list(PLAIN_PIECES.findall(text))
    return ["".join(BYTE_TO_CHAR[b] for b in piece.encode()) for piece in GPT2_PIECES.findall(text)]


def join(ids: list[int], pair: Pair, joined: int) -> list[int]:
    """Replace every (a, b) by `joined`, left to right without overlap."""
    out, i = [], 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
            out.append(joined)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    byte_level: bool = True,
    specials: Sequence[str] = (),
    min_count: int = 1,
) -> BPE:
    """Learn merges until there are `vocab_size` symbols (including `specials`), or until no pair occurs at
    least `min_count` times."""
    counted = Counter(piece for text in texts for piece in pieces(text, byte_level))
    alphabet = BYTE_TO_CHAR.values() if byte_level else {c for piece in counted for c in piece}
    vocab = {symbol: i for i, symbol in enumerate([*specials, *sorted(alphabet)])}
    words = [[vocab[c] for c in piece] for piece in counted]  # one list of ids a distinct piece
    learner = _Pairs(words, list(counted.values()))
    symbols, merges = list(vocab), list[tuple[str, str]]()
    while len(vocab) < vocab_size and (pair := learner.best(min_count)) is not None:
        a, b = symbols[pair[0]], symbols[pair[1]]
        if a + b not in vocab:  # a special may be spelt the same
            vocab[a + b] = len(symbols)
            symbols.append(a + b)
        merges.append((a, b))
        learner.merge(pair, vocab[a + b])
    return BPE(vocab, tuple(merges), byte_level, tuple(specials))


class _Pairs:
    """How often each neighbouring pair occurs, kept up to date while pairs are merged."""

    def __init__(self, words: list[list[int]], times: list[int]) -> None:
        self.words, self.times = words, times
        self.counts: Counter[Pair] = Counter()
        self.where: defaultdict[Pair, set[int]] = defaultdict(set)  # pair -> words that may hold it
        for w in range(len(words)):
            self._count(w, +1)
        self.heap = [(-count, pair) for pair, count in self.counts.items()]
        heapq.heapify(self.heap)

    def _count(self, w: int, sign: int) -> None:
        for pair in pairwise(self.words[w]):
            self.counts[pair] += sign * self.times[w]
            if sign > 0:
                self.where[pair].add(w)

    def best(self, min_count: int) -> Pair | None:
        """The most frequent pair, of lowest ids among equals; entries whose count has changed are stale."""
        while self.heap:
            count, pair = heapq.heappop(self.heap)
            if -count == self.counts[pair]:
                return pair if -count >= max(1, min_count) else None
        return None

    def merge(self, pair: Pair, joined: int) -> None:
        """Join `pair` wherever it stands; pairs whose count has changed enter the heap anew."""
        before: dict[Pair, int] = {}
        for w in self.where.pop(pair):
            after = join(self.words[w], pair, joined)
            for p in (*pairwise(self.words[w]), *pairwise(after)):
                before.setdefault(p, self.counts[p])
            self._count(w, -1)
            self.words[w] = after
            self._count(w, +1)
        for p, count in before.items():
            if self.counts[p] not in (0, count):
                heapq.heappush(self.heap, (-self.counts[p], p))
