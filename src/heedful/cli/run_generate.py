"""The work behind `heedful generate`; imported when the command runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

import heedful
from heedful.cli.console import (
    announce,
    console,
    print_stderr,
    progress_bar,
    put_document,
    put_json,
    reproduce,
)
from heedful.cli.run_explain import removing
from heedful.comparisons.planning import plan
from heedful.comparisons.result import Comparison
from heedful.core import registry
from heedful.core.errors import HeedfulError
from heedful.core.progress import Step
from heedful.models.generation_trace import steps
from heedful.reports.visible import visible

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel


@dataclass(frozen=True)
class Why:
    """How every token is to be explained, if it is."""

    named: list[str]
    unit: str
    operator: str | None
    budget: int | None  # a token

    @property
    def methods(self) -> list[str]:
        return [name.strip() for part in self.named for name in part.split(",") if name.strip()]


@dataclass(frozen=True)
class GenerateRequest:
    """What the command line asked for."""

    model: str
    prompt: str
    strategies: Sequence[str]
    options: dict[str, Any]
    why: Why
    seed: int
    allow_pickle: bool
    command: str | None = None  # what to type for the same


def command(wish: GenerateRequest, as_json: bool, quiet: bool = False) -> None:
    """`heedful generate`: exit code 130 after Ctrl-C, once the tokens that are explained are out."""
    from heedful.models.adapter import TokenModel

    check(wish)
    with progress_bar(f"loading {wish.model}", quiet) as say:
        model = heedful.load(wish.model, allow_pickle=wish.allow_pickle)
        if "generate" not in model.capabilities or not isinstance(model, TokenModel):
            raise HeedfulError(
                f"{wish.model} cannot write text", f"it is a {model.kind}", "Try --model zoo:lm"
            )
        written: dict[str, list[int]] = {}
        for count, name in enumerate(wish.strategies):
            say(Step(name, done=count, total=len(wish.strategies)))
            written[name] = model.answer(
                model.encode(wish.prompt), strategy=name, seed=wish.seed, **wish.options
            )
    ids = written[wish.strategies[0]]
    result = explained(model, wish, ids, quiet) if wish.why.methods else []
    stopped = bool(wish.why.methods) and len(result) < len(ids)
    texts = {name: model.decode(part, skip_special=True) for name, part in written.items()}
    if as_json:
        given = {"model": model.facts(), "prompt": wish.prompt, "seed": wish.seed, "options": wish.options}
        given |= {"command": wish.command}
        why = {"why": [step.to_dict() for step in result], "interrupted": stopped} if wish.why.methods else {}
        put_json({**given, "continuations": texts, **why})
    else:
        before = (
            wish.prompt if model.kind == "causal-lm" else ""
        )  # others write an answer, not a continuation
        show_continuations(texts, before)
        show_why(result)
    reproduce(wish.command, quiet)
    if stopped:
        print_stderr(f"interrupted at token {len(result) + 1} of {len(ids)}: those before are explained")
        raise typer.Exit(130)


def check(wish: GenerateRequest) -> None:
    """Mistakes that can be told before the model is loaded."""
    why = wish.why
    for name in why.methods:
        registry.get(name)
    if why.methods and len(wish.strategies) > 1:
        raise HeedfulError("--why explains one continuation", "--all writes several", "Drop one of them")
    if why.methods:
        removing(why.operator, why.methods)
    elif why.operator or why.budget:
        raise HeedfulError("--operator and --budget are for --why", fix="Name a method: --why occlusion")


def explained(model: TokenModel, wish: GenerateRequest, ids: list[int], quiet: bool) -> list[Comparison]:
    """One comparison a token; a long run is announced by its last token, which has most to read before it."""
    why, x = wish.why, model.encode(wish.prompt)
    params = removing(why.operator, why.methods)
    if ids and not quiet:
        piece, target = steps(model, x, ids)[-1]
        last = plan(
            model, piece, why.methods, target, why.unit, wish.seed, why.budget, params=params, evidence=False
        )
        announce(len(ids) * last.most_rows, len(ids) * last.seconds, capped=why.budget is not None)
    with progress_bar("explaining", quiet) as say:
        return heedful.explain_each(
            model,
            x,
            why.methods,
            why.unit,
            wish.seed,
            why.budget,
            continuation=ids,
            params=params,
            progress=say,
        )


def show_why(found: list[Comparison]) -> None:
    if found:
        from heedful.reports import generation_table

        put_document(generation_table.document(found))


def show_continuations(found: dict[str, str], prompt: str) -> None:
    """One continuation after its prompt; several in a table, one row per strategy."""
    from rich.table import Table
    from rich.text import Text

    if len(found) == 1:
        (text,) = found.values()
        parts = ((prompt, "dim"), (text, "bold"))
        line = Text.assemble(*(("\n".join(map(visible, part.split("\n"))), style) for part, style in parts))
        console().print(line, soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), header_style="bold")
    table.add_column("strategy", no_wrap=True)
    table.add_column("continuation", overflow="fold")
    for name, text in found.items():
        table.add_row(Text(name), Text("\n".join(visible(line) for line in text.split("\n"))))
    console().print(table)
