"""`heedful audit`: weigh explanations on the texts of a file. Heavy imports wait until it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heedful.cli import options as o
from heedful.cli.console import (
    console,
    form,
    print_stderr,
    progress_bar,
    put_json,
    reproduce,
    silence_libraries,
    write,
)
from heedful.cli.threads import fit_threads
from heedful.cli.typed_command import typed
from heedful.core.progress import Report, Step

if TYPE_CHECKING:
    from heedful.core.model import Model

option, argument = typer.Option, typer.Argument
LabelColumn = Annotated[str | None, option(metavar="NAME", help="Label column.")]
MARKED = "Rationale column: 0 or 1 per word, or [start, end] spans, as JSON."
RationaleColumn = Annotated[str | None, option(metavar="NAME", help=MARKED)]
METHODS = "Repeat it, or separate by commas; none: --scores only. Default: all, but the expensive ones."
Methods = Annotated[list[str] | None, option("--method", metavar="METHOD", help=METHODS)]
METRICS = "Repeat it, or separate by commas. Default: six that remove words."
Metrics = Annotated[list[str] | None, option("--metric", metavar="METRIC", help=METRICS)]
OPERATORS = "How words are removed to judge; commas, or all: in turn. Default: two that fit no method."
Operators = Annotated[list[str] | None, option("--operators", metavar="HOW", help=OPERATORS)]
Draws = Annotated[int, option(min=2, help="Random orders per text: the control.")]
SCORES = "Scores made elsewhere, weighed too: JSONL with text or row, method, scores, fitted_by."
Scores = Annotated[Path | None, option(metavar="FILE", help=SCORES)]
DECIDED = "Look after every text; stop when the verdict is settled."
UntilDecided = Annotated[bool, option("--until-decided", help=DECIDED)]
DRY = "Say what a verdict would cost and show; audit nothing."
DryRun = Annotated[bool, option("--dry-run", help=DRY)]
Out = Annotated[
    Path | None,
    option(
        metavar="FOLDER", help="Keep the run here; one that was stopped goes on. Default: nothing is kept."
    ),
]
Limit = Annotated[int | None, option(min=1, metavar="N", help="N rows only, drawn at random.")]
ShardSize = Annotated[int, option("--shard", min=1, metavar="N", help="Texts written together.")]


def audit(
    file: o.Texts,
    model: o.Model = "zoo:sentiment",
    text_column: o.TextColumn = "text",
    label_column: LabelColumn = None,
    rationale_column: RationaleColumn = None,
    method: Methods = None,
    metric: Metrics = None,
    operators: Operators = None,
    scores: Scores = None,
    unit: o.Unit = "word",
    seed: o.Seed = 0,
    draws: Draws = 20,
    long: o.SkipOrCut = "error",
    out: Out = None,
    limit: Limit = None,
    until_decided: UntilDecided = False,
    dry_run: DryRun = False,
    shard: ShardSize = 32,
    engine: o.Engine = "local",
    address: o.Address = None,
    workers: o.Workers = None,
    html: o.Html = None,
    as_json: o.AsJson = False,
    as_csv: Annotated[
        bool, option("--csv", help="Print CSV: one line per metric, operator and method.")
    ] = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Weigh explanations on many texts and say which to use. With --out, a stopped audit goes on.

    \b
    heedful audit reviews.csv --text-column review --out run/
    heedful audit reviews.jsonl --label-column label --method occlusion,lime,grad-l2 --limit 100
    heedful audit reviews.csv --until-decided --dry-run
    heedful audit reviews.csv --scores mine.jsonl --method none
    heedful audit reviews.parquet --operators all --metric aopc,sufficiency --json
    heedful audit reviews.csv --engine ray --workers 8

    The folder of --out gets Parquet shards of all scores and attributions, table.csv and report.html.
    """
    form(as_json, as_csv)
    silence_libraries()
    from heedful.io.datasets import Columns, open_source

    methods = _methods(method, scores)
    columns = Columns(text_column, label_column, rationale_column)
    # mistakes in the file are told before the model is loaded
    texts = open_source(file, columns=columns, limit=limit)
    chosen: dict[str, Any] = {"methods": methods, "metrics": _names(metric), "operators": _names(operators)}
    chosen |= {"unit": unit, "seed": seed, "draws": draws, "long": long, "until_decided": until_decided}
    chosen |= {"scores": scores, "columns": columns, "limit": limit}
    where = {"out": out, "engine": engine, "shard": shard, "address": address, "workers": workers}
    with _resumable(out), progress_bar(f"loading {model}", quiet) as say:
        source = _source(model, engine, allow_pickle)
        count = None if quiet else texts.count()
        if dry_run:
            result = _foretold(source, file, chosen)
        else:
            progress = _with_note(_progress(say), count)
            result = _audited(source, file, {**chosen, **where, "progress": progress})
    if dry_run:
        return put_json(result.to_dict()) if as_json else print(result)
    if methods is None and not quiet and (expensive := _expensive(source)):
        print_stderr(expensive)
    if html:
        write(html, result.page())
    if as_json:
        put_json({"run": None if out is None else str(out), **result.to_dict()})
    elif as_csv:
        print(result.to_csv(), end="")
    else:
        _show(result, verbose)
    if not quiet:
        _say_where(html, out)
    reproduce(result.command, quiet)


