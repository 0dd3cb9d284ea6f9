"""What a model loses when a dictionary's reconstruction takes the place of its activations.

    recovered = (CE_ablated - CE_sae) / (CE_ablated - CE_clean)

CE: -log p(next token) of causal language models; -log p(label) of classifiers, or of their own clean answer.
Ablated: the positions of the text set to zero, or to the mean. Special tokens and padding are not touched.
1 where nothing is lost, 0 where the dictionary is no better than the ablation; it can be below 0.
Cost: one pass a window and edit. Bricken et al. 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.evidence import MeasuredValue
from heedful.core.progress import Report, counting
from heedful.features.activations.eval_windows import Corpus
from heedful.features.activations.windows import Batch
from heedful.features.measures.sparsity import ratio
from heedful.features.sae.autoencoder import SAE
from heedful.io.labels import label_index
from heedful.models.adapter import TokenModel
from heedful.models.sites.access import changing

MEASURED = ("causal-lm", "classifier")
Edit = Callable[[Tensor], Tensor]  # rows (n, d) -> rows (n, d)


def edits_of(sae: SAE, other: SAE, mean: Tensor) -> dict[str, Edit | None]:
    return {
        "clean": None,
        "sae": sae,
        "zero": torch.zeros_like,
        "mean": lambda x: mean.to(x).expand_as(x),
        "random dictionary": other,
        "identity": lambda x: x,
    }


@dataclass(frozen=True, eq=False)
class Losses:
    """CE summed over each window's predictions, under every edit."""

    by_edit: dict[str, Floats]  # (U,)
    n: Floats  # (U,) predictions

    def recovered(self, edit: str, worst: str, seed: int | None) -> MeasuredValue:
        over = self.by_edit[worst] - self.by_edit[edit]
        return ratio(over, self.by_edit[worst] - self.by_edit["clean"], seed)

    def means(self) -> dict[str, float]:
        """Nats a prediction."""
        return {name: float(values.sum() / self.n.sum()) for name, values in self.by_edit.items()}

    def notes(self) -> list[str]:
        mean = self.means()
        return [
            f"{worst} ablation does not hurt the model ({mean[worst] - mean['clean']:+.4f} nats): "
            "what is recovered against it means little"
            for worst in ("zero", "mean")
            if mean[worst] - mean["clean"] < 0.01
        ]


def losses_of(
    model: TokenModel, found: Corpus, site: str, edits: dict[str, Edit | None], progress: Report | None
) -> Losses:
    sums: dict[str, list[Tensor]] = {name: [] for name in edits}
    n: list[Tensor] = []
    targets = _Targets(model, found)
    for done, batch in enumerate(found.batches):
        for name, edit in edits.items():
            logits = _logits(model, batch, site, edit)
            loss, count = targets.loss(done, batch, logits)
            sums[name].append(loss)
        n.append(count)
        counting(progress, "running the model with the SAE")(sum(map(len, n)), found.units)
    return Losses({name: torch.cat(parts).numpy() for name, parts in sums.items()}, torch.cat(n).numpy())


def _logits(model: TokenModel, batch: Batch, site: str, edit: Edit | None) -> Tensor:
    edited = nullcontext() if edit is None else changing(model, site, replacing(edit, batch.keep))
    with torch.inference_mode(), edited:
        return model.forward(model.padded(batch.ids, batch.mask))


def replacing(edit: Edit, keep: Tensor) -> Callable[[Tensor], Tensor]:
    """An edit of rows as an edit of (B, T, d): only the positions `keep` (B, T) are touched."""

    def changed(x: Tensor) -> Tensor:
        here = keep.to(x.device)
        after = x.clone()
        after[here] = edit(x[here].float().cpu()).to(after)
        return after

    return changed


class _Targets:
    """What the model should say: next tokens, labels, or its own clean answers."""

    def __init__(self, model: TokenModel, found: Corpus) -> None:
        self.lm = model.kind == "causal-lm"
        self.given = None
        if not self.lm and found.labels is not None:
            self.given = torch.tensor([label_index(label, model.labels) for label in found.labels])
        starts = np.cumsum([0, *(len(batch.ids) for batch in found.batches)])
        self.spans = [slice(int(a), int(b)) for a, b in pairwise(starts)]
        self.own: dict[int, Tensor] = {}  # batch -> answers; the clean pass comes first

    def loss(self, number: int, batch: Batch, logits: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) summed -log p, and of how many predictions."""
        if self.lm:
            return next_token_loss(logits.float().cpu(), batch)
        logs = logits.double().cpu().log_softmax(-1)
        if self.given is not None:
            wanted = self.given[self.spans[number]]
        else:
            wanted = self.own.setdefault(number, logs.argmax(-1))
        return -logs.gather(1, wanted[:, None])[:, 0], torch.ones(len(logs), dtype=torch.float64)


def next_token_loss(logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Of logits (B, T, V): each window's sum of -log p(token t + 1), for tokens of the text alone."""
    wanted = batch.keep[:, 1:]  # (B, T - 1)
    flat = torch.nn.functional.cross_entropy(
        logits[:, :-1][wanted], batch.ids[:, 1:][wanted], reduction="none"
    )
    spread = torch.zeros(wanted.shape, dtype=torch.float64)
    spread[wanted] = flat.double()
    return spread.sum(1), wanted.sum(1).double()
