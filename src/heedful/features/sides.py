"""Before | after: what a model writes as it is, and what it writes when it is steered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heedful.features.steer import steer
from heedful.features.sweep import perplexity, repetition
from heedful.features.swept import Side, Sides


def before_after(
    model: Any,
    by: Any,
    how: Any,
    prompt: Any,
    *,
    steering: Mapping[str, Any] | None = None,
    **writing: Any,
) -> Sides:
    """Write twice with the same settings. `steering`: positions, site, maxima; `writing`: as model.answer."""
    x = model.encode(prompt)
    plain = model.answer(x, **writing)
    with steer(model, by, how, **(steering or {})) as applied:
        steered = model.answer(x, **writing)
    before, after = (judged(model, x, ids) for ids in (plain, steered))
    said = {str(k): str(v) for k, v in how.items()} if isinstance(how, Mapping) else how
    positions = (steering or {}).get("positions", "all")
    positions = positions if isinstance(positions, str) else list(positions)
    settings = {"how": said, "positions": positions, **writing}
    facts = {"name": model.name, "kind": model.kind}
    return Sides(x.text, before, after, applied.size, plain == steered, facts, settings)


def judged(model: Any, x: Any, ids: list[int]) -> Side:
    """What was written after x, as the model finds it that is not steered now."""
    text = str(model.tokenizer.decode(ids, skip_special_tokens=True))
    return Side(text, perplexity(model, x, ids), repetition(ids))