def _methods(named: list[str] | None, scores: Path | None) -> list[str] | None:
    """Names; None: all; []: none of ours, where scores from elsewhere are weighed."""
    from heedful.core.errors import HeedfulError

    methods = _names(named)
    if methods != ["none"]:
        return None if methods == ["all"] else methods
    if scores is None:
        raise HeedfulError("there is no method to weigh", fix="Name methods, or give --scores FILE")
    return []


def _source(model: str, engine: str, allow_pickle: bool) -> Any:
    """A name is loaded by each worker; what had to be trusted here is sent to them as it is."""
    import heedful

    by_name = engine == "ray" and not allow_pickle
    source: Any = model if by_name else heedful.load(model, allow_pickle=allow_pickle)
    fit_threads(source)
    return source


def _foretold(source: Any, file: Path, chosen: dict[str, Any]) -> Any:
    from heedful.audits.estimate import estimate_audit

    return estimate_audit(source, file, **chosen)


def _audited(source: Any, file: Path, chosen: dict[str, Any]) -> Any:
    import heedful

    return heedful.audit(source, file, command=typed(), **chosen)


def _show(result: Any, verbose: bool) -> None:
    from heedful.reports import terminal

    terminal.show(result.document(), console(), verbose, more=o.MORE)


@contextmanager
def _resumable(out: Path | None) -> Iterator[None]:
    """After Ctrl-C, when the bar is gone, how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if out is not None:
            print_stderr("stopped: run the same command again to resume")
        else:
            print_stderr("stopped: nothing is kept without --out FOLDER")
        raise


def _say_where(html: Path | None, out: Path | None) -> None:
    if html is not None or out is not None:
        print_stderr(f"wrote {html or Path(out or '') / 'report.html'}")
    else:
        print_stderr("nothing was written: --html FILE writes a page, --out FOLDER keeps everything")


def _names(given: list[str] | None) -> list[str] | None:
    """Options that were repeated or joined by commas."""
    return [name.strip() for part in given for name in part.split(",") if name.strip()] if given else None


def _with_note(progress: Report, rows: int | None) -> Report:
    """As the work begins, and every option was found right: too few texts cannot end in a verdict."""
    from heedful.core.defaults import MIN_TEXTS

    few = rows is not None and rows < MIN_TEXTS

    def tell(step: Step) -> None:
        nonlocal few
        if few:
            few = False
            texts = "1 text is" if rows == 1 else f"{rows} texts are"
            print_stderr(
                f"{texts} too few for a verdict: at least {MIN_TEXTS} are needed; scores are measured anyway"
            )
        progress(step)

    return tell


def _expensive(model: Model) -> str:
    """A line that names the methods that were not run because they are expensive."""
    from heedful.core import registry
    from heedful.core.phrases import EXPENSIVE, left_out

    expensive = [entry for entry in registry.explainers().values() if entry.expensive]
    known = not isinstance(model, str)  # a name is loaded by the workers alone
    return left_out({e.name: EXPENSIVE for e in expensive if not (known and model.lacks(e.needs))})


def _progress(say: Report) -> Report:
    """Rows done in this run, which set the pace; those of an earlier one are named."""
    say(Step("weighing explanations"))

    def progress(step: Step) -> None:
        before = f" ({step.resumed:,} more were done before)" if step.resumed else ""
        left = max(0, step.total - step.resumed)
        say(Step(f"{step.method}{before}", done=step.done - step.resumed, total=left))

    return progress
