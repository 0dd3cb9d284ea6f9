"""Attention rollout: the share of each token in the position where the answer is read, if every layer only
mixed tokens by its attention weights.

    Ahat^l = row-normalise(mean_h A_h^l + I)         the residual stream counts as much as the heads together
    S = Ahat^N ... Ahat^1                            rows are queries, so the last layer is leftmost
    score = readout . S                              [CLS], the last token, or positions by their share

Encoder-decoders: one system of answer and text tokens. Encoder layers mix the text. In each decoder layer,
self-attention mixes the answer as above; then cross-attention C keeps half of every answer token and adds
half of the encoder's output: (x + sum_t C_t e_t) / 2. Rows over answer and text together still sum to one.
The scores are the parts of the text and of the tokens that were written before; a note says how much goes to
the rest of the answer, which is the start token. A layer with fewer queries than tokens (a pooling query) has
no residual stream; its weights are used as they are.

Cost: one forward and backward, shared with all methods that use the trace. Needs: attentions.

Abnar & Zuidema, Quantifying Attention Flow in Transformers, ACL 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import pad

from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.registry import explainer
from heedful.core.trace import Trace
from heedful.engine.question import POSITION, Question
from heedful.stats.rollout_math import with_residual


def head_mean(maps: Tensor) -> Tensor:
    """(H, Q, T) -> (Q, T) float64. Heads are summed in the maps' own float32, which costs a third."""
    return maps.to(torch.promote_types(maps.dtype, torch.float32)).mean(0).double()


def mixed(maps: Tensor) -> Tensor:
    """(H, Q, T) -> (Q, T): heads averaged, residual added where there is one, rows normalised."""
    return torch.from_numpy(with_residual(head_mean(maps).cpu().numpy()))


def steps(trace: Trace) -> list[Tensor]:
    """The layers as row-stochastic matrices, bottom up; the last one is the read-out, (1, Q)."""
    readout = torch.tensor([trace.readout], dtype=torch.float64)  # (1, Q)
    if trace.cross:
        return [*_joint_steps(trace), pad(readout, (0, trace.cross[0].shape[-1]))]
    layers = [*(mixed(layer) for layer in trace.attentions), readout]
    for below, above in pairwise(layers):
        if above.shape[1] != below.shape[0]:
            raise HeedfulError(
                "the attention layers do not follow on one another",
                f"one gives {below.shape[0]} positions and the next reads {above.shape[1]}",
            )
    return layers


def _joint_steps(trace: Trace) -> list[Tensor]:
    """Encoder-decoders: matrices over (answer, text), (A + T, A + T), the encoder's first."""
    answer, source = trace.cross[0].shape[-2:]
    still, fixed = torch.eye(answer, dtype=torch.float64), torch.eye(source, dtype=torch.float64)
    tensors = [_side_by_side(still, mixed(layer)) for layer in trace.attentions]
    for own, cross in zip(trace.decoder_attentions, trace.cross, strict=True):
        tensors.append(_side_by_side(mixed(own), fixed))
        look = _side_by_side(still, fixed)
        look[:answer, answer:] = head_mean(cross).cpu()
        tensors.append(look / look.sum(-1, keepdim=True))
    return tensors


def _side_by_side(first: Tensor, second: Tensor) -> Tensor:
    """Two matrices down the diagonal of one, zero elsewhere."""
    return torch.cat([pad(first, (0, second.shape[1])), pad(second, (first.shape[1], 0))])


def text_columns(trace: Trace) -> slice:
    """Where the tokens of the text stand among a step's columns: after the answer of an encoder-decoder,
    before the continuation of a decoder."""
    start = trace.cross[0].shape[-2] if trace.cross else 0
    return slice(start, start + trace.x.positions.atoms)


def written_columns(trace: Trace) -> slice:
    """Where what was written stands among them: behind the start token of an encoder-decoder's answer, behind
    the text of a decoder."""
    start = 1 if trace.cross else trace.x.positions.atoms
    return slice(start, start + (0 if trace.written is None else len(trace.written)))


def roll(trace: Trace) -> Tensor:
    """(N,) share of the answer in each text token; fewer than T tokens when the target stands earlier."""
    return rolled(trace)[text_columns(trace)]


def rolled(trace: Trace) -> Tensor:
    """(M,) share of the answer in every token that was read, what was written included."""
    return reduce(lambda above, below: above @ below, reversed(steps(trace)))[0]


def by_part(trace: Trace, one: Callable[[Trace], Tensor]) -> Tensor:
    """(N,) over the positions of all encoders, one after the other; most models have one encoder."""
    return torch.cat([over_positions(part, one(part)) for part in trace.parts or (trace,)])


def over_positions(trace: Trace, scores: Tensor) -> Tensor:
    """(N,): positions that were not read score zero, padding behind the input is cut off."""
    count = trace.x.positions.atoms
    return pad(scores[:count].double().cpu(), (0, max(0, count - len(scores))))


def answer_of_parts(q: Question, trace: Trace, one: Callable[[Trace], Tensor]) -> Attribution:
    """Scores of each encoder by itself: what is read by one cannot be compared with what is read by another,
    unless `one` has the unit of the target."""
    notes = (*trace.notes, "each encoder has its own scale: scores of two parts cannot be compared")
    scores = by_part(trace, one).numpy()
    return q.answer(scores, over=POSITION, output=trace.output, notes=notes)


def answer_of_trace(
    q: Question, trace: Trace, scores: Tensor, written: Tensor | None = None, notes: tuple[str, ...] = ()
) -> Attribution:
    """Scores read off the trace; tokens after the target's position had no part in it and score zero."""
    every = pad(scores.double().cpu(), (0, q.x.positions.atoms - len(scores)))
    if written is not None:
        every = torch.cat([every, written.double().cpu()])
    return q.answer(every.numpy(), over=POSITION, output=trace.output, notes=(*trace.notes, *notes))


@explainer(
    "attention-rollout",
    needs={"attentions"},
    cite="Abnar & Zuidema 2020",
    signed=False,
    properties=("symmetric",),
)
def attention_rollout(q: Question) -> Attribution:
    """The attention matrices of all layers, multiplied with each other; the residual stream is included.

    Limitations: It treats a layer as attention plus identity. It ignores values, norms and the
    feed-forward part, where much of the computation happens. It is the same for every class.
    """
    trace = q.trace()
    if trace.parts:
        return answer_of_parts(q, trace, roll)
    total = rolled(trace)
    scores, written = total[text_columns(trace)], total[written_columns(trace)]
    kept = sum(trace.readout) - float(scores.sum()) - float(written.sum())
    where = "what was already written" if trace.written is None else "the start token"
    notes = (f"{kept:.0%} of the rollout stays on {where}",) if kept > 1e-6 else ()
    return answer_of_trace(q, trace, scores, written, notes)
