"""LIME's limit for one attention head by a formula one can read, as published and corrected. See ratio_game
for the limit itself.

    published   3/2 (n1_j / D(1) - n0_j / D(0))               = 3/2 W_l (alpha_j v_j - alpha_{h,j} v_{h,j})
    plain       the same without the 3/2
    centred     ((n1_j - n0_j) - f_half (g1_j - g0_j)) / D_half

D(1) is the sum of all g with every word present, D(0) with every word absent; D_half = D and f_half = N / D
with half of each word there. `centred` is the first order of the limit where no word has much of the
attention, whatever the bandwidth; with equal scores it is the limit. 3/2 comes of averaging over the number
of removed words as if it did not depend on word j being kept: E[s / (d - 1)] is then 1/2, and it is 1/3.
Cost O(d).

Lopardo, Precioso & Garreau, Attention Meets Post-hoc Interpretability, ICML 2024 (published, with alpha_h as
in their code: the attention of a text without a known word).
"""

from __future__ import annotations

import numpy as np

from heedful.stats.lime_limit import Floats
from heedful.stats.ratio_game import RatioGame


def published(game: RatioGame) -> Floats:
    """(d,) the theorem as printed."""
    return 1.5 * plain(game)


def plain(game: RatioGame) -> Floats:
    """(d,) alpha_j u_j less that of the unknown word in its place."""
    present = game.always_g + game.g1.sum()
    absent = game.always_g + game.g0.sum()
    return np.asarray(game.n1 / present - game.n0 / absent)


def centred(game: RatioGame) -> Floats:
    """(d,) deviations from the average value, weighed by attention in a text with half of its words."""
    half_g = game.always_g + (game.g1 + game.g0).sum() / 2
    half_f = (game.always_n + (game.n1 + game.n0).sum() / 2) / half_g
    return np.asarray((game.n1 - game.n0 - half_f * (game.g1 - game.g0)) / half_g)
