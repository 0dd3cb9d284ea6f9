"""`heedful.trial`: is attention explanation, on this model? The published tests, each beside its control.

The tests are those of heedful.trials.tests and of plug-ins: `heedful trial --help` lists them. A test that
cannot run says why, and the others go on. Ctrl-C keeps the tests that are finished.
Jain & Wallace 2019, Attention is not Explanation; Wiegreffe & Pinter 2019, Attention is not not Explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable
from heedful.core.progress import Report, counting
from heedful.core.versions import versions
from heedful.core.whole_numbers import check_seed
from heedful.io.datasets.labelled_texts import LabelledTexts
from heedful.io.json_codec import to_jsonable
from heedful.models.load import load
from heedful.trials.examples import prepare
from heedful.trials.facts import choose, trial_facts
from heedful.trials.registry import trial_tests
from heedful.trials.regularisers import KINDS
from heedful.trials.result import Trial
from heedful.trials.rows import INTERRUPTED
from heedful.trials.sentences import answer, conclusion, statements
from heedful.trials.suite import TrialSettings, TrialSuite

MODEL_FACTS = ("name", "kind", "class", "parameters", "fingerprint")
NO_TEXTS = "They train models of this kind, and no texts to train on were given (train, --train)."


def trial(
    model: Loadable,
    texts: Iterable[Any],
    labels: Sequence[Any] | None = None,
    *,
    train: Sequence[Any] | None = None,
    tests: Iterable[str] | None = None,
    improve: Iterable[str] = (),
    settings: TrialSettings | None = None,
    long: str = "truncate",
    progress: Report | None = None,
    **more: Any,
) -> Trial:
    """Test whether attention explains the predictions of a model, with the published tests.

    Parameters
    ----------
    model
        The result of `heedful.load`, or anything that `heedful.load` accepts.
    texts
        Texts to test on.
    labels
        The true labels, as names or indices. If `None`, the predictions.
    train
        `(texts, labels)` or `(texts, labels, rationales)` to train on. Without training data, tests that
        train models are skipped.
    tests
        Names of tests. If `None`, all tests that can run.
    improve
        Regularisers. With each regulariser, the model is fine-tuned, and the models before and after are
        compared: "sharper", "flatter", "diverse", "rationales".
    settings
        A `heedful.trials.suite.TrialSettings`. If `None`, the default settings.
    long
        What to do with a text that is too long: "error" or "truncate".
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.
    **more
        Fields of `TrialSettings` by name, such as `permutations=20, seed=1`.

    Returns
    -------
    Trial
        One row per finding, each with its interval and its control. `print(trial)` describes the findings in
        words.

    Examples
    --------
    >>> import heedful
    >>> texts = ["The food was great", "The service was bad", "a nice bar in the old town"]
    >>> trial = heedful.trial("zoo:one-layer", texts, tests=["correlation"])
    >>> trial.findings[0].what
    'attention and gradients, layer 0'
    """
    loaded = load(model)
    terms, settings = _terms(improve), _settings(settings, more)
    wanted, skipped = _chosen(tests, train is not None, bool(terms))
    cases = prepare(loaded, texts, labels, long=long, progress=counting(progress, "reading texts"))
    suite = TrialSuite(cases, None if train is None else LabelledTexts(*train), terms, settings, progress)
    results = _run(suite, wanted, skipped)
    rows = tuple(row for result in results.values() for row in result.findings())
    charts = {name: trial_tests()[name].chart for name in results}
    facts = loaded.facts()
    return Trial(
        findings=rows,
        texts=len(cases),
        model={key: facts[key] for key in MODEL_FACTS if key in facts},
        settings={**asdict(settings), "long": long, "versions": versions()},
        details={name: to_jsonable(result.to_dict()) for name, result in results.items()},
        skipped=skipped,
        notes=tuple(suite.notes),
        statements=statements(rows),
        conclusion=conclusion(rows, len(cases)),
        charts={name: chart(results[name]) for name, chart in charts.items() if chart is not None},
        answer=answer(rows),
    )


def _chosen(tests: Iterable[str] | None, trains: bool, terms: bool) -> tuple[list[str], dict[str, str]]:
    """(names of tests in the order they run, those that cannot run and why)."""
    known = trial_facts().values()
    skipped: dict[str, str] = {}
    requested = [facts.name for facts in known if facts.on_request and terms]
    if tests is not None:
        return choose([tests] if isinstance(tests, str) else list(tests)) + requested, skipped
    default = [facts for facts in known if facts.default and not facts.on_request]
    if not trains:
        skipped = {facts.name: NO_TEXTS for facts in default if facts.trains}
    return [facts.name for facts in default if facts.name not in skipped] + requested, skipped


def _run(suite: TrialSuite, wanted: Sequence[str], skipped: dict[str, str]) -> dict[str, Any]:
    """Test -> its result; those that cannot run are added to `skipped`."""
    results: dict[str, Any] = {}
    for name in wanted:
        if INTERRUPTED in skipped.values():
            skipped[name] = INTERRUPTED
            continue
        try:
            results[name] = suite.result(name)
        except HeedfulError as error:
            skipped[name] = str(error)
        except KeyboardInterrupt:
            if not results:
                raise
            skipped[name] = INTERRUPTED
    if not results:
        raise HeedfulError("no test could run", "; ".join(skipped.values()))
    return results


def _terms(improve: Iterable[str]) -> list[str]:
    """What to train with; training without a term is always beside it."""
    given = [improve] if isinstance(improve, str) else list(improve)
    for name in given:
        if name not in KINDS:
            raise HeedfulError(f"there is no term {name!r}", fix=f"Use some of: {', '.join(KINDS)}")
    return [kind for kind in KINDS if kind in given or (given and kind == "none")]


def _settings(settings: TrialSettings | None, more: dict[str, Any]) -> TrialSettings:
    try:
        settings = replace(settings or TrialSettings(), **more)
    except TypeError:
        known = asdict(TrialSettings())
        unknown = ", ".join(sorted(more.keys() - known.keys()))
        raise HeedfulError(f"a trial has no option {unknown}", fix=f"It has: {', '.join(known)}") from None
    check_seed(settings.seed)
    counts = {name: value for name, value in asdict(settings).items() if name not in ("epsilon", "seed")}
    for name, value in counts.items():
        if value is not None and value < 1:
            raise HeedfulError(f"{name} cannot be {value}", "it is a number of 1 or more")
    if not settings.epsilon >= 0:
        raise HeedfulError(f"epsilon cannot be {settings.epsilon}", "it is how much the output may change")
    if settings.seeds < 2:
        raise HeedfulError("a trial needs at least two seeds", "one shows nothing about chance")
    return settings
