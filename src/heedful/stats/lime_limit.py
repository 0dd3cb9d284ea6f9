"""What LIME for text converges to, in closed form: pure numpy, no model.

d words; z in {0,1}^d says which are kept. LIME draws s ~ U{1..d}, removes s words uniformly, weighs the row
by pi(z) = psi(s/d) and fits f ~ b_0 + sum_j b_j z_j by weighted least squares. As rows grow, with

    psi(t)  = exp(-(1 - sqrt(1 - t))^2 / (2 nu^2))                              nu = kernel width / 100
    alpha_p = E[pi z_1 ... z_p] = 1/d sum_s psi(s/d) prod_{k<p} (d - s - k)/(d - k)
    c       = (d-1) alpha_0 alpha_2 - d alpha_1^2 + alpha_0 alpha_1
    sigma_0 = (d-1) alpha_2 + alpha_1                  sigma_1 = -alpha_1
    sigma_2 = ((d-2) alpha_0 alpha_2 - (d-1) alpha_1^2 + alpha_0 alpha_1) / (alpha_1 - alpha_2)
    sigma_3 = (alpha_1^2 - alpha_0 alpha_2) / (alpha_1 - alpha_2)

    b_0 = (sigma_0 E[pi f] + sigma_1 sum_k E[pi z_k f]) / c
    b_j = (sigma_1 E[pi f] + sigma_2 E[pi z_j f] + sigma_3 sum_{k != j} E[pi z_k f]) / c

Mardaoui & Garreau, An Analysis of LIME for Text Data, AISTATS 2021.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from heedful.core.errors import HeedfulError

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]
# p (P,) -> E_p[f] (P,), E_p[f | z_j = 1] (P, d), E_p[f | z_j = 0] (P, d): each word kept with probability p
CoinMeans = Callable[[Floats], tuple[Floats, Floats, Floats]]

PUBLISHED = 0.25  # kernel width 25 on 100 x cosine distance
CANCELLED = 1e-9  # c is a difference: below this share of its terms, its digits are noise
NODES = 96  # most nodes of a mixture of coin tosses: size laws are then met to 1e-12 up to d = 250


def psi(share: Floats, nu: float) -> Floats:
    """Weight of a row with this share of its words removed; nu = inf weighs all alike."""
    if not nu > 0:
        raise HeedfulError(f"bandwidth cannot be {nu}", fix="Use a positive number; 0.25 is LIME's own")
    return np.exp(-np.square((1 - np.sqrt(1 - share)) / nu) / 2)


def pair_share(d: int, nu: float = PUBLISHED) -> Floats:
    """(d // 2,): how many of the pairs that remove s or d - s words, s = 1 .. d // 2, should have each s: as
    many as they weigh, which at the published bandwidth is nearly the same for all."""
    law = size_law(d, nu)
    s = np.arange(1, d // 2 + 1)
    return np.asarray(law[s] + law[d - s])


def size_share(d: int, nu: float = PUBLISHED) -> Floats:
    """(d - 1,): how many of the rows should remove s = 1 .. d - 1 words: by the root of what they weigh, but
    half as many as of the most at least. Texts with little left anchor LIME's slopes, and KernelSHAP, which
    reads the same rows, gives them weight: with fewer its intervals covered 87 %."""
    share = np.sqrt(size_law(d, nu)[d - np.arange(1, d)])
    return np.asarray(np.maximum(share, share.max() / 2))


def row_weights(keep: Masks, nu: float = PUBLISHED) -> Floats:
    """pi(z) of each row (n, d) -> (n,). The empty row has cosine distance 1, its 0/0 notwithstanding."""
    return psi(1 - keep.mean(1), nu)


def size_law(d: int, nu: float) -> Floats:
    """(d + 1,): weight of all rows with m words kept, psi((d - m)/d)/d; LIME's sum leaves m = d out."""
    return psi((d - np.arange(d + 1)) / d, nu) / d


def alphas(d: int, nu: float, order: int = 2) -> Floats:
    """alpha_0 ... alpha_order."""
    s = np.arange(1, d + 1)
    kept = np.ones(d)
    results = []
    for p in range(order + 1):
        results.append(float(kept @ psi(s / d, nu)) / d)
        kept = kept * ((d - s - p) / (d - p) if p < d else 0.0)
    return np.array(results)


@dataclass(frozen=True)
class Constants:
    """The entries of the inverse second-moment matrix: sigma_i / c."""

    s0: float
    s1: float
    s2: float
    s3: float


@lru_cache(maxsize=256)
def constants(d: int, nu: float) -> Constants:
    """sigma_0..3 divided by c. Needs two words: with one, only the empty row is ever drawn."""
    if d < 2:
        raise HeedfulError("LIME's limit needs at least two words", f"the text has {d}")
    a0, a1, a2 = alphas(d, nu)
    c = (d - 1) * a0 * a2 - d * a1**2 + a0 * a1
    if not c > CANCELLED * d * a1**2:
        raise HeedfulError(
            f"a bandwidth of {nu} is too narrow for {d} words",
            "every sample except the nearest has no weight",
            "Use a wider one; 0.25 is LIME's own",
        )
    s2 = ((d - 2) * a0 * a2 - (d - 1) * a1**2 + a0 * a1) / (a1 - a2)
    s3 = (a1**2 - a0 * a2) / (a1 - a2)
    return Constants(((d - 1) * a2 + a1) / c, -a1 / c, s2 / c, s3 / c)


def limit(mean: Floats | float, mean_with: Floats, nu: float) -> tuple[Floats, Floats]:
    """(b_0, b) from E[pi f] (...) and E[pi z_j f] (..., d): linear in f, so any leading axes will do."""
    k = constants(mean_with.shape[-1], nu)
    total = mean_with.sum(-1)
    slopes = np.asarray(k.s1 * mean + k.s3 * total)[..., None] + (k.s2 - k.s3) * mean_with
    return np.asarray(k.s0 * mean + k.s1 * total), slopes


def limit_of_pairs(pairs: Floats, nu: float) -> tuple[Floats, Floats]:
    """(b_0, b) of f(z) = sum_{k<l} pairs[k, l] z_k z_l for symmetric pairs (..., d, d), zero diagonal."""
    _, _, a2, a3 = alphas(pairs.shape[-1], nu, 3)
    at = pairs.sum(-1)  # (..., d): pairs that hold word j
    total = at.sum(-1) / 2
    return limit(a2 * total, a2 * at + a3 * (total[..., None] - at), nu)


@lru_cache(maxsize=64)
def coin_mixture(d: int, nu: float) -> tuple[Floats, Floats]:
    """(p, w): signed weights such that sum_q w_q E[h | each word kept with probability p_q] is
    sum_m size_law(m) E[h | m kept], for every h: keeping |z| words uniformly is a mixture of coin tosses.

    nu = inf needs no fit: |z| uniform on {0..d} is p uniform on (0, 1).
    """
    nodes, width = np.polynomial.legendre.leggauss(min(d // 2 + 1 if np.isinf(nu) else d + 16, NODES))
    p, width = (nodes + 1) / 2, width / 2
    if np.isinf(nu):
        return p, width * (d + 1) / d
    m = np.arange(d + 1)[:, None]
    log_binomial = gammaln(d + 1) - gammaln(m + 1) - gammaln(d - m + 1)
    law = np.exp(log_binomial + m * np.log(p) + (d - m) * np.log1p(-p))  # (d + 1, nodes)
    w, *_ = np.linalg.lstsq(law * width, size_law(d, nu), rcond=1e-10)
    return p, w * width


def limit_of_coins(means: CoinMeans, everything: float, d: int, nu: float) -> tuple[Floats, Floats]:
    """(b_0, b) of a function whose means under coin tosses are known, and its value with every word."""
    p, w = coin_mixture(d, nu)
    mean, with_j, _ = means(p)
    unperturbed = everything / d  # the mixture holds s = 0, which LIME never draws
    return limit(float(w @ mean) - unperturbed, (w * p) @ with_j - unperturbed, nu)


@lru_cache(maxsize=64)
def uniform_coins(d: int) -> tuple[Floats, Floats]:
    """(p, w): int_0^1 h(p) dp = sum_q w_q h(p_q) for a word's part in means under coin tosses of d words."""
    nodes, width = np.polynomial.legendre.leggauss(min(d // 2 + 1, NODES))
    return (nodes + 1) / 2, width / 2


def shapley_of_coins(means: CoinMeans, d: int) -> Floats:
    """int_0^1 (E_p[f | z_j = 1] - E_p[f | z_j = 0]) dp: exact, the integrand has degree d - 1 (Owen 1972)."""
    p, w = uniform_coins(d)
    _, with_j, without_j = means(p)
    return np.asarray(w @ (with_j - without_j))
