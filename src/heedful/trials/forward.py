"""The model's whole answer to copies of a text whose attention is changed, and to texts with tokens deleted.

Copies of one text run together, so nothing is padding; `change` is told which of the copies it has before it.
A pass reads at most TOKENS tokens. Where gradients are on, answers have a graph to whatever `change` put in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.target import Target
from heedful.modalities.operators import InputRow, removed
from heedful.models.adapter import wide
from heedful.models.attention_hooks import Seen
from heedful.models.passes import CHUNK_TOKENS, chunks, run_with_oom_retry
from heedful.trials.examples import Cases, Example

Change = Callable[[Seen, slice], Seen]  # what a layer shows, which of the copies -> what it shall show
TOKENS = CHUNK_TOKENS


def predicted(cases: Cases, case: Example) -> Target:
    """What the model says of the text: the number attention is asked to explain."""
    kinds = {"classifier": "class", "multi-label": "label", "regression": "regression", "causal-lm": "token"}
    return Target(kinds[cases.model.kind], index=int(case.answer.argmax()))


def probe(cases: Cases) -> Target:
    """Asks for the whole answer: the logits of all labels, or of all next tokens."""
    return Target("token" if cases.model.kind == "causal-lm" else "class")


def row_of(case: Example) -> InputRow:
    return InputRow(case.x.ids, case.x.type_ids)


def copies_a_pass(cases: Cases, case: Example) -> int:
    """A model that cannot tell padding from text takes one row pert a time."""
    return 1 if cases.model.backend.one_row_at_a_time else max(1, TOKENS // len(case.x))


def ask(cases: Cases, case: Example, copies: int, change: Change) -> Tensor:
    """(copies, C): answers to copies of a text under a change of attention, pass by pass."""
    most = copies_a_pass(cases, case)
    queue = [range(copies)[start : start + most] for start in range(0, copies, most)]

    def run(part: range) -> Tensor:
        here = slice(part.start, part.stop)
        with cases.model.attending(lambda state: change(state, here)):
            return answers(cases, [row_of(case)] * len(part))

    return torch.cat([part for _, part in run_with_oom_retry(queue, run)])


def answers(cases: Cases, rows: list[InputRow]) -> Tensor:
    """(n, C) in float64, of one pass."""
    model = cases.model
    rows = [model._never_empty(row) for row in rows]
    graph = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    counts = {"forwards": len(rows), "backwards": len(rows) * graph, "unique": len(rows)}
    with (
        model.meter.counted(**counts, tokens=sum(map(len, rows))),
        nullcontext() if graph else torch.no_grad(),
    ):
        inputs, places = model._batch(rows, probe(cases))
        logits = wide(model.backend.forward(inputs))
        model.refuse_nan(logits, inputs)
        return cases.answers(model._pick(logits, places, inputs, probe(cases)).double())


def without(cases: Cases, gone: Sequence[tuple[int, Iterable[int]]]) -> Floats:
    """(n,): how far the answer moves when these tokens of this text (index of the case, positions) are really
    deleted. Rows of all texts run together, longest first, and equal ones once."""
    places: dict[InputRow, list[int]] = {}
    for number, (text, positions) in enumerate(gone):
        x = cases.cases[text].x
        places.setdefault(removed(x, len(x), set(positions), "delete", None), []).append(number)
    moved: Floats = np.full(len(gone), np.nan)

    def run(chunk: list[InputRow]) -> Any:
        with torch.no_grad():
            return answers(cases, chunk)

    most = 1 if cases.model.backend.one_row_at_a_time else None
    for chunk, part in run_with_oom_retry(chunks(list(places), TOKENS, most), run):
        for row, answer in zip(chunk, part, strict=True):
            for number in places[row]:
                own = torch.from_numpy(cases.cases[gone[number][0]].answer).to(answer)
                moved[number] = float(cases.apart(answer[None], own[None])[0])
    return moved
