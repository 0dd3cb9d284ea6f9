"""Before | after: what a model writes as it is, and what it writes when it is steered.

A steer by features stands beside a difference of means of the same size
(heedful.features.steering.diff_of_means).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from heedful.features.sae.autoencoder import SAE
from heedful.features.steering.diff_of_means import Texts, beside
from heedful.features.steering.directions import Direction
from heedful.features.steering.results import Continuation, Sides
from heedful.features.steering.steer import steer
from heedful.features.steering.sweep import perplexity, repetition

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel


def before_after(
    model: TokenModel,
    by: Any,
    how: Any,
    prompt: Any,
    *,
    steering: Mapping[str, Any] | None = None,
    baseline: Direction | None = None,
    texts: Texts | None = None,
    **writing: Any,
) -> Sides:
    """Write with the same settings, as the model is and steered.

    steering   positions, site, maxima: as `steer` takes them
    baseline   a difference of means that is pushed beside; None: of the features' own firings on `texts`
    writing    as model.answer takes it
    """
    x, place = model.encode(prompt), dict(steering or {})
    notes: tuple[str, ...] = ()
    plain = model.answer(x, **writing)
    with steer(model, by, how, **place) as applied:
        steered = model.answer(x, **writing)
    if isinstance(by, SAE) and baseline is None and applied.size:
        baseline, result = beside(model, by, how, texts, place.get("site"))
        notes = (result,)
    written = {"before": plain, "after": steered}
    if baseline is not None and applied.size:
        place.pop("maxima", None)
        with steer(model, baseline.scaled(applied.size), 1.0, **place):
            written["difference of means"] = model.answer(x, **writing)
    sides = {name: judged(model, x, ids) for name, ids in written.items()}
    positions = place.get("positions", "all")
    settings = {
        "how": {str(k): str(v) for k, v in how.items()} if isinstance(how, Mapping) else how,
        "positions": positions if isinstance(positions, str) else list(positions),
        **writing,
    }
    facts = {"name": model.name, "kind": model.kind}
    before, after = sides.pop("before"), sides.pop("after")
    return Sides(
        prompt=x.text,
        before=before,
        after=after,
        size=applied.size,
        same=plain == steered,
        model=facts,
        settings=settings,
        notes=notes,
        beside=sides,
    )


def judged(model: TokenModel, x: Any, ids: list[int]) -> Continuation:
    """What was written after x, as the model finds it that is not steered now."""
    text = model.decode(ids, skip_special=True)
    return Continuation(text, perplexity(model, x, ids), repetition(ids))
