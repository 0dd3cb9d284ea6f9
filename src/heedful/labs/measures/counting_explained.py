"""Counting models explained: methods are asked why the first letter counts n times rather than n - 1.

    found    chance that a copy scores above a letter that is no copy; 1/2 knows nothing
    moves    share of the variance of the scores that comes from the sequence and not from the place:
             mean_j Var_x s_j(x) / (mean_j Var_x s_j(x) + Var_j mean_x s_j(x)); 0: always the same scores

A letter that is removed becomes the last of the alphabet, which no explained sequence holds: what is left is
an ordinary sequence with a copy less. `explaining` is the part of the lab `histogram` that asks and claims.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import heedful
from heedful.core.arrays import Floats
from heedful.core.charts import BarGroup, Bars
from heedful.labs.base.registry import LabRun
from heedful.labs.models.counting import CountConfig, Counter, answers
from heedful.stats.intervals import Band, mean_of, share_of, student

KINDS = ("positional", "semantic")
ATTENTION = ("attention-avg", "attention-rollout")
REMOVAL = ("occlusion", "lime", "kernel-shap")
METHODS = (*ATTENTION, "chefer", "grad-l2", "grad-x-input", "integrated-gradients", *REMOVAL)


def asked(model: Counter) -> Any:
    """The model behind heedful's door: letters with blanks between, the answer for the first place."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    config = model.config
    letters = string.ascii_lowercase[: config.letters]
    tokenizer = Tokenizer(
        models.WordLevel({letter: i for i, letter in enumerate(letters)}, unk_token=letters[-1])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        mask_token=letters[-1],
        pad_token=letters[-1],
        model_max_length=config.length,
    )

    def first(letters: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        logits, weights = model(letters, mask, slice(0, 1))
        return logits[:, 0], weights  # (B, L + 1), one head's row (B, 1, L)

    labels = [f"{count} times" for count in range(config.length + 1)]
    return heedful.load((model, fast), embed=model.embed, forward=first, labels=labels)


def questions(config: CountConfig, n: int, seed: int) -> Tensor:
    """(n, L) sequences whose first letter occurs 2, 3 or 4 times; the last of the alphabet is unused."""
    rng, length = np.random.default_rng(seed), config.length
    rows = np.empty((n, length), dtype=np.int64)
    for i, row in enumerate(rows):
        first = rng.integers(config.letters - 1)
        others = [letter for letter in range(config.letters - 1) if letter != first]
        row[:] = rng.choice(others, length)
        row[[0, *(1 + rng.permutation(length - 1)[: 1 + i % 3])]] = first
    return torch.from_numpy(rows)


def found(scores: Floats, copy: npt.NDArray[np.bool_]) -> float:
    """P(a copy scores above another letter), ties one half."""
    gap = scores[copy][:, None] - scores[~copy][None]
    return float(((gap > 0) + 0.5 * (gap == 0)).mean())


def moves(scores: Floats) -> float:
    """Scores (n, places): share of their variance that comes from the sequence."""
    own = (
        (scores - scores[0]).var(0).mean()
    )  # less the first: scores that never change have no rounding, either
    return float(own / (own + scores.mean(0).var()))


def explained(
    model: Counter, x: Tensor, methods: Sequence[str], seed: int, told: Callable[[int], None]
) -> dict[str, Floats]:
    """Method -> scores (n, L - 1) of the places after the first, on sequences the model counts right."""
    door = asked(model)
    rows: dict[str, list[Floats]] = {method: [] for method in (*methods, "random")}
    for i, row in enumerate(x.tolist()):
        text = " ".join(string.ascii_lowercase[letter] for letter in row)
        count = row.count(row[0])
        target = {"label": count, "contrast": count - 1}
        found = heedful.explain(
            door, text, methods, target, seed=seed + i, evidence=False, keep_partial=False
        )
        for method, kept in rows.items():
            kept.append(found[method].scores[1:])
        told(i + 1)
    return {method: np.array(kept) for method, kept in rows.items()}


# --- the lab's part ------------------------------------------------------------------------------------


def explaining(run: LabRun, models: dict[str, Counter], texts: int) -> None:
    """Which methods find the copies, and whose scores are the same whatever is asked."""
    x = questions(next(iter(models.values())).config, texts, run.seed)
    copy = (x[:, 1:] == x[:, :1]).numpy()
    right = np.all(
        [answers(model, x)[0][:, 0].numpy() for model in models.values()], 0
    )  # both count it right
    scores = {}
    for kind, model in models.items():
        result = partial(run.progress, total=int(right.sum()), what=f"explaining the {kind} model")
        scores[kind] = explained(model, x[right], METHODS, run.seed, result)
    aucs = {
        kind: np.array([[found(s, c) for s, c in zip(rows[m], copy[right], strict=True)] for m in rows]).T
        for kind, rows in scores.items()
    }  # (n, methods)
    names = list(scores["semantic"])
    bands = {kind: student(values, len(names)) for kind, values in aucs.items()}
    for kind, band in bands.items():
        run.table(
            f"Explanations of the {kind} model, {int(right.sum())} sequences; simultaneous 95 % intervals",
            ["method", "copies found", "low", "high", "variance from the sequence"],
            [
                [name, band.mean[m], max(0.0, band.low[m]), min(1.0, band.high[m]), moves(scores[kind][name])]
                for m, name in enumerate(names)
            ],
        )
    run.say(
        "Each method explains why the model counts the first letter n times and not n - 1 times. The true "
        "reason is known: the other copies of this letter. 'Copies found' is the probability that a copy "
        "gets a higher score than another letter (by chance 1/2). 'Variance from the sequence' is the "
        "share of the scores' variance that comes from the sequence and not from the position. If it is "
        "zero, the method gives the same scores for every sequence."
    )
    who_notices(run, names, aucs, scores)
    drawn(run, names, bands)


def drawn(run: LabRun, names: Sequence[str], bands: dict[str, Band]) -> None:
    """Copies found, by method and model."""
    shown = []
    for m, name in enumerate(names):
        parts = ([getattr(bands[kind], part)[m] for kind in KINDS] for part in ("mean", "low", "high"))
        shown.append(BarGroup(name, *(np.clip(part, 0.0, 1.0).tolist() for part in parts)))
    run.figure(
        "found",
        Bars(
            shown,
            series=list(KINDS),
            y="copies found (chance: 1/2)",
            title="Copies found by each method",
            better="high",
        ),
        "Probability that a copy of the first letter gets a higher score than another letter, by method and "
        "model.",
    )


def who_notices(
    run: LabRun, names: Sequence[str], aucs: dict[str, Floats], scores: dict[str, dict[str, Floats]]
) -> None:
    """The claims about explainers."""
    still = max(moves(scores["positional"][name]) for name in ATTENTION)
    run.claim(
        "On the positional model, methods that read only attention give every sequence the same scores "
        "(value: share of the variance that comes from the sequence).",
        value=still,
        exact=True,
        holds=still == 0.0,
        against=min(moves(scores["semantic"][name]) for name in ATTENTION),
        control="share on the semantic model",
    )
    rows = zip(*(scores["positional"][name] for name in ("grad-l2", "attention-avg")), strict=True)
    uneven = [float(np.ptp(norms / observed) / (norms / observed).max()) for norms, observed in rows]
    run.claim(
        "On the positional model, the norm of the gradient is attention times one number per sequence: it "
        "contains no more information about the letters than attention does (value: largest relative "
        "deviation).",
        value=max(uneven),
        exact=True,
        holds=max(uneven) < 1e-4,
    )
    run.say(
        "If attention does not depend on the input, every position j after the first influences the output "
        "through the same matrix: df/de_j = A_0j V'g, with the same g for all positions. So the gradient "
        "alone cannot distinguish a copy from another letter. Gradient x input and integrated gradients "
        "can."
    )
    gap = (
        aucs["semantic"][:, names.index("attention-avg")]
        - aucs["positional"][:, names.index("attention-avg")]
    )
    value, span = mean_of(gap)
    run.claim(
        "Attention finds the copies better in the semantic model than in the positional model, although "
        "both models count equally well (value: difference of 'copies found').",
        value=value,
        interval=span,
        holds=span[0] > 0.25,
    )
    for kind in KINDS:
        weakest = min(
            (aucs[kind][:, names.index(name)] for name in REMOVAL), key=lambda values: values.mean()
        )
        value, span = share_of(weakest == 1)
        run.claim(
            f"Methods that remove letters find the copies in the {kind} model: even with the weakest "
            "method, every copy gets a higher score than every other letter in most sequences (value: "
            "share of sequences).",
            value=value,
            interval=span,
            holds=span[0] > 0.75,
            against=float((aucs[kind][:, names.index("random")] == 1).mean()),
            control="share with random scores",
        )
