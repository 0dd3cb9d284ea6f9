"""`explain`: every method on one prediction, sharing one trace and one memory of rows.

A text longer than the window is explained piece by piece. The explained number is then the mean over the
pieces, and scores are the mean of the pieces' scores, each at its own tokens. It is exact for methods linear
in the explained function (gradients, leave-one-out, Shapley values); for the others (norms, attention, ranks)
it is the convention.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from heedful import registry
from heedful import text as textlib
from heedful.errors import HeedfulError
from heedful.models import load
from heedful.models.base import Masks, Model, require
from heedful.rows import Memory, checked_operator
from heedful.types import Attribution, Comparison, Cost, Encoded, Floats, Progress, Target, Trace


class BudgetSpentError(HeedfulError):
    """A method asked for more rows than were left."""


class Run:
    """A model that remembers: each trace and each row is computed once, whoever asks."""

    def __init__(self, model: Model, budget: int | None = None, progress: Progress | None = None) -> None:
        self.model, self.budget, self.progress = model, budget, progress
        self._traces: dict[tuple[Encoded, Target], Trace] = {}
        self._rows: dict[tuple[Encoded, Target], Memory] = {}
        self._remembered = Cost()  # asked for and found in memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    @property
    def spent(self) -> Cost:
        """A remembered pass counts as asked for (forwards, backwards), not as run (unique)."""
        return self.model.spent + self._remembered

    def trace(self, x: Encoded, target: Target) -> Trace:
        if (x, target) in self._traces:
            self._remembered += Cost(forwards=1, backwards=1)
        else:
            self._traces[x, target] = self.model.trace(x, target)
        return self._traces[x, target]

    def rows(
        self, x: Encoded, target: Target, keep: Masks, operator: str | None = None, unit: str = "word"
    ) -> Floats:
        self._check_budget(len(keep))
        memory = self._rows.setdefault((x, target), {})
        before = self.model.spent.unique
        values = self.model.rows(x, target, keep, operator, unit, self.progress, memory)
        if self.budget is not None:
            self.budget -= self.model.spent.unique - before
        return values

    def spend(self, rows: int) -> None:
        """Take rows that a method runs by other means than `rows` from the budget."""
        self._check_budget(rows)
        if self.budget is not None:
            self.budget -= rows

    def _check_budget(self, rows: int) -> None:
        if self.budget is not None and rows > self.budget:
            raise BudgetSpentError(
                f"the budget has {self.budget:,} rows left and this method asks for {rows:,}"
            )


def explain(
    model: Any,
    text: Any,
    methods: Iterable[str] | str | None = None,
    target: Any = None,
    unit: str = "word",
    seed: int = 0,
    budget: int | None = None,
    *,
    long: str = "error",
    params: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Explain one prediction with several methods, side by side.

    methods   names, or None for every method the model supports, dear ones (anchors, search) excepted;
              `random`, the control, is always there
    target    None (the prediction), a label, an index, a token, or a mapping (see heedful.targets)
    unit      "word", "token" or "sentence": what is removed as one by the methods that remove
    budget    most rows (model inputs) all removal methods together may run
    long      what to do with a text longer than the model reads: "error", "truncate" or "window"
    params    parameters by method, e.g. {"occlusion": {"operator": "delete"}}
    """
    started = time.perf_counter()
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise HeedfulError(f"seed cannot be {seed!r}", "it is a whole number, 0 or more")
    model = load(model)
    chosen, refused = _choose(model, methods)
    _check_params(model, chosen, params or {}, named=methods is not None)
    x = model.encode(text, long)
    x.units(unit)  # refuses an unknown unit before any work
    pieces = _pieces(x, model.window)
    wanted = _target(model, [piece for piece, _ in pieces], target)
    run = Run(model, budget, progress)
    found: list[Attribution] = []
    for entry in chosen:
        own = _settings(entry, unit, seed, params or {})
        try:
            found.append(_explain_pieces(run, entry, x, pieces, wanted, own))
        except HeedfulError as error:
            if methods is not None and not isinstance(error, BudgetSpentError):
                raise  # asked for by name: the reason is the answer
            refused[entry.name] = str(error)
    facts = model.facts() | {"prediction": [list(pair) for pair in _predict(model, [p for p, _ in pieces])]}
    settings = {"seed": seed, "unit": unit, "long": long, "budget": budget, "versions": versions()}
    settings |= {
        "seconds": time.perf_counter() - started,
        "params": {k: dict(v) for k, v in (params or {}).items()},
    }
    if not isinstance(text, str | Encoded):
        settings["text"] = text  # a pair or a chat, which the joined text does not tell
    return Comparison(tuple(found), facts, settings, refused)


