"""`heedful heads`: what single heads do, measured beside a control."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heedful.cli import options as o
from heedful.cli.commands import heads_ablation
from heedful.cli.console import form, progress_bar, put_result, say_written, silence_libraries
from heedful.core.progress import Report

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

app = typer.Typer(rich_markup_mode=None)
app.command()(heads_ablation.importance)
app.command()(heads_ablation.prune)

Period = Annotated[int, o.option(min=3, help="Length of the repeated random text, in tokens.")]
Draws = Annotated[int, o.option(min=2, help="Number of random texts.")]
MARGIN = "A head is an induction head if its attention exceeds the control by more than this value."
Margin = Annotated[float, o.option(min=0, max=1, help=MARGIN)]
File = Annotated[Path, o.argument(metavar="FILE.conllu", help="File with dependency trees (CoNLL-U).")]
LEAST = "Ignore relations with fewer than N examples. Published comparisons use 100."
Least = Annotated[int, o.option(min=1, metavar="N", help=LEAST)]
TEMPLATES = (
    "CSV file with the columns template, a, b, pronoun_1, pronoun_2. Default: the templates of heedful."
)
Templates = Annotated[Path | None, o.option(metavar="FILE.csv", help=TEMPLATES)]
AsCsv = Annotated[bool, o.option("--csv", help="Print CSV: one line per head or relation.")]


@app.callback()
def start() -> None:
    """Measure what attention heads do and how much they matter.

    \b
    heedful heads importance reviews.csv --label-column label
    heedful heads prune reviews.csv --label-column label
    heedful heads induction --model zoo:lm
    heedful heads syntax sentences.conllu --model zoo:sentiment
    heedful heads bias --model zoo:lm
    """


@app.command()
def induction(
    model: o.Model = "zoo:lm",
    period: Period = 50,
    draws: Draws = 8,
    margin: Margin = 0.1,
    seed: o.Seed = 0,
    html: o.Html = None,
    as_json: o.AsJson = False,
    as_csv: AsCsv = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Find induction heads.

    When a token appears a second time, an induction head looks at the token that came after its first
    appearance. The command measures this on a random text that is repeated.

    \b
    heedful heads induction --model zoo:lm
    heedful heads induction --model zoo:lm --period 30 --draws 16 --json
    """
    how = form(as_json, as_csv)
    silence_libraries()
    from heedful.heads.roles.induction import induction as measure

    def run(loaded: TokenModel, progress: Report) -> Any:
        return measure(loaded, period=period, draws=draws, seed=seed, margin=margin, progress=progress)

    _put(_measured(model, run, quiet, allow_pickle), how, html, verbose, quiet)


@app.command()
def syntax(
    file: File,
    model: o.Model = "zoo:sentiment",
    least: Least = 20,
    seed: o.Seed = 0,
    html: o.Html = None,
    as_json: o.AsJson = False,
    as_csv: AsCsv = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Find heads that follow syntax, such as verb to object.

    Each head is compared with the best fixed offset. An offset is, for example, "always the previous word".

    \b
    heedful heads syntax sentences.conllu --model zoo:sentiment
    heedful heads syntax sentences.conllu --model zoo:lm --least 10 --csv
    """
    how = form(as_json, as_csv)
    silence_libraries()
    from heedful.heads.roles import conllu
    from heedful.heads.roles.syntax import syntax as measure

    sentences = conllu.read(file)  # its mistakes are told before the model is loaded

    def run(loaded: TokenModel, progress: Report) -> Any:
        return measure(loaded, sentences, least=least, seed=seed, progress=progress)

    _put(_measured(model, run, quiet, allow_pickle), how, html, verbose, quiet)


@app.command()
def bias(
    model: o.Model = "zoo:lm",
    templates: Templates = None,
    seed: o.Seed = 0,
    html: o.Html = None,
    as_json: o.AsJson = False,
    as_csv: AsCsv = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Find heads that link pronouns to people.

    The command reports whether a head follows the pronoun, or only the position in the sentence.

    \b
    heedful heads bias --model zoo:lm
    heedful heads bias --model zoo:lm --templates pairs.csv --csv

    A template is a sentence such as "The {a} asked the {b} a question because {pronoun}".
    """
    how = form(as_json, as_csv)
    silence_libraries()
    from heedful.heads.roles import bias_templates as built
    from heedful.heads.roles.pronoun_bias import bias as measure

    rows = built.read(templates)

    def run(loaded: TokenModel, progress: Report) -> Any:
        return measure(loaded, rows, seed=seed, progress=progress)

    _put(_measured(model, run, quiet, allow_pickle), how, html, verbose, quiet)


def _measured(name: str, run: Callable[[Any, Report], Any], quiet: bool, allow_pickle: bool) -> Any:
    from heedful.models.load import load_token_model

    with progress_bar(f"loading {name}", quiet) as say:
        model = load_token_model(name, "head roles", allow_pickle=allow_pickle)
        return run(model, say)


def _put(found: Any, how: str, html: Path | None, verbose: bool, quiet: bool) -> None:
    put_result(found, how, html, verbose)
    say_written(None, html, quiet=quiet)
