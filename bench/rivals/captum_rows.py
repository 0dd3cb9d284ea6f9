"""captum's Lime and KernelShap on token ids: a word's ids become the mask token, 64 rows a call.

Special tokens are put around the text by the forward function, so that they are never perturbed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.target import Target
from heedful.modalities.text import TextInput
from heedful.stats.lime_limit import PUBLISHED

BATCH = 64


class MaskedWords:
    """forward (n, T - specials) -> (n,): the explained logit of rows of content ids."""

    def __init__(self, model: Any, x: TextInput, target: Target) -> None:
        self.module, self.index, self.rows = model.module, target.index, 0
        self.before, self.after = x.ids[:1], x.ids[-1:]  # [CLS], [SEP]
        self.ids = torch.tensor([x.ids[1:-1]])
        self.words = torch.tensor([[x.words[t] for t in range(1, len(x) - 1)]])
        self.filler = int(model.tokenizer.mask_token_id)
        self.width = int(self.words.max()) + 1

    def __call__(self, content: Tensor) -> Tensor:
        self.rows += len(content)
        ends = [torch.tensor([ids]).expand(len(content), -1) for ids in (self.before, self.after)]
        with torch.inference_mode():
            logits = self.module(input_ids=torch.cat([ends[0], content, ends[1]], 1)).logits
        return logits[:, self.index].clone()

    def of_masks(self, keep: np.ndarray) -> np.ndarray:
        """(n, d) of 0 and 1 -> (n,), for shap."""
        kept = torch.tensor(keep, dtype=torch.bool)[:, self.words[0]]
        rows = torch.where(kept, self.ids, self.filler)
        return torch.cat([self(part) for part in rows.split(BATCH)]).numpy()


def lime(forward: MaskedWords, samples: int, seed: int, *, published: bool = False) -> np.ndarray:
    """captum's defaults (coin tosses, Lasso), or the sampling, kernel and least squares of the lime paper."""
    from captum._utils.models.linear_model import SkLearnLinearRegression
    from captum.attr import Lime

    torch.manual_seed(seed)
    options: dict[str, Any] = {}
    if published:
        options = {
            "interpretable_model": SkLearnLinearRegression(),
            "similarity_func": _published_weight,
            "perturb_func": _published_mask,
        }
    found = Lime(forward, **options).attribute(forward.ids, **_settings(forward, samples))
    return found[0].double().numpy()


def kernel_shap(forward: MaskedWords, samples: int, seed: int) -> np.ndarray:
    from captum.attr import KernelShap

    torch.manual_seed(seed)
    return KernelShap(forward).attribute(forward.ids, **_settings(forward, samples))[0].double().numpy()


def _settings(forward: MaskedWords, samples: int) -> dict[str, Any]:
    return {
        "baselines": forward.filler,
        "feature_mask": forward.words,
        "n_samples": samples,
        "perturbations_per_eval": BATCH,
        "return_input_shape": False,
    }


def _published_mask(original: Tensor, **facts: Any) -> Tensor:
    """s ~ U{1..d} words removed."""
    d = facts["num_interp_features"]
    removed = int(torch.randint(1, d + 1, (1,)))
    return (torch.randperm(d) >= removed).long()[None]


def _published_weight(original: Tensor, perturbed: Tensor, keep: Tensor, **facts: Any) -> Tensor:
    """exp(-(1 - sqrt(share kept))^2 / (2 nu^2))."""
    share = keep.double().mean()
    return torch.exp(-((1 - share.sqrt()) ** 2) / (2 * PUBLISHED**2))
