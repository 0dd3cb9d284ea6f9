"""The work behind `heedful explain` and what commands print; imported when a command runs."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from typing import Any

import heedful
from heedful import registry
from heedful.cli.io import console, put_json, working
from heedful.errors import HeedfulError
from heedful.types import Comparison
from heedful.view.columns import visible

# What runs when no method is named: one of each kind, few enough to read together; --method all runs more.
FEW = (
    "grad-l2",
    "grad-x-input",
    "integrated-gradients",
    "attention-avg",
    "attention-rollout",
    "occlusion",
    "lime",
)


@dataclass(frozen=True)
class Wish:
    """What the command line asked for."""

    model: str
    text: Any
    methods: list[str]
    target: dict[str, Any]
    unit: str
    operator: str | None
    param: list[str]
    seed: int
    budget: int | None
    long: str
    allow_pickle: bool


def run(wish: Wish) -> Comparison:
    names = [name.strip() for part in wish.methods for name in part.split(",") if name.strip()]
    if wish.methods and not names:
        raise HeedfulError("no method was named", fix=f"Known: all, {', '.join(registry.explainers())}")
    every = names == ["all"]
    names = [] if every else names
    for name in names:
        registry.get(name)  # a misspelt method is told before the model is loaded
    target = {key: value for key, value in wish.target.items() if value is not None}
    with working(f"loading {wish.model}") as progress:
        model: Any = heedful.load(wish.model, allow_pickle=wish.allow_pickle)
        able = [s.method for s in registry.support(model) if s.ok]
        names = names or ([] if every else [name for name in FEW if name in able])
        params = _params(wish, names or able)
        comparison = heedful.explain(
            model, wish.text, names or None, target or None, wish.unit, wish.seed, wish.budget,
            long=wish.long, params=params, progress=progress,
        )  # fmt: skip
    made = {"source": wish.model, "text": wish.text, "params": params}
    return replace(comparison, settings={**comparison.settings, **made})


def _params(wish: Wish, names: list[str]) -> dict[str, dict[str, Any]]:
    """--operator for every method that removes something, then --param METHOD.NAME=VALUE."""
    found: dict[str, dict[str, Any]] = {}
    if wish.operator:
        removers = [name for name in names if "operator" in registry.get(name).params]
        if not removers:
            raise HeedfulError(
                "--operator was given, but none of these methods removes anything", ", ".join(names)
            )
        found = {name: {"operator": wish.operator} for name in removers}
    for setting in wish.param:
        place, equals, value = setting.partition("=")
        method, dot, name = place.partition(".")
        if not (equals and dot and name):
            raise HeedfulError(f"cannot read --param {setting}", fix="Write METHOD.NAME=VALUE")
        registry.get(method)
        found.setdefault(method, {})[name] = _value(value)
    return found


def _value(text: str) -> Any:
    """A number, true, false or null as JSON has it; anything else is a string."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def show(comparison: Comparison, form: str, full: bool) -> None:
    if form == "json":
        put_json(comparison.to_dict())
    elif form == "csv":
        sys.stdout.write(comparison.to_csv())
    else:
        from heedful.view import terminal

        terminal.show(comparison, console(), None if full else terminal.ROWS)


def show_continuations(found: dict[str, str]) -> None:
    """One continuation as it is; several in a table, one row a strategy."""
    if len(found) == 1:
        text = next(iter(found.values()))
        print("\n".join(visible(line) for line in text.split("\n")))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="bold")
    table.add_column("strategy", no_wrap=True)
    table.add_column("continuation", overflow="fold")
    for name, text in found.items():
        table.add_row(Text(name), Text("\n".join(visible(line) for line in text.split("\n"))))
    console().print(table)
