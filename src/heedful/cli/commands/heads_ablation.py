"""`heedful heads importance` and `heedful heads prune`: what heads are worth on the texts of a file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from heedful.cli import options as o
from heedful.cli.console import (
    check_save,
    console,
    form,
    print_stderr,
    progress_bar,
    put_csv,
    put_json,
    silence_libraries,
)
from heedful.core.progress import Report

if TYPE_CHECKING:
    from heedful.core.model import Model
    from heedful.heads.ablation.ablate_text import AblationResult
    from heedful.models.adapter import TokenModel

LABELS = "Column of what they are, or of the answers. Default: the model's own answers."
LabelColumn = Annotated[str | None, o.option(metavar="NAME", help=LABELS)]
HOW = "What stands for a head's output: 0, its mean over the texts, or its values mixed evenly."
How = Annotated[Literal["zero", "mean", "uniform"], o.option("--how", help=HOW)]
Level = Annotated[Literal["head", "layer"], o.option(help="What is removed as one piece.")]
METRIC = "log-probability, accuracy, agreement or log-likelihood. Default: the first the model has."
Metric = Annotated[str | None, o.option(metavar="NAME", help=METRIC)]
Limit = Annotated[int | None, o.option(min=1, metavar="N", help="Read the first N rows only.")]
GRADIENT = "Also the estimate by gradients, one pass a text."
Gradient = Annotated[bool, o.option("--gradient/--no-gradient", help=GRADIENT)]
SHORTLIST = "Heads tried at each step: those missed least when last tried. 0: all."
Shortlist = Annotated[int, o.option(min=0, metavar="K", help=SHORTLIST)]
Steps = Annotated[int | None, o.option(min=1, metavar="N", help="How many go. Default: all.")]
Draws = Annotated[int, o.option(min=1, help="Random orders, the control.")]
AsCsv = Annotated[bool, o.option("--csv", help="Print CSV: one line per head, or a step.")]
Long = Annotated[Literal["error", "truncate"], o.option(help="A text too long: leave it out, or cut it.")]


def importance(
    file: o.Texts,
    model: o.Model = "zoo:sentiment",
    text_column: o.TextColumn = "text",
    label_column: LabelColumn = None,
    how: How = "zero",
    level: Level = "head",
    metric: Metric = None,
    gradient: Gradient = True,
    limit: Limit = None,
    seed: o.Seed = 0,
    long: Long = "truncate",
    save: o.Save = None,
    as_json: o.AsJson = False,
    as_csv: AsCsv = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Remove every head in turn and see how far the task metric falls, or rises.

    \b
    heedful heads importance reviews.csv --label-column label --limit 100
    heedful heads importance reviews.csv --label-column label --how uniform --level layer
    heedful heads importance sentences.csv --model zoo:lm --csv

    Heads are named layer.head, both counted from 0; cross:1.0 is one of an encoder-decoder's cross-attention.
    A classifier needs labels to show harm; without them, the change of its own answers is measured.
    A language model is measured on the tokens of the texts.
    """
    shape = form(as_json, as_csv)
    check_save(save, "head-importance")
    silence_libraries()
    texts, labels, left = read(file, text_column, label_column, limit)
    from heedful.heads.ablation.importance import head_importance
    from heedful.reports.ablation_terminal import show_importance

    def run(loaded: TokenModel, means: Any, progress: Report) -> Any:
        return head_importance(
            loaded,
            texts,
            labels,
            how,
            metric,
            level=level,
            means=means,
            gradient=gradient,
            seed=seed,
            long=long,
            progress=progress,
        )

    result = _measured(model, texts, how, run, quiet, allow_pickle)
    _store(result, save, quiet)
    _put(result, shape, show_importance, left, quiet)


