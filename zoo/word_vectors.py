"""Starting embeddings: truncated SVD of the positive PMI matrix of the training text.

    PPMI_ij = max(0, log( n_ij / (n_i q_j) )),   q_j = n_j^0.75 / sum_k n_k^0.75,   vectors = U_d S_d^(1/2)

Cost: one pass over the tokens and one randomised SVD (about a minute). Why: a classifier with 40,000 labelled
reviews learns rare words from a handful of labels; co-occurrence tells it beforehand which words are alike.
Levy & Goldberg 2014, "Neural word embedding as implicit matrix factorization"; smoothing: Levy et al. 2015.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse


def cooccurrences(documents: list[np.ndarray], vocab: int, window: int = 6) -> sparse.csr_matrix:
    """Symmetric counts of pairs at distance 1..window, weighted 1/distance; documents do not touch."""
    gap = np.full(window, -1)
    stream = np.concatenate([part for ids in documents for part in (ids, gap)])  # (N,)
    counts = sparse.csr_matrix((vocab, vocab), dtype=np.float64)
    for distance in range(1, window + 1):
        left, right = stream[:-distance], stream[distance:]
        inside = (left >= 0) & (right >= 0)
        pairs = (np.full(int(inside.sum()), 1.0 / distance), (left[inside], right[inside]))
        counts = counts + sparse.coo_matrix(pairs, shape=(vocab, vocab)).tocsr()
    return (counts + counts.T).tocsr()


def word_vectors(documents: list[np.ndarray], vocab: int, size: int, scale: float, seed: int) -> np.ndarray:
    """(vocab, size) vectors with standard deviation `scale`; tokens never seen get small noise."""
    from sklearn.utils.extmath import randomized_svd  # only training needs scikit-learn

    counts = cooccurrences(documents, vocab).tocoo()
    word = np.asarray(counts.sum(axis=1)).ravel()
    context = word**0.75 / (word**0.75).sum()
    pmi = np.log(counts.data / (np.maximum(word, 1e-9)[counts.row] * context[counts.col]))
    keep = pmi > 0
    ppmi = sparse.csr_matrix((pmi[keep], (counts.row[keep], counts.col[keep])), shape=(vocab, vocab))
    u, s, _ = randomized_svd(ppmi, size, n_iter=3, random_state=seed)
    vectors = u * np.sqrt(s)
    vectors = vectors - vectors[word > 0].mean(0)
    unseen = word == 0
    vectors[unseen] = np.random.default_rng(seed).normal(size=(int(unseen.sum()), size)) * vectors.std()
    return (scale * vectors / vectors.std()).astype(np.float32)
