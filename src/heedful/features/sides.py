"""Before | after: what a model writes as it is, and what it writes when it is steered."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heedful.features.steer import steer
from heedful.features.sweep import perplexity, repetition


@dataclass(frozen=True)
class Side:
    """One continuation; perplexity is the unsteered model's."""

    text: str
    perplexity: float
    repetition: float


@dataclass(frozen=True)
class Sides:
    """Two continuations of one prompt, drawn with the same seed."""

    prompt: str
    before: Side
    after: Side
    size: float  # mean length of what was added to a position
    same: bool  # token by token
    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        sides = {name: _clean(asdict(getattr(self, name))) for name in ("before", "after")}
        told = {"size": self.size, "same": self.same, "notes": list(self.notes)}
        return {
            "model": dict(self.model),
            "prompt": self.prompt,
            "settings": dict(self.settings),
            **sides,
            **told,
        }

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page."""
        from heedful.view.steer_page import sides_page

        target = Path(path)
        target.write_text(sides_page(self), encoding="utf-8")
        return target


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
    before, after = (_side(model, x, ids) for ids in (plain, steered))
    said = {str(k): str(v) for k, v in how.items()} if isinstance(how, Mapping) else how
    positions = (steering or {}).get("positions", "all")
    settings = {"how": said, "positions": positions, **writing}
    facts = {"name": model.name, "kind": model.kind}
    return Sides(x.text, before, after, applied.size, plain == steered, facts, settings)


def _side(model: Any, x: Any, ids: list[int]) -> Side:
    text = str(model.tokenizer.decode(ids, skip_special_tokens=True))
    return Side(text, perplexity(model, x, ids), repetition(ids))


def _clean(numbers: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in numbers.items()}