def prune(
    file: o.Texts,
    model: o.Model = "zoo:sentiment",
    text_column: o.TextColumn = "text",
    label_column: LabelColumn = None,
    how: How = "zero",
    level: Level = "head",
    metric: Metric = None,
    shortlist: Shortlist = 8,
    steps: Steps = None,
    draws: Draws = 10,
    limit: Limit = None,
    seed: o.Seed = 0,
    long: Long = "truncate",
    save: o.Save = None,
    as_json: o.AsJson = False,
    as_csv: AsCsv = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Take heads away one after another, the least missed first, and see how long the model stands it.

    \b
    heedful heads prune reviews.csv --label-column label --limit 100
    heedful heads prune reviews.csv --label-column label --shortlist 0 --steps 8 --csv
    heedful heads prune sentences.csv --model zoo:lm --steps 12

    Half of the texts choose the heads, the other half measures what is lost: measured on the texts that
    chose, the loss would look too small. Beside it: the order of single-head importance, and random orders.
    """
    shape = form(as_json, as_csv)
    check_save(save, "pruning")
    silence_libraries()
    texts, labels, left = read(file, text_column, label_column, limit)
    from heedful.heads.ablation.pruning import prune_heads
    from heedful.reports.ablation_terminal import show_pruning

    def run(loaded: TokenModel, means: Any, progress: Report) -> Any:
        return prune_heads(
            loaded,
            texts,
            labels,
            how,
            metric,
            level=level,
            shortlist=shortlist or None,
            steps=steps,
            draws=draws,
            means=means,
            seed=seed,
            long=long,
            progress=progress,
        )

    result = _measured(model, texts, how, run, quiet, allow_pickle)
    _store(result, save, quiet)
    _put(result, shape, show_pruning, left, quiet)


def read(
    file: Path, text_column: str, label_column: str | None, limit: int | None
) -> tuple[list[str], list[Any] | None, list[str]]:
    """(texts, labels, what was left out and why); its mistakes are told before the model is loaded."""
    from heedful.core.errors import HeedfulError
    from heedful.io.datasets import Columns, open_source

    texts, labels, left = [], [], []
    for row in open_source(file, columns=Columns(text_column, label_column), limit=limit).rows():
        usable = not row.broken and isinstance(row.text, str) and row.text.strip()
        if usable:
            texts.append(row.text)
            labels.append(row.label)
        else:
            left.append(f"row {row.number} was left out: {row.broken or 'there is no text'}")
    if not texts:
        raise HeedfulError(f"{file.name} has no text that can be read", left[0] if left else "")
    return texts, labels if label_column is not None else None, left


def removing(
    loaded: Model, text: Any, heads: str | None, how: str, long: str, answer: str | None = None
) -> tuple[AblationResult | None, AbstractContextManager[None]]:
    """For `heedful attention --ablate`: what one text loses, and the block in which it is looked at.

    A forced answer is what an encoder-decoder is measured on; a causal model reads it behind the text.
    """
    if heads is None:
        return None, nullcontext()
    from heedful.heads.ablation.ablate import ablated
    from heedful.heads.ablation.ablate_text import OWN_MEANS, own_means, without
    from heedful.heads.atlas import encoded
    from heedful.heads.capture import answer_ids
    from heedful.models.adapter import token_model

    model = token_model(loaded, "removing heads")
    x = encoded(model, text, long)
    if answer is not None and model.kind == "causal-lm":
        x = model.extended(x, answer_ids(model, answer))
    wanted = answer if model.kind == "encoder-decoder" else None
    means = own_means(model, x, wanted) if how == "mean" else None
    result = without(model, x, heads, how, answer=wanted, means=means)
    if means is not None:
        result = replace(result, notes=(OWN_MEANS, *result.notes))
    return result, ablated(model, heads, how, means=means)


def show(found: AblationResult | None) -> None:
    """Above the maps of the model without these heads."""
    if found is not None:
        from heedful.reports.ablation_terminal import show_without

        show_without(found, console())


def _measured(
    name: str, texts: list[str], how: str, run: Callable[..., Any], quiet: bool, allow_pickle: bool
) -> Any:
    import heedful
    from heedful.models.load import load_token_model

    with progress_bar(f"loading {name}", quiet) as say:
        model = load_token_model(name, "head ablation", allow_pickle=allow_pickle)
        means = None
        if how == "mean":
            means = heedful.head_means(model, texts, progress=say)
        return run(model, means, say)


def _store(result: Any, folder: Path | None, quiet: bool) -> None:
    if folder is not None:
        result.save(folder)
        if not quiet:
            print_stderr(f"wrote {folder}")


def _put(found: Any, shape: str, show: Callable[[Any, Any], None], left: list[str], quiet: bool) -> None:
    if shape == "json":
        put_json(found.to_dict() | {"left_out": left})
    elif shape == "csv":
        put_csv(found.table())
    else:
        show(found, console())
    if not quiet:
        for line in left[:5]:
            print_stderr(line)
        if len(left) > 5:
            print_stderr(f"and {len(left) - 5} more rows")
