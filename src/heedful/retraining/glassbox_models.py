"""Models one can read: a sparse logistic regression and a decision tree over which words a text holds.

    logistic   log odds = b + sum_j w_j [word j is there], at most `most` words, chosen one by one by Rao's
               score test and refitted after each, with ridge |w|^2 / 2. The test is U_j^2 / V_j with
               U_j = x_j . (y - p),  V_j = x_j' W x_j - x_j' W Z (Z' W Z)^-1 Z' W x_j,  W = p (1 - p),
               Z the words so far and a constant
    tree       the split that lowers the Gini impurity most, at most `most` questions deep, at least `leaf`
               texts a leaf

The words that decide about one text are known: of the regression, its words that are there; of the tree, the
words on the text's path that are there.
Cost: `most` + 1 fits of Newton's method; a pass over the texts of a node for each node of the tree.

Rao 1948 (score test); Breiman et al. 1984 (CART).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from heedful.core.arrays import Floats
from heedful.stats.lime_limit import Indices

RIDGE = 1.0
MIN_LEAF_TEXTS = 5
Words = frozenset[str]
Presence = Any  # scipy CSR (n, V), 1 where a word is there


@dataclass(frozen=True)
class Logistic:
    """A weight for each of a few words."""

    words: tuple[str, ...]
    weights: Floats  # one per word
    bias: float

    def probability(self, texts: Sequence[Words]) -> Floats:
        """(n,) of label 1."""
        values = np.array([[word in text for word in self.words] for text in texts]).reshape(len(texts), -1)
        return np.asarray(expit(values @ self.weights + self.bias))

    def deciding(self, text: Words) -> Words:
        return frozenset(self.words) & text


@dataclass(frozen=True)
class Tree:
    """A question about a word, or (word "") a leaf."""

    share: float  # of label 1 among the texts that came here
    word: str = ""
    absent: Tree | None = None
    present: Tree | None = None

    def path(self, text: Words) -> list[Tree]:
        """Nodes a text passes, the leaf last."""
        passed, node = [self], self.after(text)
        while node is not None:
            passed.append(node)
            node = node.after(text)
        return passed

    def after(self, text: Words) -> Tree | None:
        return self.present if self.word in text else self.absent

    def probability(self, texts: Sequence[Words]) -> Floats:
        """(n,) of label 1."""
        return np.array([self.path(text)[-1].share for text in texts])

    def deciding(self, text: Words) -> Words:
        return frozenset(node.word for node in self.path(text)) & text


GlassBox = Logistic | Tree


def presence(texts: Iterable[Words], vocabulary: Sequence[str]) -> Presence:
    """A sparse matrix (n, V): 1 if the text contains the word of the vocabulary."""
    place = {word: j for j, word in enumerate(vocabulary)}
    rows = [sorted(place[word] for word in text if word in place) for text in texts]
    ends = np.cumsum([0, *map(len, rows)])
    columns = np.array([j for row in rows for j in row], dtype=np.int64)
    return sparse.csr_array((np.ones(len(columns)), columns, ends), shape=(len(rows), len(vocabulary)))


def fit_logistic(x: Presence, y: Floats, vocabulary: Sequence[str], most: int = 10) -> Logistic:
    """Fit a logistic regression on at most `most` words, chosen by greedy forward selection. y is 0 or 1."""
    chosen: list[int] = []
    beta = newton(np.ones((len(y), 1)), y)
    for _ in range(min(most, x.shape[1])):
        z = np.column_stack([np.ones(len(y)), x[:, chosen].toarray()])
        gain = score_test(x, y, z, expit(z @ beta))
        gain[chosen] = 0.0
        if not gain.any():  # what is left adds nothing to what is there
            break
        chosen.append(int(gain.argmax()))
        beta = newton(np.column_stack([z, x[:, [chosen[-1]]].toarray()]), y)
    return Logistic(tuple(vocabulary[j] for j in chosen), beta[1:], float(beta[0]))


def score_test(x: Presence, y: Floats, z: Floats, p: Floats) -> Floats:
    """(V,) how much each word would add to a model that says p from z."""
    w = p * (1 - p)
    pull = x.T @ (y - p)
    shared = (x.T @ (z * w[:, None])).T  # Z' W x_j (k, V)
    spread = x.T @ w - np.sum(shared * np.linalg.solve(z.T @ (z * w[:, None]), shared), axis=0)
    known = spread > 1e-9 * len(y)  # a word in no text, in all, or always with chosen ones, adds nothing
    return np.where(known, np.square(pull) / np.where(known, spread, 1.0), 0.0)


def newton(z: Floats, y: Floats, ridge: float = RIDGE) -> Floats:
    """(k,) coefficients of logistic regression, the first column (a constant) without ridge."""
    beta, penalty = np.zeros(z.shape[1]), ridge * np.diag([0.0, *[1.0] * (z.shape[1] - 1)])
    for _ in range(50):
        p = expit(z @ beta)
        slope = z.T @ (y - p) - penalty @ beta
        step = np.linalg.solve(z.T @ (z * (p * (1 - p))[:, None]) + penalty, slope)
        beta = beta + step
        if np.abs(step).max() < 1e-10:
            break
    return beta


def fit_tree(
    x: Presence, y: Floats, vocabulary: Sequence[str], most: int = 10, leaf: int = MIN_LEAF_TEXTS
) -> Tree:
    """Grow a decision tree greedily from the root. y is 0 or 1."""
    share = float(y.mean())
    j = best_split(x, y, leaf) if most and 0 < share < 1 else None
    if j is None:
        return Tree(share)
    there = x[:, [j]].toarray()[:, 0] > 0
    absent, present = (
        fit_tree(x[np.flatnonzero(side)], y[side], vocabulary, most - 1, leaf) for side in (~there, there)
    )
    return Tree(share, vocabulary[j], absent, present)


def best_split(x: Presence, y: Floats, leaf: int) -> int | None:
    """The word that lowers the Gini impurity most; None where none does."""
    n, total = len(y), y.sum()
    count = np.asarray(x.sum(axis=0)).ravel()  # texts with the word (V,)
    hits = x.T @ y  # of label 1 among them
    with np.errstate(divide="ignore", invalid="ignore"):
        pure = hits**2 / count + (count - hits) ** 2 / count
        rest, missed = n - count, total - hits
        pure += missed**2 / rest + (rest - missed) ** 2 / rest
    pure[(count < leaf) | (n - count < leaf)] = -np.inf  # n less the weighted impurity
    j = int(pure.argmax())
    return j if pure[j] > (total**2 + (n - total) ** 2) / n + 1e-9 * n else None


def common(texts: Sequence[Words], most: int, least: int = 5) -> list[str]:
    """The `most` words that are in most texts, each in at least `least` texts. Ties are in alphabetical
    order."""
    words, counts = np.unique([word for text in texts for word in sorted(text)], return_counts=True)
    order: Indices = np.argsort(-counts, kind="stable")[:most]
    return [str(words[j]) for j in order if counts[j] >= least]
