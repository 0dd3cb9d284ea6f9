"""What an audit under the root of runs recommends for a model: the newest audit of the same weights."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from heedful.comparisons.audit_advice import advice_of
from heedful.core.advice import Advice
from heedful.core.model import Model
from heedful.server.live_explain import facts_of
from heedful.server.run_list import Runs

MAX_AUDITS = 20  # newest audits that are looked at
_read: dict[tuple[Path, float], Advice | None] = {}  # an audit is read once, unless it changes


def of(runs: Runs, model: Model) -> dict[str, Any]:
    """As settings of a comparison; {} where there is no audit of this model."""
    here = str(facts_of(model).get("fingerprint") or "")
    audits = [place for place in runs.all() if place.kind == "audit"][:MAX_AUDITS]
    for place in audits if here else ():
        key = (place.path, place.when)
        if key not in _read:
            _read[key] = _advice(place.path)
        advice = _read[key]
        if advice is not None and advice.fingerprint == here:
            return {**advice.settings(), "run": place.name}
    return {}


def _advice(path: Path) -> Advice | None:
    """None where it cannot be read: the list of runs says why when it is opened."""
    with suppress(Exception):
        return advice_of(path)
    return None
