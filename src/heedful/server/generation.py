"""What a model writes after a prompt, and why it wrote each token.

write     greedily, a few tokens at a time, so that it can be cancelled and stops after WRITE_SECONDS
matrix    how each written token depends on each token before it: occlusion, which really removes them (one
          model input per cell), where that is cheap by a rule of operations; gradient x input (one backward
          per row, heedful.models.generation_trace); and random scores, the control
why       one token, by the methods that are cheap enough, as the first screen of an explanation shows it
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from heedful.comparisons.execute import explain
from heedful.comparisons.planning import plan
from heedful.comparisons.result import Comparison
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.core.defaults import CONTROL
from heedful.core.document import Paragraph
from heedful.core.errors import HeedfulError
from heedful.models.generation_trace import SharedGeneration, StepModel, check_tokens, continued, steps
from heedful.models.token_reader import GENERATORS
from heedful.reports import comparison as report
from heedful.reports.comparison_summary import explained
from heedful.reports.html import nodes_html
from heedful.server import automatic_test, live_explain
from heedful.server.explanation_cache import ExplanationCache
from heedful.server.job_queue import Job
from heedful.server.schemas import requests, responses

if TYPE_CHECKING:
    from heedful.modalities.text import TextInput
    from heedful.models.adapter import TokenModel

CHUNK = 8  # tokens written between two reports
WRITE_SECONDS = 30.0  # after which no more is written
WHY_SECONDS = 1.0  # that the methods may take for one token: somebody clicked and waits
MATRIX_METHODS = ("occlusion", "grad-x-input")  # the first that is cheap is shown first
MAX_CELLS = 10_000  # cells of a matrix; of a longer prompt the last tokens are shown


def write(model: TokenModel, ask: requests.ContinueRequest, job: Job) -> None:
    """What it writes, shown as it is written, with probabilities; then the matrix."""
    check(model)
    x = model.encode(ask.given())
    model.require_room(x, ask.tokens)
    ids: list[int] = []
    stopped, end = False, time.monotonic() + WRITE_SECONDS
    job.report("writing", 0, ask.tokens)
    for more in _written(model, x, ask.tokens):
        ids += more
        job.report("writing", len(ids), ask.tokens)
        job.show(_result(model, x, ids))
        if stopped := time.monotonic() > end and len(ids) < ask.tokens:
            break
    if not ids:
        raise HeedfulError(
            f"{model.name} wrote nothing after this text", "it ended at once", "Try another prompt"
        )
    shared = SharedGeneration(model, x, tuple(ids))
    shares = [float(shared.forward.logits[k].detach().softmax(-1)[token]) for k, token in enumerate(ids)]
    job.show(_result(model, x, ids, shares))
    methods, notes = matrix_methods(model, x, ids)
    scored: list[Comparison] = []
    for k, (piece, target) in enumerate(steps(model, x, ids)):
        job.report("explaining each token", k, len(ids))
        # a seed per row: else the rows of the control would be alike
        scored.append(explain(StepModel(shared, k), piece, methods, target, "token", k, evidence=False))
    notes += [f"Writing stopped after {WRITE_SECONDS:.0f} s."] if stopped else []
    job.show(_result(model, x, ids, shares, matrix(model, x, ids, scored), notes))


def check(model: TokenModel) -> None:
    if model.kind not in GENERATORS:
        raise HeedfulError(f"{model.name} cannot write text", f"it is a {model.kind}", "Choose zoo:lm")


def _written(model: TokenModel, x: TextInput, tokens: int) -> Iterator[list[int]]:
    """A few tokens at a time; an encoder-decoder, which cannot be given a beginning, all at once."""
    if model.kind == "encoder-decoder":
        yield model.answer(x, tokens)
        return
    ids: list[int] = []
    while len(ids) < tokens:
        wanted = min(CHUNK, tokens - len(ids))
        new = model.answer(continued(model, x, ids) if ids else x, wanted)
        yield new
        ids += new
        if len(new) < wanted or not model.decode(new[-1:], skip_special=True):  # an end token
            return


def _result(
    model: TokenModel,
    x: TextInput,
    ids: Sequence[int],
    shares: Sequence[float] = (),
    drawn: dict[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    pieces = model.pieces(list(ids))
    tokens = [
        {"id": token, "text": piece or model.spelled(token), "share": shares[k] if shares else None}
        for k, (token, piece) in enumerate(zip(ids, pieces, strict=True))
    ]
    return {"prompt": x.text, "tokens": tokens, "matrix": drawn, "notes": list(notes)}


def matrix_methods(model: TokenModel, x: TextInput, ids: Sequence[int]) -> tuple[list[str], list[str]]:
    """(methods of the matrix, notes): without occlusion where removing each token is expensive."""
    methods = [name for name in MATRIX_METHODS if registry.get(name).needs <= model.capabilities]
    inputs = sum(len(x) + k + 1 for k in range(len(ids)))
    cost = automatic_test.operations(inputs, len(x) + len(ids), model.size)
    if live_explain.OWN not in methods or cost <= automatic_test.MAX_OPERATIONS:
        return methods or [CONTROL], []
    note = f"Removing each token would take {inputs:,} model inputs, so occlusion is not in the matrix."
    return [name for name in methods if name != live_explain.OWN] or [CONTROL], [note]


def matrix(
    model: TokenModel, x: TextInput, ids: Sequence[int], scored: Sequence[Comparison]
) -> dict[str, Any]:
    """Rows: written tokens; columns: the prompt and what was written before the last; by method, shares of
    each row's strongest score."""
    fit = max(1, MAX_CELLS // len(ids) - len(ids))
    first = max(0, len(x) - fit)  # the end of the prompt is nearest to what was written
    pieces = model.pieces([*x.ids, *ids[:-1]])
    spelled = [piece or model.spelled(token) for piece, token in zip(pieces, [*x.ids, *ids], strict=False)]
    return {
        "columns": spelled[first:],
        "prompt": len(x) - first,  # columns that are of the prompt
        "hidden": first,
        "methods": [
            {
                "method": name,
                "operator": scored[0][name].params.get("operator", ""),
                "rows": [_row(step[name])[first:] for step in scored],
            }
            for name in scored[0]
        ],
    }


def _row(item: Attribution) -> list[float]:
    """The scores of the text and of what was written, as shares of the strongest."""
    row = [*item.scores.tolist(), *([] if item.written is None else item.written.scores.tolist())]
    top = max((abs(score) for score in row), default=0.0) or 1.0
    return [round(score / top, 3) for score in row]


def why(model: TokenModel, ask: requests.WhyRequest, memory: ExplanationCache) -> responses.TokenAnswer:
    """One written token: what its methods say, as the first screen of an explanation without its advice."""
    check(model)
    check_tokens(model, ask.tokens)
    if ask.at >= len(ask.tokens):
        raise HeedfulError(f"there is no token at place {ask.at}", f"{len(ask.tokens)} were written")
    x = model.encode(ask.given())
    model.require_room(x, len(ask.tokens))
    piece, target = steps(model, x, ask.tokens)[ask.at]
    piece = replace(piece, text=piece.text[: max(end for _, end in piece.offsets)])  # what was read till then
    names, _ = live_explain.chosen(model, None)
    made = plan(model, piece, names, target, ask.unit, evidence=False, timed=False)
    made = live_explain.paced(made, memory, ask.model)
    seconds = live_explain.expected_seconds(made, memory, ask.model)
    cheap = live_explain.cheap(made, {}, seconds, WHY_SECONDS)
    key = (ask.model, x.key, tuple(ask.tokens[: ask.at + 1]), ask.unit)
    comparison = live_explain.with_removal(live_explain.run_some(made, cheap, {}), made, memory, key)
    return responses.TokenAnswer(
        token=target.label,
        prediction=live_explain.predicted(comparison),
        explained=explained(comparison),
        html=nodes_html([node for node in report.first(comparison) if not isinstance(node, Paragraph)], 4),
    )
