"""`heedful doctor`: what a model can do, and why the rest does not work."""

from __future__ import annotations

from heedful.cli import options as o
from heedful.cli.console import (
    progress_bar,
    put_document,
    put_json,
    silence_libraries,
)


def doctor(model: o.ModelName, as_json: o.AsJson = False, allow_pickle: o.Pickle = False) -> None:
    """Show which methods work on a model, and why others do not.

    \b
    heedful doctor zoo:sentiment
    heedful doctor zoo:lm --json
    """
    silence_libraries()
    import heedful
    from heedful.core import registry

    with progress_bar(f"loading {model}"):
        loaded = heedful.load(model, allow_pickle=allow_pickle)
        support = registry.support(loaded)
    facts = {**loaded.facts(), "capabilities": sorted(loaded.capabilities)}
    methods = [{"method": s.method, "ok": s.ok, "why": s.why} for s in support]
    if as_json:
        put_json({**facts, "methods": methods})
        return
    from heedful.reports.doctor import document

    put_document(document(facts, methods))
