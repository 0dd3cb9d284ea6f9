"""KernelSHAP to equal standard error: our default sampling against captum and shap, masking words.

All estimate the Shapley values of the same logit; shap gets a function that runs 64 rows a call, and no
selection of words (l1_reg=False), so that all three leave every word free.
"""

from __future__ import annotations

import numpy as np

from bench.errors import equal_error
from bench.models import classifier, question, word_scores
from bench.rivals import captum_rows
from bench.timing import Ratio
from heedful.core import registry
from heedful.engine.question import run_explainer

TITLE = "KernelSHAP to equal standard error, 128 tokens"
ROWS, SEEDS = 640, 5


def run() -> list[Ratio]:
    model, x, target = question()
    forward = captum_rows.MaskedWords(model, x, target)

    def ours(seed: int) -> np.ndarray:
        kernel_shap = registry.get("kernel-shap")
        found = run_explainer(
            kernel_shap, model, x, target, samples=ROWS, precision=0, operator="mask", seed=seed
        )
        return word_scores(x, found.scores)

    def captum(seed: int) -> np.ndarray:
        return captum_rows.kernel_shap(forward, ROWS, seed)

    def shap(seed: int) -> np.ndarray:
        return _shap(forward, ROWS, seed)

    rivals = {
        "captum KernelShap, batches of 64": (ours, captum),
        "shap.KernelExplainer, a function that takes batches": (ours, shap),
    }
    found = equal_error("KernelSHAP", rivals, rows=ROWS, seeds=SEEDS, at_most=0.5)
    return [r.told(f"{r.note}; on {classifier()[1]}", r.rows) for r in found]


def _shap(forward: captum_rows.MaskedWords, samples: int, seed: int) -> np.ndarray:
    from shap import KernelExplainer

    np.random.seed(seed)  # noqa: NPY002 (it draws from numpy's global state)
    explainer = KernelExplainer(forward.of_masks, np.zeros((1, forward.width)))
    found = explainer.shap_values(
        np.ones((1, forward.width)), nsamples=samples, l1_reg=False, silent=True, gc_collect=False
    )
    return np.asarray(found)[0]
