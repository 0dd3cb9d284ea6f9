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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.input import Encoded
from heedful.core.progress import Progress
from heedful.heads.ablation.ablate import Anatomy, Head, Means, check_how, masks, replacing
from heedful.io.labels import is_missing, label_index, label_indices
from heedful.models.passes import CHUNK_TOKENS, run_with_oom_retry

if TYPE_CHECKING:
    from torch import Tensor

    from heedful.models.backend import Inputs
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

    x: Encoded
    wanted: tuple[float, ...]  # class; 0 or 1 a label; values; tokens to be written (their ids)
    scored: tuple[int, ...] = ()  # causal-lm: positions of the tokens that count


@dataclass(frozen=True, eq=False)
class Task:
    """The texts of a measurement, and what is measured on them."""

    model: Any
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
    model: Any, texts: Iterable[Any], labels: Iterable[Any] | None = None, long: str = "truncate"
) -> Task:
    """Every text with what is wanted of it; what cannot be used is left out and told.

    `labels` are names or indices, of a regression values, of an encoder-decoder answers.
    """
    if model.kind not in NAMES:
        raise HeedfulError(
            f"nothing is measured of {model.name}", f"a {model.kind} makes no prediction", "Use a classifier"
        )
    texts = list(texts)
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
            x = model.encode(text, long=long)
            cases.append(_case(model, x, label))
            left += [f"text {number}: {note}" for note in x.notes]  # it was cut
        except HeedfulError as error:
            left.append(f"text {number} was left out: {error}")
    if not cases:
        raise HeedfulError("no text could be used", left[0] if left else "", "Give at least one")
    return Task(model, tuple(cases), labels is None, tuple(left))


def _case(model: Any, x: Encoded, label: Any) -> LabelledText:
    if model.kind == "causal-lm":
        scored = tuple(t for t in range(1, len(x)) if not x.special[t])
        if not scored:
            raise HeedfulError("it has no second token to foretell")
        return LabelledText(x, tuple(map(float, x.ids)), scored)
    if model.kind == "encoder-decoder":
        return LabelledText(x, tuple(map(float, written(model, x, label).sequence)))
    if label is None:
        logits = model.logits(x).double()
        own = {"classifier": logits.argmax()[None], "multi-label": logits > 0}.get(model.kind, logits)
        return LabelledText(x, tuple(map(float, own)))
    return LabelledText(x, _labelled(model, label))


def _labelled(model: Any, label: Any) -> tuple[float, ...]:
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
    """(texts, sets, 2): both metrics of every text without each set of heads."""
    check_how(how, means)
    found = np.full((len(task.cases), len(sets), 2), np.nan)
    queue, done = _chunks(task, len(sets)), 0

    def run(chunk: list[tuple[int, int]]) -> Any:
        cases = [task.cases[case] for case, _ in chunk]
        gone = masks([sets[at] for _, at in chunk], shape)
        return _scores(task, cases, replacing(gone, how, means))

    for chunk, values in run_with_oom_retry(queue, run):
        rows, columns = zip(*chunk, strict=True)
        found[list(rows), list(columns)] = values
        done += len(chunk)
        if progress is not None:
            progress(done, found.shape[0] * found.shape[1])
    return found


def _chunks(task: Task, sets: int) -> list[list[tuple[int, int]]]:
    """(text, set) pairs of one length, as many as fit a pass; a text's sets stay together."""
    lengths: dict[tuple[int, int], list[int]] = {}
    for index, case in enumerate(task.cases):
        answer = len(case.wanted) if task.model.kind == "encoder-decoder" else 0
        lengths.setdefault((len(case.x), answer), []).append(index)
    writes = task.model.kind in ("causal-lm", "encoder-decoder")
    out = []
    for (length, answer), cases in sorted(lengths.items(), reverse=True):
        fits = max(1, (PASS_TOKENS if writes else CHUNK_TOKENS) // (length + answer))
        most = 1 if task.model.backend.one_row_at_a_time else fits
        pairs = [(case, at) for case in cases for at in range(sets)]
        out += [pairs[i : i + most] for i in range(0, len(pairs), most)]
    return out


def _scores(task: Task, cases: Sequence[LabelledText], edit: Callable[[Any], Any]) -> Floats:
    """(n, 2) of rows of equal length."""
    import torch

    from heedful.models.adapter import wide

    model, inputs = task.model, inputs_of(task.model, cases)
    tokens = inputs.ids.numel() + (0 if inputs.answer is None else inputs.answer.numel())
    counted = model.meter.counted(forwards=len(cases), unique=len(cases), tokens=tokens)
    with counted, model.attending(edit), torch.inference_mode():
        logits = wide(model.backend.forward(inputs))
        model.refuse_nan(logits, inputs)
        both = score(model.kind, logits, cases)
    return both.double().cpu().numpy()


def inputs_of(model: Any, cases: Sequence[LabelledText]) -> Inputs:
    """Texts of equal length as one batch."""
    import torch

    from heedful.models.backend import Inputs

    ids = torch.tensor([case.x.ids for case in cases])  # (n, T)
    types = cases[0].x.type_ids
    answer = None
    if model.kind == "encoder-decoder":
        start = model.backend.special_id("decoder_start") or 0
        answer = torch.tensor([[start, *map(int, case.wanted[:-1])] for case in cases])  # (n, A)
    kinds = None if types is None else torch.tensor([case.x.type_ids for case in cases])
    return Inputs(ids, torch.ones_like(ids), kinds, answer)


def score(kind: str, logits: Tensor, cases: Sequence[LabelledText]) -> Tensor:
    """(n, 2) from (n, C), (n, T, V) or (n, A, V); the first is differentiable."""
    import torch

    wanted = torch.tensor([case.wanted for case in cases], device=logits.device, dtype=logits.dtype)
    if kind == "regression":
        gap = wanted - logits
        return -torch.stack([gap.abs().mean(-1), gap.square().mean(-1)], -1)
    if kind == "multi-label":
        told = torch.nn.functional.logsigmoid(torch.where(wanted > 0, logits, -logits))
        right = (logits > 0) == (wanted > 0)
        return torch.stack([told.mean(-1), right.to(told).mean(-1)], -1)
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

    told = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]  # (n, L)
    right = (logits.argmax(-1) == ids).to(told)
    return torch.stack([(part * counts).sum(-1) / counts.sum(-1) for part in (told, right)], -1)
