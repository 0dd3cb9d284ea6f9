"""`heedful trial`: is attention explanation, on this model? Heavy imports wait until it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from heedful.cli import options as o
from heedful.cli.console import (
    check_save,
    console,
    form,
    progress_bar,
    put_json,
    reproduce,
    say_written,
    silence_libraries,
    write,
)
from heedful.cli.text_models import reading_texts
from heedful.cli.typed_command import typed

option = typer.Option
TESTS = "Test to run. For several, repeat the option or use commas. Default: all tests that can run."
Tests = Annotated[list[str] | None, option("--test", metavar="TEST", help=TESTS)]
TRAIN = "File with texts and labels for tests that train models. It has the same columns as FILE."
Train = Annotated[Path | None, option("--train", metavar="FILE", help=TRAIN)]
TrainLimit = Annotated[int | None, option(min=1, metavar="N", help="Train on the first N texts only.")]
Permutations = Annotated[int, option(min=1, help="Number of shuffles per text and layer.")]
Epsilon = Annotated[float, option(min=0.0, help="How much the adversary may change the output.")]
Starts = Annotated[int, option(min=1, help="For the adversary: number of starting points of the search.")]
Climb = Annotated[int, option(min=1, help="For the adversary: number of steps of the search.")]
LENGTH = "In training, use only the first N tokens of each text."
Length = Annotated[int, option(min=8, metavar="N", help=LENGTH)]
Seeds = Annotated[
    int, option(min=2, help="Number of models to train per setting. Each model has a different random seed.")
]
STEPS = "Training steps per model. The default depends on the number of layers."
Steps = Annotated[int | None, option(min=1, metavar="N", help=STEPS)]
IMPROVE = (
    "Fine-tune the model with an attention regulariser, and compare the model before and after. TERM is "
    "sharper, flatter, diverse or rationales."
)
Improve = Annotated[list[str] | None, option("--improve", metavar="TERM", help=IMPROVE)]
AsCsv = Annotated[bool, option("--csv", help="Print CSV: one line per finding.")]


class TrialCommand(typer.core.TyperCommand):
    """Its help lists the tests there are, those of plug-ins too."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        from heedful.trials.facts import trial_facts

        with formatter.section("Tests"):
            formatter.write_dl([_listed(facts) for facts in trial_facts().values()])
        super().format_options(ctx, formatter)


def _listed(facts: Any) -> tuple[str, str]:
    condition = "Needs --improve. " if facts.on_request else "Needs --train. " if facts.trains else ""
    return facts.name.replace(" ", "-"), condition + facts.title


def trial(
    file: o.Texts,
    model: o.Model = "zoo:one-layer",
    text_column: o.TextColumn = "text",
    label_column: o.LabelColumn = None,
    rationale_column: o.RationaleColumn = None,
    test: Tests = None,
    train: Train = None,
    train_limit: TrainLimit = None,
    limit: o.FirstTexts = 50,
    permutations: Permutations = 100,
    epsilon: Epsilon = 0.01,
    starts: Starts = 5,
    climb: Climb = 160,
    seeds: Seeds = 3,
    steps: Steps = None,
    length: Length = 128,
    improve: Improve = None,
    long: o.SkipOrCut = "truncate",
    seed: o.Seed = 0,
    html: o.Html = None,
    save: o.Save = None,
    as_json: o.AsJson = False,
    as_csv: AsCsv = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Test whether attention explains the predictions of a model.

    \b
    heedful trial reviews.csv --label-column label
    heedful trial reviews.csv --model zoo:sentiment --test correlation,adversary
    heedful trial reviews.csv --label-column label --limit 20 --html trial.html
    heedful trial reviews.csv --label-column label --train train.csv --out trial/
    heedful trial texts.csv --label-column label --train m.jsonl --improve sharper

    Two papers disagree: "Attention is not Explanation" and "Attention is not not Explanation". This command
    runs the published tests on your model. It says what each test showed, and what the test did not show.
    Some tests need --train. They train several models and take the longest time. If you press Ctrl-C, the
    command shows (and saves) the finished tests.
    """
    shape = form(as_json, as_csv)
    check_save(save, "trial")
    silence_libraries()
    import heedful
    from heedful.io.datasets import Columns
    from heedful.io.datasets.labelled_texts import read_texts

    columns = Columns(text_column, label_column)
    marked = Columns(text_column, label_column, rationale_column)
    with reading_texts(model, "a trial", allow_pickle):  # mistakes are told before the model is loaded
        given = read_texts(file, columns, limit)
        learnt = None if train is None else read_texts(train, marked, train_limit, "--train-limit")
    names, terms = (_names(some) for some in (test, improve))
    with progress_bar(f"loading {model}", quiet) as say:
        loaded = heedful.load(model, allow_pickle=allow_pickle)
        result = heedful.trial(
            loaded,
            given.texts,
            given.labels,
            train=learnt,
            tests=names or None,
            improve=terms,
            permutations=permutations,
            epsilon=epsilon,
            starts=starts,
            climb=climb,
            seeds=seeds,
            steps=steps,
            length=length,
            long=long,
            seed=seed,
            progress=say,
        )
    command = typed()
    skipped = given.left if learnt is None else given.left + learnt.left
    settings = {**result.settings, "command": command}
    result = replace(result, settings=settings, notes=(*skipped, *result.notes))
    if html:
        write(html, result.page())
    if save:
        result.save(save)
    _print(result, shape, verbose)
    say_written(save, html, quiet=quiet)
    reproduce(command, quiet)
    if result.interrupted:
        raise typer.Exit(130)


def _print(result: Any, shape: str, verbose: bool) -> None:
    if shape == "json":
        put_json(result.to_dict())
    elif shape == "csv":
        print(result.to_csv(), end="")
    else:
        from heedful.reports import terminal

        terminal.show(result.document(), console(), verbose, more=o.MORE)


def _names(given: list[str] | None) -> list[str]:
    """Options that were repeated or joined by commas."""
    return [name.strip() for part in given or [] for name in part.split(",") if name.strip()]
