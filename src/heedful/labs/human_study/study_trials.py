"""One round of "choose the classifier": two classifiers of the same mails, and what a user may see of them.

    leaky   trained on whole mails, headers and all
    clean   trained on what the mails say; both are handed whole mails
    score   w . x + b, x_j = 1 where word j occurs; logistic loss + decay |w|^2 / 2, minimised by L-BFGS
    truth   which of the two is right more often about mails without headers

Shown of a mail: what a classifier says, and the words that made it say so. A word is one wherever it stands:
one that stands in the header and below it counts as a part of each. Every round draws its training mails anew
(with repetition) and the mails it shows. Cost: two fits and 2 explanations a mail.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, sparse

import heedful
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.model import Model
from heedful.engine.question import run_explainer
from heedful.labs.data.mails import Mail, mails

LABELS = ("good", "spam")
DECAY, TIMES = 0.03, 2  # a word that occurs in fewer mails is not learnt
WORDS = 6  # of an explanation, as in the paper's pages
METHODS = ("lime", "random")
PARAMS: dict[str, dict[str, Any]] = {"lime": {"bag": True, "operator": "delete"}}  # as the paper's package
SIDES = ("leaky", "clean")


@dataclass(frozen=True, eq=False)
class Classifier:
    """A linear classifier of words; called with texts it gives log-odds of good and spam, (n, 2)."""

    columns: Mapping[str, int]
    weights: Floats  # (words,)
    bias: float

    def __call__(self, texts: list[str]) -> Floats:
        scores = self.scores(texts)
        return np.stack([-scores, scores], 1)

    def scores(self, texts: Sequence[str]) -> Floats:
        """(n,) positive for spam."""
        return np.asarray(occurrences(texts, self.columns) @ self.weights + self.bias)

    def accuracy(self, texts: Sequence[str], labels: Sequence[int]) -> float:
        return float(((self.scores(texts) > 0) == np.array(labels)).mean())


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def occurrences(texts: Sequence[str], columns: Mapping[str, int]) -> Any:
    """(n, words) sparse: one where a word occurs."""
    pairs = [
        (row, columns[word]) for row, text in enumerate(texts) for word in words(text) if word in columns
    ]
    rows, cols = zip(*pairs, strict=True) if pairs else ((), ())
    return sparse.csr_matrix((np.ones(len(pairs)), (rows, cols)), shape=(len(texts), len(columns)))


def fit(texts: Sequence[str], labels: Sequence[int], decay: float = DECAY) -> Classifier:
    """Logistic regression; the bias is not decayed."""
    counts = Counter(word for text in texts for word in sorted(words(text)))
    columns = {word: j for j, word in enumerate(word for word in counts if counts[word] >= TIMES)}
    x, signs = occurrences(texts, columns), 2.0 * np.array(labels) - 1

    def loss(weights: Floats) -> tuple[float, Floats]:
        margins = signs * (x @ weights[:-1] + weights[-1])
        pull = -signs / (1 + np.exp(np.clip(margins, -50, 50))) / len(signs)  # d loss / d score
        value = np.logaddexp(0, -margins).mean() + decay / 2 * weights[:-1] @ weights[:-1]
        return float(value), np.append(x.T @ pull + decay * weights[:-1], pull.sum())

    result = optimize.minimize(loss, np.zeros(len(columns) + 1), jac=True, method="L-BFGS-B").x
    return Classifier(columns, result[:-1], float(result[-1]))


@dataclass(frozen=True)
class ExplanationWord:
    """A word of an explanation."""

    text: str
    score: float  # for what the classifier said
    outside: float  # share of its places that are in the header


@dataclass(frozen=True)
class ShownMail:
    """What a user sees of one classifier and one mail."""

    mail: Mail
    said: str
    words: tuple[ExplanationWord, ...]  # the most important first


@dataclass(frozen=True, eq=False)
class Round:
    """Two classifiers, in the order of SIDES."""

    held: tuple[float, float]  # accuracy on mails that were held out, headers and all: what is reported
    test: tuple[float, float]  # accuracy on mails without headers: the truth
    shown: Mapping[
        str, tuple[tuple[ShownMail, ...], tuple[ShownMail, ...]]
    ]  # method -> of each, mail by mail

    @property
    def right(self) -> int:
        """Which of the two is better in truth."""
        return int(self.test[1] > self.test[0])


def play(rng: np.random.Generator, count: int, methods: Iterable[str] = METHODS) -> Round:
    """A round that shows so many mails, of those that neither classifier learnt from."""
    train, kept, test = (mails(part) for part in ("train", "held", "test"))
    drawn = [train[i] for i in rng.integers(len(train), size=len(train))]
    labels = [mail.label for mail in drawn]
    pair = fit([mail.text for mail in drawn], labels), fit([mail.body for mail in drawn], labels)
    known, truth = [mail.label for mail in kept], [mail.label for mail in test]
    chosen = [kept[i] for i in rng.choice(len(kept), count, replace=False)]
    seeds = rng.integers(2**31, size=(count, 2))

    def of(side: int, method: str) -> tuple[ShownMail, ...]:
        each = zip(chosen, seeds[:, side], strict=True)
        return tuple(explained(pair[side], mail, method, int(seed)) for mail, seed in each)

    shown = {method: (of(0, method), of(1, method)) for method in methods}
    heard = [each.accuracy([mail.text for mail in kept], known) for each in pair]
    real = [each.accuracy([mail.body for mail in test], truth) for each in pair]
    return Round((heard[0], heard[1]), (real[0], real[1]), shown)


def explained(classifier: Classifier, mail: Mail, method: str, seed: int) -> ShownMail:
    """The words a method finds most important for what the classifier says of a mail."""
    model: Model = heedful.load(classifier, labels=LABELS)
    x = model.encode(mail.text)
    target = model.target(x)
    attribution = run_explainer(method, model, x, target, **PARAMS.get(method, {}), seed=seed)
    return ShownMail(mail, str(target.label), top(attribution, len(mail.head)))


def top(found: Attribution, head: int, count: int = WORDS) -> tuple[ExplanationWord, ...]:
    """Distinct words by the size of their scores, those of all their places together."""
    total: dict[str, float] = {}
    places: dict[str, list[bool]] = {}
    for word in found.words():
        name = word.text.lower()
        if re.search(r"\w", name):
            total[name] = total.get(name, 0.0) + float(word.score)
            places.setdefault(name, []).append(word.start < head)
    ranked = sorted(total, key=lambda name: -abs(total[name]))[:count]
    return tuple(ExplanationWord(name, total[name], float(np.mean(places[name]))) for name in ranked)


def out_of_place(shown: Iterable[ShownMail]) -> float:
    """Share of the explaining words that stand in headers: what a user who distrusts them counts."""
    return float(np.mean([word.outside for each in shown for word in each.words]))
