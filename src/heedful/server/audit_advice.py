"""What an audit under the root of runs recommends for a model: the newest audit of the same weights."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from heedful.comparisons.audit_advice import advice_of
from heedful.core.advice import Advice
from heedful.core.model import Model
from heedful.io.run_folder import MOST_BYTES
from heedful.server.live_explain import facts_of
from heedful.server.run_list import RunPlace, Runs
from heedful.server.run_memory import RunMemory

MAX_AUDITS = 20  # newest audits that are looked at
MAX_REMEMBERED = 5 * MAX_AUDITS  # of all servers of this process


def of(runs: Runs, model: Model) -> dict[str, Any]:
    """As settings of a comparison; {} where there is no audit of this model. Reading audits may take long, so
    no request waits for it (ServerState.look_for_advice)."""
    here = str(facts_of(model).get("fingerprint") or "")
    audits = [place for place in runs.all() if place.kind == "audit"][:MAX_AUDITS]
    for place in audits if here else ():
        advice = _memory.of(place)
        if advice is not None and advice.fingerprint == here:
            return {**advice.settings(), "run": place.name}
    return {}


def _advice(place: RunPlace) -> Advice | None:
    """None where it cannot be read: the list of runs says why when it is opened."""
    with suppress(Exception):
        return advice_of(place.path, most=MOST_BYTES)  # it may be a stranger's
    return None


_memory = RunMemory(lambda place: _advice(place), MAX_REMEMBERED)
