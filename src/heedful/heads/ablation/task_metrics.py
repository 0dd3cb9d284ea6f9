"""What a model is there for, as numbers a text: higher is better, so that what falls without a head was its.

    classifier        log-probability of the label; accuracy            (labels not given: of its own answer,
    multi-label       mean over labels of the log-probability of yes    which is then called agreement)
                      or no; share of labels that are right
    regression        minus absolute error; minus squared error
    causal-lm         log-likelihood a token (mean over the text's tokens but the first and special ones);
                      share of next tokens it puts first
    encoder-decoder   the same of the answer it is given, or writes greedily when all heads are there

`measure` runs many sets of removed heads at once: rows of one pass are texts of the same length, each with
its own heads gone, so nothing is padding. Cost: one forward a text and set; a pass that does not fit the
memory is run in halves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.progress import Progress
from heedful.heads.ablation.ablate import Anatomy, Head, Means, check_how, masks, replacing
from heedful.io.labels import is_missing, label_index, label_indices
from heedful.modalities.encode import long_of_many
from heedful.modalities.operators import InputRow
from heedful.modalities.text import TextInput
from heedful.models.passes import CHUNK_TOKENS, passes, same_length

if TYPE_CHECKING:
    from torch import Tensor

    from heedful.models.adapter import TokenModel
    from heedful.models.attention_hooks import Edit
from heedful.heads.capture import written

PASS_TOKENS = 512  # tokens a pass of a language model: the logits of its vocabulary are what takes the memory


NAMES = {
    "classifier": ("log-probability", "accuracy"),
    "multi-label": ("log-probability", "accuracy"),
    "regression": ("minus absolute error", "minus squared error"),
    "causal-lm": ("log-likelihood", "accuracy"),
    "encoder-decoder": ("log-likelihood", "accuracy"),
}


Heads = frozenset[Head]


@dataclass(frozen=True, eq=False)
class LabelledText:
    """One text and what the model should say of it."""

    x: TextInput
    wanted: tuple[float, ...]  # class; 0 or 1 a label; values; tokens to be written (their ids)
    scored: tuple[int, ...] = ()  # causal-lm: positions of the tokens that count


@dataclass(frozen=True, eq=False)
class Task:
    """The texts of a measurement, and what is measured on them."""

    model: TokenModel
    cases: tuple[LabelledText, ...]
    own: bool  # the model's own answers are wanted: no labels were given
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, str]:
        first, second = NAMES[self.model.kind]
        own = self.own and self.model.kind not in ("causal-lm", "regression")
        return first, "agreement" if own else second

    @property
    def about(self) -> str:
        """What the metrics are of, in words."""
        if self.model.kind == "causal-lm":
            return "the texts' own tokens"
        answer = "answer" if self.model.kind == "encoder-decoder" else "label"
        return f"the {answer} the model gives with all heads" if self.own else f"the given {answer}"


def prepare(
    model: TokenModel, texts: Iterable[Any], labels: Iterable[Any] | None = None, long: str = "truncate"
) -> Task:
    """Pair every text with its expected output. Texts that cannot be used are left out, and notes say why.

    `labels` are names or indices; for a regression they are values, for an encoder-decoder answers.
    """
    if model.kind not in NAMES:
        raise HeedfulError(
            f"nothing is measured of {model.name}", f"a {model.kind} makes no prediction", "Use a classifier"
        )
    rule, texts = long_of_many(long), list(texts)
    given = [None] * len(texts) if labels is None else list(labels)
    if len(given) != len(texts):
        raise HeedfulError(f"{len(given)} labels were given for {len(texts)} texts", fix="Give one per text")
    if labels is not None and model.kind == "causal-lm":
        raise HeedfulError(
            "a causal language model takes no labels", "it is measured on the texts' own tokens"
        )
    cases, left = [], []
    for number, (text, label) in enumerate(zip(texts, given, strict=True)):
        try:
            if labels is not None and is_missing(label):
                raise HeedfulError("it has no label")
            x = model.encode(text, long=rule)
            cases.append(_case(model, x, label))
            left += [f"text {number}: {note}" for note in x.notes]  # it was cut
        except HeedfulError as error:
            left.append(f"text {number} was skipped: {error}")
    if not cases:
        raise HeedfulError("no text could be used", left[0] if left else "", "Give at least one")
    return Task(model, tuple(cases), labels is None, tuple(left))


def _case(model: TokenModel, x: TextInput, label: Any) -> LabelledText:
    if model.kind == "causal-lm":
        scored = tuple(t for t in range(1, len(x)) if not x.special[t])
        if not scored:
            raise HeedfulError("it has no second token to predict")
        return LabelledText(x, tuple(map(float, x.ids)), scored)
    if model.kind == "encoder-decoder":
        return LabelledText(x, tuple(map(float, written(model, x, label).sequence)))
    if label is None:
        logits = model.logits(x).double()
        own = {"classifier": logits.argmax()[None], "multi-label": logits > 0}.get(model.kind, logits)
        return LabelledText(x, tuple(map(float, own)))
    return LabelledText(x, _labelled(model, label))


def _labelled(model: TokenModel, label: Any) -> tuple[float, ...]:
    if model.kind == "classifier":
        return (float(label_index(label, model.labels)),)
    if model.kind == "multi-label":
        yes = label_indices(label, model.labels)
        return tuple(float(i in yes) for i in range(len(model.labels)))
    several = label.split(",") if isinstance(label, str) else label
    several = list(several) if isinstance(several, Iterable) else [several]
    try:
        values = tuple(map(float, several))
    except (TypeError, ValueError):
        raise HeedfulError(f"{label!r} is not a number", f"{model.name} is a regression") from None
    if len(values) != len(model.labels):
        raise HeedfulError(f"{len(values)} values were given, the model has {len(model.labels)}")
    return values


def measure(
    task: Task,
    sets: Sequence[Heads],
    shape: Anatomy,
    how: str = "zero",
    means: Means | None = None,
    progress: Progress | None = None,
) -> Floats:
    """Both metrics of every text without each set of heads: (texts, sets, 2)."""
    check_how(how, means)
    import torch

    model, rows = task.model, [row_of(task.model, case) for case in task.cases for _ in sets]
    most = PASS_TOKENS if model.kind in ("causal-lm", "encoder-decoder") else CHUNK_TOKENS
    queue = same_length(rows, lambda length: model.rows_that_fit(length, most))

    def edit(part: Sequence[int]) -> Edit:
        return replacing(masks([sets[number % len(sets)] for number in part], shape), how, means)

    values = np.full((len(rows), 2), np.nan)
    with torch.no_grad():
        for ran in passes(model, rows, queue, edit=edit, progress=progress):
            assert ran.logits is not None
            cases = [task.cases[number // len(sets)] for number in ran.rows]
            values[list(ran.rows)] = score(model.kind, ran.logits, cases).double().cpu().numpy()
    return values.reshape(len(task.cases), len(sets), 2)


def row_of(model: TokenModel, case: LabelledText) -> InputRow:
    """The text, and behind it what an encoder-decoder is to write."""
    wanted = InputRow(tuple(map(int, case.wanted[:-1]))) if model.kind == "encoder-decoder" else None
    return InputRow(case.x.ids, case.x.type_ids, written=wanted)


def score(kind: str, logits: Tensor, cases: Sequence[LabelledText]) -> Tensor:
    """(n, 2) from (n, C), (n, T, V) or (n, A, V); the first is differentiable."""
    import torch

    wanted = torch.tensor([case.wanted for case in cases], device=logits.device, dtype=logits.dtype)
    if kind == "regression":
        gap = wanted - logits
        return -torch.stack([gap.abs().mean(-1), gap.square().mean(-1)], -1)
    if kind == "multi-label":
        values = torch.nn.functional.logsigmoid(torch.where(wanted > 0, logits, -logits))
        right = (logits > 0) == (wanted > 0)
        return torch.stack([values.mean(-1), right.to(values).mean(-1)], -1)
    if kind == "classifier":
        return _tokens(logits[:, None], wanted.long(), torch.ones_like(wanted))
    ids = wanted.long()
    if kind == "encoder-decoder":
        return _tokens(logits, ids, torch.ones_like(wanted))
    counts = torch.zeros_like(wanted)
    for row, case in enumerate(cases):
        counts[row, list(case.scored)] = 1
    return _tokens(logits[:, :-1], ids[:, 1:], counts[:, 1:])


def _tokens(logits: Tensor, ids: Tensor, counts: Tensor) -> Tensor:
    """logits (n, L, V), ids (n, L) -> (n, 2): mean log-probability and share put first, where `counts`."""
    import torch

    result = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]  # (n, L)
    right = (logits.argmax(-1) == ids).to(result)
    return torch.stack([(part * counts).sum(-1) / counts.sum(-1) for part in (result, right)], -1)
