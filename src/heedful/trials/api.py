"""`heedful.trial`: is attention explanation, on this model? The published tests, each beside its control.

    correlation        does attention order tokens like gradients and leave-one-out do?
    permutation        does the answer move when attention is shuffled?
    adversary          can attention be changed, text by text, and the answer stay?
    uniform            how well does the model do with its attention made uniform?
    frozen             the same, trained that way                                   needs texts to train on
    seeds              how far do seeds alone move attention?                       needs texts to train on
    trained adversary  can another model keep the answers and move the attention?   needs texts to train on
    guide              do the weights help a network without attention?             needs texts to train on
    training           terms that should make attention better, before and after    on request: `improve`

A test that cannot run says why, and the others go on. Ctrl-C keeps the tests that are finished.
Jain & Wallace 2019, Attention is not Explanation; Wiegreffe & Pinter 2019, Attention is not not Explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable
from heedful.io.json_codec import to_jsonable
from heedful.trials.examples import prepare
from heedful.trials.read_texts import LabelledTexts
from heedful.trials.regularisers import KINDS
from heedful.trials.result import Trial
from heedful.trials.rows import INTERRUPTED
from heedful.trials.suite import QUICK, TESTS, TRAINED, Options, Say, TrialSuite

TRAINING = "training"
TOLD = ("name", "kind", "class", "parameters", "fingerprint")  # of the model
NO_TEXTS = "They train models of this kind, and no texts to train on were given (train, --train)."


def trial(
    model: Loadable,
    texts: Iterable[Any],
    labels: Sequence[Any] | None = None,
    *,
    train: Sequence[Any] | None = None,
    tests: Iterable[str] | None = None,
    improve: Iterable[str] = (),
    options: Options | None = None,
    long: str = "truncate",
    progress: Say | None = None,
    **more: Any,
) -> Trial:
    """Put the attention of a model on trial.

    model      what heedful.load returns, or anything it takes
    texts      to try it on; labels are names or indices
    train      (texts, labels) or (texts, labels, rationales) to train on: allows the tests that train
    tests      names, default all that can be held
    improve    terms to train with, measured before and after: sharper, flatter, diverse, rationales
    options    `Options`; its fields can be given by name, too: permutations=20, seed=1
    """
    from heedful.core.versions import versions
    from heedful.models.load import load

    door: Any = load(model)
    wanted, terms = _tests(tests, train is not None), _terms(improve)
    options = _options(options, more)
    say: Say = progress or (lambda what, done, total: None)
    cases = prepare(
        door, texts, labels, long=long, progress=lambda done, total: say("reading texts", done, total)
    )
    court = TrialSuite(cases, None if train is None else LabelledTexts(*train), options, say)
    held: dict[str, Any] = {}
    skipped = {} if train is not None or tests is not None else dict.fromkeys(TRAINED, NO_TEXTS)
    for test in [*wanted, *([TRAINING] if terms else [])]:
        if INTERRUPTED in skipped.values():
            skipped[test] = INTERRUPTED
            continue
        try:
            held[test] = court.improved(terms) if test == TRAINING else court.hold(test)
        except HeedfulError as error:
            skipped[test] = str(error)
        except KeyboardInterrupt:
            if not held:
                raise
            skipped[test] = INTERRUPTED
    if not held:
        raise HeedfulError("no test could be held", "; ".join(skipped.values()))
    facts = door.facts()
    return Trial(
        findings=tuple(finding for found in held.values() for finding in found.findings()),
        texts=len(cases),
        model={key: facts[key] for key in TOLD if key in facts},
        settings={**asdict(options), "long": long, "versions": versions()},
        details={test: to_jsonable(found.to_dict()) for test, found in held.items()},
        skipped=skipped,
        notes=tuple(court.notes),
    )


def _tests(tests: Iterable[str] | None, trains: bool) -> list[str]:
    """Names of tests, in the order they are held; hyphens will do for spaces."""
    if tests is None:
        return list(TESTS if trains else QUICK)
    given = [tests] if isinstance(tests, str) else list(tests)
    names = [name.strip().lower().replace("-", " ") for name in given]
    for name in names:
        if name not in TESTS:
            raise HeedfulError(f"there is no test {name!r}", fix=f"Use some of: {', '.join(TESTS)}")
    return [test for test in TESTS if test in names]


def _terms(improve: Iterable[str]) -> list[str]:
    """What to train with; training without a term is always beside it."""
    given = [improve] if isinstance(improve, str) else list(improve)
    for name in given:
        if name not in KINDS:
            raise HeedfulError(f"there is no term {name!r}", fix=f"Use some of: {', '.join(KINDS)}")
    return [kind for kind in KINDS if kind in given or (given and kind == "none")]


def _options(options: Options | None, more: dict[str, Any]) -> Options:
    try:
        found = replace(options or Options(), **more)
    except TypeError:
        known = ", ".join(asdict(Options()))
        unknown = ", ".join(sorted(more.keys() - asdict(Options()).keys()))
        raise HeedfulError(f"a trial has no option {unknown}", fix=f"It has: {known}") from None
    counts = {name: value for name, value in asdict(found).items() if name not in ("epsilon", "seed")}
    for name, value in counts.items():
        if value is not None and value < 1:
            raise HeedfulError(f"{name} cannot be {value}", "it is a number of 1 or more")
    if not found.epsilon >= 0:
        raise HeedfulError(f"epsilon cannot be {found.epsilon}", "it is how far an answer may move")
    if found.seeds < 2:
        raise HeedfulError("a trial needs at least two seeds", "one says nothing about chance")
    return found
