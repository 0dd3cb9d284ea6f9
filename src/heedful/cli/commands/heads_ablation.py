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
    form,
    print_stderr,
    progress_bar,
    put_result,
    say_written,
    silence_libraries,
)
from heedful.cli.text_models import reading_texts
from heedful.core.progress import Report

if TYPE_CHECKING:
    from heedful.core.model import Model
    from heedful.heads.ablation.ablate_text import AblationResult
    from heedful.io.datasets.labelled_texts import LabelledTexts
    from heedful.models.adapter import TokenModel

LABELS = "Column with the true labels or answers. Default: the model's own predictions."
LabelColumn = Annotated[str | None, o.option(metavar="NAME", help=LABELS)]
HOW = "Replace a head's output by 0, or by its mean over the texts, or use uniform attention."
How = Annotated[Literal["zero", "mean", "uniform"], o.option("--how", help=HOW)]
Level = Annotated[Literal["head", "layer"], o.option(help="Switch off single heads, or whole layers.")]
METRIC = (
    "Metric that ranks the heads: log-probability, accuracy, agreement or log-likelihood. Default: "
    "log-probability for classifiers, log-likelihood for language models."
)
Metric = Annotated[str | None, o.option(metavar="NAME", help=METRIC)]
GRADIENT = "Also estimate the importance from gradients. The model then reads each text once more."
Gradient = Annotated[bool, o.option("--gradient/--no-gradient", help=GRADIENT)]
SHORTLIST = "At each step, try the K heads that mattered least so far. With 0, try all heads."
Shortlist = Annotated[int, o.option(min=0, metavar="K", help=SHORTLIST)]
Steps = Annotated[
    int | None, o.option(min=1, metavar="N", help="How many heads to switch off. Default: all.")
]
Draws = Annotated[int, o.option(min=1, help="Number of random orders of heads, for comparison.")]
AsCsv = Annotated[bool, o.option("--csv", help="Print CSV: one line per head or step.")]


def importance(
    file: o.Texts,
    model: o.Model = "zoo:sentiment",
    text_column: o.TextColumn = "text",
    label_column: LabelColumn = None,
    how: How = "zero",
    level: Level = "head",
    metric: Metric = None,
    gradient: Gradient = True,
    limit: o.FirstTexts = None,
    seed: o.Seed = 0,
    long: o.SkipOrCut = "truncate",
    html: o.Html = None,
    save: o.Save = None,
    as_json: o.AsJson = False,
    as_csv: AsCsv = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Measure how much worse the model gets without each head.

    \b
    heedful heads importance reviews.csv --label-column label --limit 100
    heedful heads importance reviews.csv --how uniform --level layer
    heedful heads importance sentences.csv --model zoo:lm --csv

    The name of a head is layer.head, and both are counted from 0. cross:1.0 is a head of the cross-attention.
    For a classifier, give --label-column. Without this option, the command measures how the model's own
    predictions change. For a language model, the command measures how well the model predicts each token of
    the texts. For each head, the model reads all texts once.
    """
    shape = form(as_json, as_csv)
    check_save(save, "head-importance")
    silence_libraries()
    with reading_texts(model, "head ablation", allow_pickle):
        given = read(file, text_column, label_column, limit)
    from heedful.heads.ablation.importance import head_importance

    def run(loaded: TokenModel, means: Any, progress: Report) -> Any:
        return head_importance(
            loaded,
            given.texts,
            given.labels,
            how,
            metric,
            level=level,
            means=means,
            gradient=gradient,
            seed=seed,
            long=long,
            progress=progress,
        )

    result = _measured(model, given.texts, how, run, quiet, allow_pickle)
    _store(result, save, quiet)
    _put(result, shape, list(given.left), html, verbose, quiet)


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
    limit: o.FirstTexts = None,
    seed: o.Seed = 0,
    long: o.SkipOrCut = "truncate",
    html: o.Html = None,
    save: o.Save = None,
    as_json: o.AsJson = False,
    as_csv: AsCsv = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Find out how many heads the model does not need.

    The command switches off one head after another. It begins with the least important head.

    \b
    heedful heads prune reviews.csv --label-column label --limit 100
    heedful heads prune reviews.csv --label-column label --shortlist 0 --steps 8
    heedful heads prune sentences.csv --model zoo:lm --steps 12

    Heads are chosen on one half of the texts. The other half then shows how much worse the model gets. On the
    first half, the effect would look too small, because the heads were chosen there. For comparison, the
    command also switches off heads in the order of their single-head importance and in random orders. For
    each head that is switched off, the model reads the texts about K times. K is the value of --shortlist.
    """
    shape = form(as_json, as_csv)
    check_save(save, "pruning")
    silence_libraries()
    with reading_texts(model, "head ablation", allow_pickle):
        given = read(file, text_column, label_column, limit)
    from heedful.heads.ablation.pruning import prune_heads

    def run(loaded: TokenModel, means: Any, progress: Report) -> Any:
        return prune_heads(
            loaded,
            given.texts,
            given.labels,
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

    result = _measured(model, given.texts, how, run, quiet, allow_pickle)
    _store(result, save, quiet)
    _put(result, shape, list(given.left), html, verbose, quiet)


def read(file: Path, text_column: str, label_column: str | None, limit: int | None) -> LabelledTexts:
    """Its mistakes are told before the model is loaded."""
    from heedful.io.datasets import Columns
    from heedful.io.datasets.labelled_texts import read_texts

    return read_texts(file, Columns(text_column, label_column), limit)


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
    from heedful.modalities.text import text_of
    from heedful.models.adapter import token_model

    model = token_model(loaded, "removing heads")
    x = text_of(encoded(model, text, long))
    if answer is not None and model.kind == "causal-lm":
        x = model.extended(x, answer_ids(model, answer))
    wanted = answer if model.kind == "encoder-decoder" else None
    means = own_means(model, x, wanted) if how == "mean" else None
    result = without(model, x, heads, how, answer=wanted, means=means)
    if means is not None:
        result = replace(result, notes=(OWN_MEANS, *result.notes))
    return result, ablated(model, heads, how, means=means)


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
        say_written(folder, quiet=quiet)


def _put(found: Any, shape: str, left: list[str], html: Path | None, verbose: bool, quiet: bool) -> None:
    put_result(found, shape, html, verbose, left_out=left)
    if quiet:
        return
    say_written(None, html)
    for line in left[:5]:
        print_stderr(line)
    if len(left) > 5:
        print_stderr(f"and {len(left) - 5} more rows")
