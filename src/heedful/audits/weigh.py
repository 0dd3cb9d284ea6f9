"""`heedful.weigh`: scores made elsewhere get the same evidence and the same verdict as ours.

What is taken as scores of a text: see heedful.audits.score_formats. How they are laid on our units: see
heedful.audits.score_alignment; what has no certain place is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from heedful.audits.api import AuditWork, Execution, run_audit
from heedful.audits.external_scores import ExternalScores, check_usable
from heedful.audits.result import Audit
from heedful.audits.score_formats import fitting_operators, read_given
from heedful.audits.scores_file import checked_name
from heedful.audits.settings import SHARD_TEXTS, resolve_settings
from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable
from heedful.core.progress import Report
from heedful.io.datasets import in_random_order, open_source
from heedful.modalities.operators import OPERATORS

Scores = Any  # one entry per text, or a function text -> scores
Fitted = dict[str, tuple[str, ...] | None]  # by method; None: not known
MAPPING = 'Give a mapping, e.g. {"my-shap": values}'
ENTRIES = "Give one entry per text, or a function of a text"


def weigh(
    model: Loadable,
    texts: Sequence[Any],
    scores: Mapping[str, Scores],
    target: Any = None,
    unit: str = "",
    fitted_by: str | Sequence[str] | Mapping[str, Any] | None = None,
    *,
    methods: Iterable[str] | str = (),
    labels: Iterable[Any] | None = None,
    operators: Sequence[str] | str | None = None,
    metrics: Iterable[str] | str | None = None,
    draws: int = 20,
    seed: int = 0,
    long: str = "skip",
    until_decided: bool = False,
    full: bool = False,
    out: str | Path | None = None,
    progress: Report | None = None,
) -> Audit:
    """Evaluate explanation scores of other tools, with the tests and the verdict of `heedful.audit`.

    Parameters
    ----------
    model
        The result of `heedful.load`, or anything that `heedful.load` accepts.
    texts
        The texts that the scores explain, or the pictures for a model of pictures.
    scores
        A mapping from the name of a method to its scores: one entry per text, a batched `shap.Explanation`,
        or a function that takes a text and returns an entry. An entry is a list or array with one number per
        token or word, a list of `(word, score)` or `(start, end, score)`, one text of a `shap.Explanation`, a
        captum tensor, or the saved output of inseq. For a picture, an entry is an array (height, width) of
        what the model sees, or one number per unit.
    target
        The output that the scores explain. If `None`, the prediction.
    unit
        What is removed as one piece to judge the scores: "word", "token" or "sentence"; of pictures "patch"
        or "grid:8". If empty, words, or about 8 × 8 cells per picture.
    fitted_by
        The removal operator that was used to compute the scores ("mask", "delete", ...), or "nothing" for
        gradients and attention. If methods differ, a mapping from method to operator. If `None`, the operator
        is not known: then every operator judges the scores, and the verdict says so.
    methods
        Methods of heedful to evaluate together with the scores.
    labels
        The true labels. If given, the accuracy of the model is reported.
    operators
        How words are removed to judge the scores. If `None`, two operators that were not used to compute any
        of the scores.
    metrics
        Names of metrics. If `None`, comprehensiveness and sufficiency; with `full`, six metrics.
    draws
        Number of random orders per text. They are the control.
    seed
        Random seed.
    long
        What to do with a text that is too long: "skip" (skip and report it) or "truncate".
    until_decided
        Check the verdict after every text, and stop when it is settled.
    full
        Six metrics instead of two, and a search for the best order of words. This takes several times longer.
    out
        Folder for the run. If `None`, nothing is written.
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.

    Returns
    -------
    Audit
        `print(result.verdict)` says which method to use.

    Examples
    --------
    >>> import heedful
    >>> def length(text):
    ...     return [len(word) for word in text.split()]
    >>> texts = ["the food was good", "a bad bar and bad food"]
    >>> result = heedful.weigh("zoo:sentiment", texts, {"length": length}, fitted_by="nothing")
    >>> print(result.verdict.headline)
    2 texts are too few for a verdict: at least 10 are needed.
    """
    from heedful.models.load import load

    names = _checked(scores, texts)
    loaded = load(model)
    by = _fitted(fitted_by, names, [*OPERATORS, *loaded.operators])
    source = open_source(list(texts), labels, modality=loaded.modality)
    external = ExternalScores(names, _looked_up(scores, by, maps=loaded.modality != "text"), fitted_by=by)
    common = {"unit": unit, "seed": seed, "draws": draws, "long": long, "until_decided": until_decided}
    more = {"shard": SHARD_TEXTS, "target": target, "given": names}
    judges = operators or external.judges(loaded)
    settings = resolve_settings(loaded, methods or [], metrics, judges, full=full, **common, **more)
    check_usable(external, loaded, in_random_order(source, seed), settings)
    work = AuditWork(loaded, source, settings, external)
    return run_audit(work, out, Execution(), progress)


def _checked(scores: Any, texts: Any) -> tuple[str, ...]:
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise HeedfulError("texts must be a list of texts", f"not a {type(texts).__name__}")
    if not texts:
        raise HeedfulError("there are no texts", fix="Give at least one")
    if not isinstance(scores, Mapping) or not scores:
        raise HeedfulError("scores are not scores by method", fix=MAPPING)
    for name, given in scores.items():
        checked_name(name)
        if not callable(given) and (count := _entries(given)) != len(texts):
            wrong = f"a {type(given).__name__}" if count is None else f"{count} entries"
            raise HeedfulError(f"{name!r} has {wrong} for {len(texts)} texts", fix=ENTRIES)
    return tuple(scores)


def _entries(given: Any) -> int | None:
    """How many texts these scores are for; None: they are not a list."""
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__getitem__"):
        return None
    try:
        return len(given)
    except TypeError:  # a tensor of one number
        return None


def _fitted(said: Any, names: Sequence[str], known: Collection[str]) -> Fitted:
    """By method. A method that a mapping does not name is one of which it is not known."""
    if isinstance(said, Mapping) and (strange := [name for name in said if name not in names]):
        raise HeedfulError(
            f"fitted_by names {strange[0]!r:.60}, which has no scores here", fix=f"Given: {', '.join(names)}"
        )
    each = {name: said.get(name) if isinstance(said, Mapping) else said for name in names}
    return {name: fitting_operators(value, dict.fromkeys(known)) for name, value in each.items()}


def _looked_up(
    scores: Mapping[str, Scores], by: Fitted, maps: bool = False
) -> Callable[[int, Any], dict[str, Any]]:
    """Remembered: a function may be expensive, and the first texts are looked at twice."""
    results: dict[int, dict[str, Any]] = {}

    def of(number: int, text: Any) -> dict[str, Any]:
        if number not in results:
            results[number] = {
                name: _given(given, number, text, by[name], maps) for name, given in scores.items()
            }
        return results[number]

    return of


def _given(scores: Scores, number: int, text: Any, fitted_by: tuple[str, ...] | None, maps: bool) -> Any:
    """What came for one text, or why it cannot be used."""
    try:
        # a pandas Series is numbered by its index, which need not begin at 0
        entries: Any = getattr(scores, "iloc", scores)
        return read_given(scores(text) if callable(scores) else entries[number], fitted_by, maps=maps)
    except HeedfulError as error:
        return str(error)
    except Exception as error:  # a user's function may fail on one text: the others go on
        return f"{type(error).__name__}: {error}"[:1000]
