"""The work behind `heedful generate`; imported when the command runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import heedful
from heedful import registry
from heedful.cli.io import console, put_json, working
from heedful.errors import HeedfulError
from heedful.types import Comparison, Step
from heedful.view.columns import visible


@dataclass(frozen=True)
class Wish:
    """What the command line asked for."""

    model: str
    prompt: str
    strategies: Sequence[str]
    options: dict[str, Any]
    why: list[str]  # methods that explain every token
    seed: int
    allow_pickle: bool


def command(wish: Wish, as_json: bool) -> None:
    methods = [name.strip() for part in wish.why for name in part.split(",") if name.strip()]
    for name in methods:
        registry.get(name)  # a misspelt method is told before the model is loaded
    if methods and len(wish.strategies) > 1:
        raise HeedfulError("--why explains one continuation", "--all writes several", "Drop one of them")
    found: dict[str, str] = {}
    steps: list[Comparison] = []
    with working(f"loading {wish.model}") as say:
        model: Any = heedful.load(wish.model, allow_pickle=wish.allow_pickle)
        if "generate" not in model.capabilities:
            raise HeedfulError(
                f"{wish.model} cannot write text", f"it is a {model.kind}", "Try --model zoo:lm"
            )
        for count, name in enumerate(wish.strategies):
            say(name, count, len(wish.strategies))
            ids = model.answer(model.encode(wish.prompt), strategy=name, seed=wish.seed, **wish.options)
            found[name] = str(model.tokenizer.decode(ids, skip_special_tokens=True))
        if methods:

            def progress(step: Step) -> None:
                say(step.label, step.done, step.total)

            steps = heedful.explain_each(
                model, wish.prompt, methods, seed=wish.seed, continuation=ids, progress=progress
            )
    if as_json:
        given = {"model": model.facts(), "prompt": wish.prompt, "seed": wish.seed, "options": wish.options}
        why = {"why": [step.to_dict() for step in steps]} if methods else {}
        put_json({**given, "continuations": found, **why})
        return
    show_continuations(found)
    if steps:
        from heedful.view import written

        print()
        written.show(steps, console())


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
