"""`heedful doctor`: what a model can do, and why the rest does not work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heedful.cli import options as o
from heedful.cli.console import (
    progress_bar,
    put_document,
    put_json,
    silence_libraries,
)

if TYPE_CHECKING:
    from heedful.core.model import Model


def doctor(model: o.ModelName, as_json: o.AsJson = False, allow_pickle: o.Pickle = False) -> None:
    """Show which methods work on a model, and why others do not.

    \b
    heedful doctor zoo:sentiment
    heedful doctor zoo:lm --json
    heedful doctor zoo:digits-vit
    """
    silence_libraries()
    import heedful
    from heedful.core import registry

    with progress_bar(f"loading {model}"):
        loaded = heedful.load(model, allow_pickle=allow_pickle)
        support = registry.support(loaded)
    facts = {**loaded.facts(), "capabilities": sorted(loaded.capabilities), **_of_pictures(loaded)}
    methods = [{"method": s.method, "ok": s.ok, "why": s.why} for s in support]
    if as_json:
        put_json({**facts, "methods": methods})
        return
    from heedful.reports.doctor import document

    put_document(document(facts, methods))


def _of_pictures(model: Model) -> dict[str, Any]:
    """What it reads and how parts are removed; of a model of texts this is known."""
    if model.modality == "text":
        return {}
    from heedful.core.phrases import plural
    from heedful.modalities.kinds import noun_of

    size = model.facts().get("size")
    what = "texts with pictures" if model.modality == "image+text" else plural(noun_of(model.modality))
    seen = f" of {size[1]} × {size[0]} pixels" if size else " of any size"
    units = [name for name in ("patch", "grid:N", "superpixel", "pixel", "region") if _has(model, name)]
    return {
        "reads": f"{what}{seen}",
        "units": units,
        "operators": list(dict.fromkeys([*model.operators, *model.named_operators])),
    }


def _has(model: Model, unit: str) -> bool:
    return unit != "patch" or "attentions" in model.capabilities