def _choose(
    model: Model, methods: Iterable[str] | str | None
) -> tuple[list[registry.Explainer], dict[str, str]]:
    """(methods to run, method -> why not). Asked for by name, an unsupported method is an error."""
    if methods is None:
        support = registry.support(model)
        refused = {s.method: s.why for s in support if not s.ok}
        able = [registry.get(s.method) for s in support if s.ok]
        refused |= {
            entry.name: "it may run thousands of rows, so it runs when named" for entry in able if entry.dear
        }
        return [entry for entry in able if not entry.dear], refused
    names = [methods] if isinstance(methods, str) else list(methods)
    if not names:
        raise HeedfulError("no method was named", fix=f"Known: {', '.join(registry.explainers())}")
    chosen = [registry.get(name) for name in dict.fromkeys([*names, "random"])]
    for entry in chosen:
        require(model, entry.needs, entry.name)
    return chosen, {}


Piece = tuple[Encoded, list[int]]  # a window of the text, and where its tokens stand in the whole


def _pieces(x: Encoded, window: int | None) -> list[Piece]:
    return textlib.windows(x, window) if window and len(x) > window else [(x, list(range(len(x))))]


def _check_params(
    model: Model, chosen: list[registry.Explainer], params: Mapping[str, Mapping[str, Any]], named: bool
) -> None:
    for name, given in params.items():
        registry.get(name).check(given)
        checked_operator(given.get("operator"), model.operators)
        if named and name not in {entry.name for entry in chosen}:
            raise HeedfulError(
                f"parameters were given for {name!r}, which does not run here",
                fix=f"Running: {', '.join(entry.name for entry in chosen)}",
            )


def _settings(entry: registry.Explainer, unit: str, seed: int, params: Mapping[str, Any]) -> dict[str, Any]:
    common = {"unit": unit, "seed": seed}
    return {name: value for name, value in common.items() if name in entry.params} | dict(
        params.get(entry.name, {})
    )


def _target(model: Model, pieces: list[Encoded], spec: Any) -> Target:
    """The target of one text, or the label with the highest mean over the pieces of a long one."""
    if len(pieces) > 1 and spec is None:
        spec = _predict(model, pieces)[0][0]
    return model.target(pieces[0], spec)


def _predict(model: Model, pieces: list[Encoded]) -> list[tuple[str, float]]:
    """Prediction, averaged over pieces."""
    shares: dict[str, float] = {}
    every = len(model.labels) or 5
    for piece in pieces:
        for label, share in model.predict(piece, k=every if len(pieces) > 1 else min(every, 5)):
            shares[label] = shares.get(label, 0.0) + share / len(pieces)
    return sorted(shares.items(), key=lambda item: -item[1])[:5]


def _explain_pieces(
    run: Run,
    entry: registry.Explainer,
    x: Encoded,
    pieces: list[Piece],
    target: Target,
    settings: dict[str, Any],
) -> Attribution:
    before, started = run.spent, time.perf_counter()
    parts = [entry(run, piece, target, **settings) for piece, _ in pieces]  # type: ignore[arg-type]
    joined = parts[0] if len(parts) == 1 else _join(x, pieces, parts)
    spent = replace(run.spent - before, seconds=time.perf_counter() - started)
    return replace(joined, cost=spent)


def _join(x: Encoded, pieces: list[Piece], parts: list[Attribution]) -> Attribution:
    """Means at each token; errors of the pieces, drawn apart, add in squares."""
    scores, squares = np.zeros(len(x)), np.zeros(len(x))
    for (_, positions), part in zip(pieces, parts, strict=True):
        np.add.at(scores, positions, part.scores / len(parts))
        if part.stderr is not None:
            np.add.at(squares, positions, (part.stderr / len(parts)) ** 2)
    sampled = any(part.stderr is not None for part in parts)
    output = float(np.mean([part.output for part in parts]))
    return replace(parts[0], x=x, scores=scores, output=output, stderr=np.sqrt(squares) if sampled else None)


def versions() -> dict[str, str]:
    """What a reader needs to make it again."""
    found = {"python": platform.python_version()}
    for package in ("heedful", "torch", "transformers", "tokenizers", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


__all__ = ["BudgetSpentError", "Run", "explain", "versions"]
