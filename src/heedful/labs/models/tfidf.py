"""A linear classifier of reviews: TF-IDF without normalisation, and logistic regression.

    answer = sign(bias + sum of lambda_j idf_j over places of words j)    idf = log((1 + n) / (1 + n_j)) + 1

Words of fewer than three training texts have no weight. Ridge of 1; L-BFGS, a second for thousands of texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, sparse
from scipy.special import expit

import heedful
from heedful.core.arrays import Floats
from heedful.labs.data.reviews import Review
from heedful.modalities.text_spans import split_words


@dataclass(frozen=True)
class TfidfModel:
    """A weight for each place of a word."""

    weights: dict[str, float]  # lambda_j idf_j
    bias: float

    def margins(self, texts: Sequence[str]) -> Floats:
        """(n,) positive where the answer is label 1; texts in lower case."""
        return np.array([self.bias + sum(self.weights.get(w, 0.0) for w in words(text)) for text in texts])

    def model(self) -> Any:
        """As a black box: texts -> scores of both labels."""

        def tfidf(texts: list[str]) -> Floats:
            values = self.margins(texts)
            return np.column_stack([-values / 2, values / 2])

        return heedful.load(tfidf)


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text)]


def fit_tfidf(sentences: Sequence[Review]) -> TfidfModel:
    """Fitted to the labels of these sentences."""
    texts = [Counter(words(sentence.text.lower())) for sentence in sentences]
    observed = Counter(word for text in texts for word in text)
    kept = sorted(word for word, n in observed.items() if n >= 3 and word.isalpha())
    idf = np.array([np.log((1 + len(texts)) / (1 + observed[word])) + 1 for word in kept])
    place = {word: j for j, word in enumerate(kept)}
    cells = [(i, place[w], n) for i, text in enumerate(texts) for w, n in text.items() if w in place]
    rows, columns, counts = (np.array(part) for part in zip(*cells, strict=True))
    x = sparse.csr_array((counts * idf[columns], (rows, columns)), shape=(len(texts), len(kept)))
    sign = np.array([2 * sentence.label - 1 for sentence in sentences])

    def loss(theta: Floats) -> tuple[float, Floats]:
        margin = sign * (x @ theta[1:] + theta[0])
        pull = -sign * expit(-margin)
        slope = np.concatenate([[pull.sum()], x.T @ pull + theta[1:]])
        return float(np.logaddexp(0, -margin).sum() + theta[1:] @ theta[1:] / 2), slope

    start, options = np.zeros(len(kept) + 1), {"maxiter": 100}
    theta = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return TfidfModel(dict(zip(kept, (theta[1:] * idf).tolist(), strict=True)), float(theta[0]))
