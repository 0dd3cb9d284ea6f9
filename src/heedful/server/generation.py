"""What a model writes after a prompt, and why it wrote each token.

write     greedily, a few tokens at a time, so that it can be cancelled and stops after WRITE_SECONDS
matrix    one forward over everything, one backward per written token: gradient x input of each token
          before it (heedful.models.generation_trace)
why       one token, by the methods that are cheap enough, as the first screen of an explanation shows it
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from heedful.comparisons.execute import explain
from heedful.comparisons.planning import plan
from heedful.core.errors import HeedfulError
from heedful.models.generation_trace import SharedGeneration, StepModel, check_tokens, continued, steps
from heedful.models.token_reader import GENERATORS
from heedful.reports import comparison as report
from heedful.reports.comparison_summary import explained
from heedful.reports.html import nodes_html
from heedful.server import live_explain
from heedful.server.job_queue import Job
from heedful.server.schemas import requests, responses

if TYPE_CHECKING:
    from heedful.modalities.text import TextInput
    from heedful.models.adapter import TokenModel

CHUNK = 8  # tokens written between two reports
WRITE_SECONDS = 30.0  # after which no more is written
WHY_SECONDS = 1.0  # that the methods may take for one token: somebody clicked and waits
MATRIX_METHOD = "grad-x-input"
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
    rows = []
    for k, (piece, target) in enumerate(steps(model, x, ids)):
        job.report("explaining each token", k, len(ids))
        item = explain(StepModel(shared, k), piece, MATRIX_METHOD, target, "token")[MATRIX_METHOD]
        written = [] if item.written is None else [float(score) for score in item.written.scores]
        rows.append([*(float(score) for score in item.scores), *written])
    notes = [f"Writing stopped after {WRITE_SECONDS:.0f} s."] if stopped else []
    job.show(_result(model, x, ids, shares, matrix(model, x, ids, rows), notes))


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


def matrix(
    model: TokenModel, x: TextInput, ids: Sequence[int], rows: Sequence[Sequence[float]]
) -> dict[str, Any]:
    """Rows: written tokens; columns: the prompt and what was written before the last; shares of each row's
    strongest score."""
    fit = max(1, MAX_CELLS // len(ids) - len(ids))
    first = max(0, len(x) - fit)  # the end of the prompt is nearest to what was written
    pieces = model.pieces([*x.ids, *ids[:-1]])
    spelled = [piece or model.spelled(token) for piece, token in zip(pieces, [*x.ids, *ids], strict=False)]
    shares = []
    for row in rows:
        top = max((abs(score) for score in row), default=0.0) or 1.0
        shares.append([round(score / top, 3) for score in row[first:]])
    return {
        "method": MATRIX_METHOD,
        "columns": spelled[first:],
        "prompt": len(x) - first,  # columns that are of the prompt
        "hidden": first,
        "rows": shares,
    }


def why(
    model: TokenModel, ask: requests.WhyRequest, memory: live_explain.ExplanationCache
) -> responses.TokenAnswer:
    """One written token: what its methods say, as the first screen of an explanation."""
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
    comparison = live_explain.with_removals(live_explain.run_some(made, cheap, {}), made)
    return responses.TokenAnswer(
        token=target.label,
        prediction=live_explain.predicted(comparison),
        explained=explained(comparison),
        html=nodes_html(report.first(comparison, ""), 4),
    )
