"""The model's whole answer to copies of a text whose attention is changed, and to texts with tokens deleted.

Copies of one text run together, so nothing is padding; `change` is told which of the copies it has before it.
A pass reads at most TOKENS tokens. Where gradients are on, answers have a graph to whatever `change` put in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.target import Target
from heedful.modalities.operators import InputRow, RowRequest, delete
from heedful.models.attention_hooks import AttentionState, Edit
from heedful.models.passes import CHUNK_TOKENS, Pass, passes, ragged
from heedful.trials.examples import Cases, Example

Change = Callable[
    [AttentionState, slice], AttentionState
]  # what a layer shows, which of the copies -> what it shall show
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
    """A model that cannot tell padding from text takes one row at a time."""
    return cases.model.rows_that_fit(len(case.x), TOKENS)


def ask(cases: Cases, case: Example, copies: int, change: Change) -> Tensor:
    """(copies, C): answers to copies of a text under a change of attention, pass by pass."""
    most = copies_a_pass(cases, case)
    queue = [list(range(copies)[start : start + most]) for start in range(0, copies, most)]

    def edit(part: Sequence[int]) -> Edit:
        here = slice(part[0], part[-1] + 1)
        return lambda state: change(state, here)

    ran = passes(cases.model, [row_of(case)] * copies, queue, target=probe(cases), edit=edit)
    return torch.cat([answers(cases, each) for each in ran])


def answers(cases: Cases, ran: Pass) -> Tensor:
    """(n, C) in float64, of one pass."""
    assert ran.logits is not None
    return cases.answers(ran.logits.double())


def without(cases: Cases, gone: Sequence[tuple[int, Iterable[int]]]) -> Floats:
    """(n,): how far the answer moves when these tokens of this text (index of the case, positions) are really
    deleted. Rows of all texts run together, longest first, and equal ones once."""
    places: dict[InputRow, list[int]] = {}
    for number, (text, positions) in enumerate(gone):
        x = cases.cases[text].x
        places.setdefault(delete(RowRequest(x, len(x), set(positions))), []).append(number)
    moved: Floats = np.full(len(gone), np.nan)

    rows = list(places)
    read = [cases.model.never_empty(row) for row in rows]
    with torch.no_grad():
        for ran in passes(cases.model, read, ragged(rows, cases.model.rows_at_once), target=probe(cases)):
            for at, answer in zip(ran.rows, answers(cases, ran), strict=True):
                for number in places[rows[at]]:
                    own = torch.from_numpy(cases.cases[gone[number][0]].answer).to(answer)
                    moved[number] = float(cases.apart(answer[None], own[None])[0])
    return moved
