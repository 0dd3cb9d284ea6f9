"""The recommendation of an audit, for an explanation of the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heedful.core import registry
from heedful.core.advice import Advice
from heedful.core.defaults import DEFAULT_METHODS
from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.core.result_kinds import kind_of
from heedful.io.run_folder import read


def advice_of(audit: Any, most: int | None = None) -> Advice:
    """From a run folder, or from the result of `heedful.audit`.

    most   bytes that the folder may have; None: any number, of a folder that the user named
    """
    what = f"the audit is a {type(audit).__name__}"
    if isinstance(audit, str | Path):
        folder, audit = audit, read(audit, most=most)
        what = f"{folder} holds a run of kind {kind_of(audit).name}, not an audit"
    advice = getattr(audit, "advice", None)
    if not callable(advice):
        raise HeedfulError(what, fix="Give the folder that heedful audit FILE --out FOLDER wrote")
    made: Advice = advice()
    return made


def with_advice(model: Model, methods: Any, advice: Advice | None) -> Any:
    """The methods to run: the recommended one joins the usual ones. Refuses the audit of another model."""
    if advice is None:
        return methods
    check_same_model(advice, model)
    if methods is not None or not advice.use or advice.use in DEFAULT_METHODS:
        return methods
    able = [support.method for support in registry.support(model) if support.ok]
    return [name for name in (advice.use, *DEFAULT_METHODS) if name in able]


def check_same_model(advice: Advice, model: Model) -> None:
    """Refuse the audit of another model."""
    here = str(model.facts().get("fingerprint") or "")
    if advice.fingerprint and here and advice.fingerprint != here:
        raise HeedfulError(
            f"the audit {advice.run} is of another model",
            f"it was made with {advice.model or 'other weights'}",
            "Run heedful audit with this model",
        )
