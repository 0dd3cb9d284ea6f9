"""Stories with a question whose supporting sentence is known, and a small model that answers by attention.

    John travelled to the garden. Sandra went to the office. John moved to the kitchen. Where is Sandra?

The supporting fact is the last sentence that names the person asked about; older sentences about the same
person and sentences about others are distractors. As task 1 of bAbI, drawn anew.

    s_i    = sum of the embeddings of its words + age_{n-i}      a sentence                       (n, d)
    q      = sum of the embeddings of the question                                                (d,)
    h_i    = tanh(A s_i + a)             "alone": a state is one sentence's                       (n, d)
           = BiLSTM(s + q)_i             "asked": a state has read all sentences, and the question
    alpha  = softmax_i(u . tanh(W q + V h_i))   additive attention, or uniform: 1 / n             (n,)
    logits = O sum_i alpha_i h_i + c     one per place

`Reader.read` takes any attention in place of alpha. With uniform attention the question does not reach the
answer of "alone"; it reaches that of "asked" through the states.

Weston et al., Towards AI-Complete Question Answering, 2015; Bahdanau et al., ICLR 2015.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.nn.attention import additive_mask, additive_scores

PEOPLE = ("John", "Mary", "Sandra", "Daniel", "Julie", "Bill")
PLACES = ("garden", "kitchen", "office", "hallway", "bedroom", "bathroom")
MOVES = ("travelled", "went", "moved", "journeyed")
QUESTION = ("where", "is")
WORDS = ("<pad>", *PEOPLE, *PLACES, *MOVES, "to", "the", *QUESTION)
ID = {word: number for number, word in enumerate(WORDS)}
SHORTEST = 3  # sentences
ENCODERS = ("alone", "asked")


@dataclass(frozen=True, eq=False)
class Stories:
    """N stories, padded on the right with empty sentences."""

    words: Tensor  # (N, n, 5) ids, n the most sentences of a story; 0 where there is no sentence
    asked: Tensor  # (N,) person, 0 ...
    answer: Tensor  # (N,) place, 0 ...
    fact: Tensor  # (N,) number of the supporting sentence

    def __len__(self) -> int:
        return len(self.words)

    @property
    def real(self) -> Tensor:
        """(N, n) bool: there is a sentence."""
        return self.words[:, :, 0] > 0

    @property
    def person(self) -> Tensor:
        """(N, n) person of each sentence; -1 where there is none."""
        return self.words[:, :, 0] - 1

    @property
    def place(self) -> Tensor:
        """(N, n) place of each sentence; negative where there is none."""
        return self.words[:, :, 4] - ID[PLACES[0]]

    def pick(self, rows: Tensor | slice) -> Stories:
        return Stories(self.words[rows], self.asked[rows], self.answer[rows], self.fact[rows])

    def text(self, row: int) -> list[str]:
        """The sentences, then the question."""
        lines = [[WORDS[i] for i in line.tolist()] for line in self.words[row][self.real[row]]]
        return [*(" ".join(line) for line in lines), f"where is {PEOPLE[int(self.asked[row])]}"]


def stories(count: int, longest: int, seed: int) -> Stories:
    """Of three to `longest` sentences; the person asked about is one of those named, all alike."""
    rng, shape = np.random.default_rng(seed), (count, longest)
    real = np.arange(longest) < rng.integers(SHORTEST, longest + 1, (count, 1))  # (N, n)
    who, how, where = (rng.integers(len(some), size=shape) for some in (PEOPLE, MOVES, PLACES))
    moves = (who + 1, how + ID[MOVES[0]], np.full(shape, ID["to"]), np.full(shape, ID["the"]))
    words = np.stack([*moves, where + ID[PLACES[0]]], 2) * real[:, :, None]
    there = (who[:, :, None] == np.arange(len(PEOPLE))) & real[:, :, None]  # (N, n, people)
    values = np.where(there.any(1), rng.random((count, len(PEOPLE))), -1.0).argmax(1)
    mine = there[np.arange(count), :, values]  # (N, n) sentences about the person asked about
    fact = longest - 1 - mine[:, ::-1].argmax(1)  # the last of them
    answer = where[np.arange(count), fact]
    return Stories(*map(torch.from_numpy, (words, values, answer, fact)))


def without(some: Stories, sentence: Tensor) -> Stories:
    """Each story less one of its sentences (N,); what follows moves up. The answer and the fact stay as they
    were: where the fact is gone, `fact` means nothing."""
    longest = some.words.shape[1]
    index = torch.arange(longest).expand(len(some), -1)
    order = torch.where(index == sentence[:, None], longest, index).argsort(1)  # the one that goes comes last
    words = some.words.gather(1, order[:, :, None].expand_as(some.words)).clone()
    words[:, -1] = 0
    moved = some.fact - (sentence < some.fact).long()
    return Stories(words, some.asked, some.answer, moved)


def uniform(some: Stories) -> Tensor:
    """(N, n): every sentence of a story alike."""
    real = some.real.float()
    return real / real.sum(1, keepdim=True)


@dataclass(frozen=True)
class ReaderConfig:
    """Sizes of a reader."""

    encoder: str = "alone"
    width: int = 64
    longest: int = 10  # sentences of a story
    uniform: bool = False  # attention is 1 / n, learned or not


class StoryReader(nn.Module):
    """Attention over sentences. `seed` draws the weights."""

    def __init__(self, config: ReaderConfig, seed: int) -> None:
        super().__init__()
        if config.encoder not in ENCODERS:
            raise HeedfulError(f"there is no encoder {config.encoder!r}", fix=f"Use {' or '.join(ENCODERS)}")
        self.config, d = config, config.width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.token = nn.Embedding(len(WORDS), d, padding_idx=0)
            self.age = nn.Embedding(config.longest + 1, d)
            self.alone = nn.Linear(d, d)
            self.lstm = nn.LSTM(d, d // 2, bidirectional=True, batch_first=True)
            self.query = nn.Linear(d, d)
            self.key = nn.Linear(d, d, bias=False)
            self.u = nn.Parameter(torch.randn(d) / d**0.5)
            self.out = nn.Linear(d, len(PLACES))

    def question(self, some: Stories) -> Tensor:
        """q (N, d)"""
        where = self.token(torch.tensor([ID[word] for word in QUESTION])).sum(0)
        both: Tensor = where + self.token(some.asked + 1)
        return both

    def states(self, some: Stories) -> Tensor:
        """h (N, n, d)"""
        many = some.real.sum(1, keepdim=True)  # (N, 1)
        age = (many - torch.arange(some.words.shape[1])).clamp_min(
            0
        ) * some.real  # the last sentence is 1 old
        s = self.token(some.words).sum(2) + self.age(age)
        if self.config.encoder == "alone":
            alone: Tensor = self.alone(s).tanh()
            return alone
        s = s + self.question(some)[:, None]
        packed = nn.utils.rnn.pack_padded_sequence(s, many[:, 0], batch_first=True, enforce_sorted=False)
        read: Tensor = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], True, 0.0, s.shape[1])[0]
        return read

    def attend(self, some: Stories) -> tuple[Tensor, Tensor]:
        """(alpha (N, n), states (N, n, d))"""
        h = self.states(some)
        if self.config.uniform:
            return uniform(some), h
        query = self.query(self.question(some))[:, None]
        scores = additive_scores(query, self.key(h), self.u)[:, 0]  # (N, n)
        return (scores + additive_mask(some.real, scores.dtype)).softmax(-1), h

    def read(self, alpha: Tensor, h: Tensor) -> Tensor:
        """Logits of the places, from any attention: alpha (..., N, n), h (N, n, d)."""
        out: Tensor = self.out((alpha[..., None] * h).sum(-2))
        return out

    def forward(self, some: Stories) -> Tensor:
        return self.read(*self.attend(some))
