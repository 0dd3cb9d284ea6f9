"""How strongly a feature can be set before the text breaks.

A short continuation is written at growing strength. The text is broken where its perplexity, under the
unsteered model, is more than BROKEN times that of the unsteered continuation, or where it repeats itself and
the unsteered one does not. The limit is the strength before the first broken one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heedful.core.errors import HeedfulError
from heedful.features.steering.compare import judged
from heedful.features.steering.results import BROKEN, MAX_REPETITION
from heedful.features.steering.steer import steer
from heedful.server.internals import Dictionary
from heedful.server.job_queue import Job
from heedful.server.schemas import requests

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

STRENGTHS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)  # times the greatest activation
TOKENS = 40  # written at each, as many as the page then writes


def measure(model: TokenModel, ask: requests.LimitRequest, dictionary: Dictionary, job: Job) -> None:
    """Shows the limit, and in words why it is there."""
    dictionary.check(ask.feature)
    top = dictionary.max_activation(ask.feature)
    if top is None:
        raise HeedfulError(
            f"the greatest activation of feature {ask.feature:,} is not known",
            "it was never active where that was measured",
            "Open its page first, or choose another",
        )
    x = model.encode(ask.given())
    job.report("writing unsteered", 0, len(STRENGTHS) + 1)
    base = judged(model, x, model.answer(x, TOKENS))
    limit, last, reason = 0.0, STRENGTHS[-1], ""
    for count, strength in enumerate(STRENGTHS):
        job.report(f"writing at {strength:g} ×", count + 1, len(STRENGTHS) + 1)
        with steer(model, dictionary.sae, {ask.feature: strength * top}):
            ids = model.answer(x, TOKENS)
        text = judged(model, x, ids)
        ratio = text.perplexity / base.perplexity
        if ratio > BROKEN:
            last, reason = strength, f"the text is {ratio:.1f} times less likely per token"
            break
        if text.repetition > MAX_REPETITION >= base.repetition:
            last, reason = strength, "the text repeats itself"
            break
        limit = strength
    if reason and not limit:
        note = f"Setting this feature breaks the text: at {last:g} × {reason}."
    elif reason:
        note = f"The slider stops at {limit:g} ×: at {last:g} × the text breaks ({reason})."
    else:
        note = f"The text does not break up to {last:g} ×."
    job.show({"feature": ask.feature, "limit": limit, "broken": last if reason else None, "note": note})
