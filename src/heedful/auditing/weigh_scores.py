"""`heedful.weigh`: scores made elsewhere get the same evidence and the same verdict as ours.

What is taken as scores of a text: see heedful.auditing.given. They are laid on our units through the
characters; what has no certain place is refused.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heedful.auditing.folder import RunFolder
from heedful.auditing.given import read_given
from heedful.auditing.outside import Outside
from heedful.auditing.result import Audit
from heedful.auditing.settings import SHARD, settle
from heedful.auditing.source import open_source
from heedful.auditing.start import Progress, Where, Work, run_audit
from heedful.errors import HeedfulError
from heedful.models.base import Model

Scores = Any  # one entry per text, or a function text -> scores
UNKNOWN = "unknown"


def weigh(
    model: Any,
    texts: Sequence[str],
    scores: Mapping[str, Scores],
    target: Any = None,
    unit: str = "word",
    fitted_by: str | Sequence[str] | Mapping[str, Any] | None = None,
    *,
    methods: Iterable[str] | str = (),
    labels: Iterable[Any] | None = None,
    operators: Sequence[str] | str | None = None,
    metrics: Iterable[str] | str | None = None,
    draws: int = 20,
    seed: int = 0,
    long: str = "error",
    until_decided: bool = False,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Weigh anybody's explanation scores on a model: the same evidence, the same verdict.

    Parameters
    ----------
    model
        Whatever `heedful.load` takes.
    texts
        The texts that the scores explain.
    scores
        By name of the method: one entry per text (or a batched `shap.Explanation`), or a function of a text.
        An entry is a list or array of one number per token or word, a list of `(word, score)` or
        `(start, end, score)`, one text of a `shap.Explanation`, a captum tensor, or what inseq saved.
    target
        What was explained; None: the prediction.
    unit
        What is removed as one piece to judge them: "word", "token" or "sentence".
    fitted_by
        The removal operator they were made with ("mask", "delete", ...), "nothing" for gradients and
        attention, or a mapping from method to that. None: not known; then they are judged under every
        operator, their own perhaps among them, and the verdict says so.
    methods
        Methods of ours that are weighed beside them.
    out
        A run folder to keep; None: nothing is written.

    Returns
    -------
    Audit
        `print(result.verdict)` says which to use.

    Examples
    --------
    >>> import heedful
    >>> words = lambda text: [len(word) for word in text.split()]
    >>> texts = ["the food was good", "a bad bar and bad food"]
    >>> result = heedful.weigh("zoo:sentiment", texts, {"length": words}, fitted_by="nothing")
    >>> result.verdict.headline
    '2 texts are too few for a verdict: at least 10 are needed.'
    """
    from heedful.models import load

    loaded = load(model)
    names = _checked(scores, texts)
    by = {name: fitted_by.get(name) if isinstance(fitted_by, Mapping) else fitted_by for name in names}
    source = open_source(list(texts), labels)
    settings = settle(
        loaded, methods or [], metrics, _judges(loaded, operators, by),
        unit=unit, seed=seed, draws=draws, long=long, shard=1 if until_decided else SHARD,
        target=target, given=names, until_decided=until_decided,
    )  # fmt: skip
    outside = Outside(names, _looked_up(scores, by))
    work = Work(loaded, source, settings, outside)
    if out is not None:
        return run_audit(work, RunFolder(Path(out)), Where(), progress)
    with tempfile.TemporaryDirectory() as folder:
        return replace(run_audit(work, RunFolder(Path(folder)), Where(), progress), folder=None)


def _checked(scores: Any, texts: Any) -> tuple[str, ...]:
    if not isinstance(scores, Mapping) or not scores or not all(isinstance(name, str) for name in scores):
        raise HeedfulError("scores are not scores by method", fix='Give a mapping, e.g. {"my-shap": values}')
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise HeedfulError("texts must be a list of texts", f"not a {type(texts).__name__}")
    for name, given in scores.items():
        if not callable(given) and (not hasattr(given, "__len__") or len(given) != len(texts)):
            count = len(given) if hasattr(given, "__len__") else type(given).__name__
            raise HeedfulError(
                f"{name!r} has {count} entries for {len(texts)} texts",
                fix="Give one entry per text, or a function",
            )
    return tuple(scores)


def _judges(
    model: Model, operators: Sequence[str] | str | None, by: Mapping[str, Any]
) -> Sequence[str] | str | None:
    """Where what fitted them is known, operators that did not; else all."""
    if operators is not None:
        return operators
    if any(given in (None, UNKNOWN) for given in by.values()):
        return list(model.operators)
    used = {name for given in by.values() for name in ([given] if isinstance(given, str) else given)}
    free = [name for name in model.operators if name not in used]
    return None if not used & set(model.operators) else free or list(model.operators)


def _looked_up(scores: Mapping[str, Scores], by: Mapping[str, Any]) -> Callable[[int, Any], dict[str, Any]]:
    def of(number: int, text: Any) -> dict[str, Any]:
        return {name: _given(given, number, text, by[name]) for name, given in scores.items()}

    return of


def _given(scores: Scores, number: int, text: Any, fitted_by: Any) -> Any:
    """What came for one text, or why it cannot be used."""
    try:
        return read_given(scores(text) if callable(scores) else scores[number], fitted_by)
    except HeedfulError as error:
        return str(error)
