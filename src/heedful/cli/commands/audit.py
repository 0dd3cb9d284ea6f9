"""`heedful audit`: test methods on the texts of a file. Heavy imports wait until it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heedful.cli import options as o
from heedful.cli.console import (
    captions,
    console,
    form,
    print_stderr,
    progress_bar,
    put_json,
    reproduce,
    say_written,
    silence_libraries,
    write,
)
from heedful.cli.threads import fit_threads, process_count
from heedful.cli.typed_command import typed
from heedful.core.progress import Report, Step

if TYPE_CHECKING:
    from heedful.core.model import Model

option, argument = typer.Option, typer.Argument
METHODS = (
    "Method to audit (see heedful methods). To audit several, repeat the option or separate names by commas. "
    "--method all audits all methods except expensive ones. --method none audits only the file of --scores. "
    "Default: four methods of different kinds."
)
Methods = Annotated[list[str] | None, option("--method", metavar="METHOD", help=METHODS)]
METRICS = (
    "Metric to use (see heedful metrics). To use several, repeat the option or separate names by commas. "
    "Default: comprehensiveness and sufficiency."
)
Metrics = Annotated[list[str] | None, option("--metric", metavar="METRIC", help=METRICS)]
FULL = "Run all methods except expensive ones, use six metrics, and search for the best order of the words."
Full = Annotated[bool, option("--full", help=FULL)]
OPERATORS = (
    "How words are removed to test the methods: delete, mask, swap, unk, pad or mean. Parts of a picture: "
    "mean, blur, noise, inpaint, or pad (for patches of vision transformers). To give several, "
    "repeat the option or separate names by commas. --operators all uses each operator in turn. Default: two "
    "operators that the methods do not use for their scores."
)
Operators = Annotated[list[str] | None, option("--operators", metavar="HOW", help=OPERATORS)]
Draws = Annotated[int, option(min=2, help="Number of random orders of the words per text.")]
SCORES = (
    "Also audit scores from other tools. The file is JSONL. Each line has the fields text (or row), method, "
    "scores and fitted_by. The field fitted_by says how words were removed to make the scores."
)
Scores = Annotated[Path | None, option(metavar="FILE", help=SCORES)]
DECIDED = "Stop as soon as the verdict is certain enough (after 20 texts or more)."
UntilDecided = Annotated[bool, option("--until-decided", help=DECIDED)]
DRY = "Do not run the audit. Print only its cost and how small a difference it could detect."
DryRun = Annotated[bool, option("--dry-run", help=DRY)]
OUT = (
    "Save the run in this folder. To continue an interrupted run, run the same command again. By default, "
    "the run is not saved."
)
Out = Annotated[Path | None, o.written_folder(help=OUT)]
Limit = Annotated[int | None, option(min=1, metavar="N", help="Use N texts, drawn at random.")]
SHARD = "Number of texts that are saved together. An interrupted audit loses at most N texts."
ShardSize = Annotated[int, option("--shard", min=1, metavar="N", help=SHARD)]
WORKERS = (
    "Number of processes that share the texts. Default: one process per core with --engine ray or with a "
    "small model, otherwise one process."
)
Workers = Annotated[int | None, option(min=1, metavar="N", help=WORKERS)]
SHOWN_LABELS = 6
CSV = "Print the table as CSV: one line per metric, operator and method."


def audit(
    file: o.Inputs,
    model: o.Model = "zoo:sentiment",
    text_column: o.TextColumn = "text",
    path_column: o.PathColumn = None,
    label_column: o.LabelColumn = None,
    labels: o.Captions = None,
    rationale_column: o.RationaleColumn = None,
    mask_column: o.MaskColumn = None,
    boxes_column: o.BoxesColumn = None,
    full: Full = False,
    method: Methods = None,
    metric: Metrics = None,
    operators: Operators = None,
    scores: Scores = None,
    unit: o.Unit = "",
    seed: o.Seed = 0,
    draws: Draws = 20,
    long: o.SkipOrCut = "skip",
    out: Out = None,
    limit: Limit = None,
    until_decided: UntilDecided = False,
    dry_run: DryRun = False,
    shard: ShardSize = 32,
    engine: o.Engine = "local",
    address: o.Address = None,
    workers: Workers = None,
    keep_picture: o.KeepPicture = "png",
    html: o.Html = None,
    as_json: o.AsJson = False,
    as_csv: Annotated[bool, option("--csv", help=CSV)] = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Find out which explanation method to use. Each method names important words, or parts of a picture. The
    audit tests on many texts or pictures whether these parts really change the output.

    \b
    heedful audit reviews.csv --text-column review --out run/
    heedful audit reviews.jsonl --label-column label --full --limit 20
    heedful audit reviews.jsonl --method occlusion,lime,grad-l2 --limit 100
    heedful audit reviews.csv --until-decided --dry-run
    heedful audit reviews.csv --scores mine.jsonl --method none
    heedful audit reviews.parquet --operators all --metric aopc --json
    heedful audit reviews.csv --engine ray --workers 8
    heedful audit photos/ --model zoo:digits-vit --out run/
    heedful audit photos.csv --model zoo:digits-vit --metric pointing
    heedful audit scenes.csv --model zoo:tiny-clip --text-column caption

    By default the audit is quick: it runs four methods and two metrics. With a small model, a short text
    takes less than a second. --full takes several times as long. The audit prints its cost before it starts.
    Use 20 texts or more to compare methods.

    For a model of pictures, FILE is a folder, or a table with the columns path, label, and mask or boxes. The
    names of sub-folders are read as labels if the model has such labels. For a model such as CLIP, the table
    has the columns path and caption (or text). With --labels, such a model is a classifier of pictures.

    --out saves all scores (Parquet), the table (table.csv) and the report (report.html).
    """
    form(as_json, as_csv)
    silence_libraries()
    from heedful.io.datasets import Columns, open_source

    methods = _methods(method, scores)
    columns = Columns(text_column, label_column, rationale_column, path_column, mask_column, boxes_column)
    # mistakes in the file are reported before the model is loaded
    texts = open_source(file, columns=columns, limit=limit, modality=None)
    chosen: dict[str, Any] = {"methods": methods, "metrics": _names(metric), "operators": _names(operators)}
    chosen |= {"unit": unit, "seed": seed, "draws": draws, "long": long, "until_decided": until_decided}
    chosen |= {"scores": scores, "columns": columns, "limit": limit, "full": full, "keep": keep_picture}
    where = {"out": out, "engine": engine, "shard": shard, "address": address}
    with _resumable(out), progress_bar(f"loading {model}", quiet) as say:
        source = _source(model, engine, allow_pickle, labels)
        reads = texts.modality if isinstance(source, str) else source.modality
        if workers is None and engine == "local":
            workers = process_count(source)
        if dry_run:
            result = _estimated(source, file, {**chosen, "workers": workers})
        else:
            count = None if quiet else texts.count()
            lines = [] if quiet else _cost_lines(source, file, {**chosen, "workers": workers})
            lines += [] if quiet else _sub_folders(source, file)
            progress = _with_notes(_progress(say, reads), [*lines, *_too_few(count, reads)])
            result = _audited(source, file, {**chosen, **where, "workers": workers, "progress": progress})
    if dry_run:
        return put_json(result.to_dict()) if as_json else print(result)
    if not quiet and (methods == ["all"] or (full and methods is None)):
        print_stderr(_expensive(source))
    if html:
        write(html, result.page())
    if as_json:
        put_json({"run": None if out is None else str(out), **result.to_dict()})
    elif as_csv:
        print(result.to_csv(), end="")
    else:
        _show(result, verbose)
    say_written(out, html, quiet=quiet)
    if not (quiet or out or html):
        print_stderr("nothing was saved: --html FILE writes the report, --out FOLDER saves everything")
    reproduce(result.command, quiet)


def _methods(named: list[str] | None, scores: Path | None) -> list[str] | None:
    """Names; None: the default; []: none of ours, where scores from elsewhere are audited."""
    from heedful.core.errors import HeedfulError

    methods = _names(named)
    if methods != ["none"]:
        return methods
    if scores is None:
        raise HeedfulError("there is no method to audit", fix="Name methods, or give --scores FILE")
    return []


def _source(model: str, engine: str, allow_pickle: bool, labels: str | None = None) -> Any:
    """A name is loaded by each worker; what had to be trusted here, or has captions as labels, is sent to
    them as it is."""
    import heedful

    by_name = engine == "ray" and not allow_pickle and labels is None
    source: Any = model
    if not by_name:
        source = heedful.load(model, allow_pickle=allow_pickle, labels=captions(labels))
    fit_threads(source)
    return source


def _cost_lines(source: Any, file: Path, chosen: dict[str, Any]) -> list[str]:
    """What the audit costs, and that it is the quick one. Not for a cluster, whose workers load the model."""
    from heedful.audits.estimate import NothingToAuditError

    if isinstance(source, str):
        return []
    try:
        estimate = _estimated(source, file, chosen)
    except NothingToAuditError:
        return []
    if chosen["full"] or chosen["methods"] is not None:
        return [estimate.line]
    ours = ", ".join(estimate.methods)
    return [estimate.line, f"quick audit: {ours}; --full runs all methods and metrics"]


def _estimated(source: Any, file: Path, chosen: dict[str, Any]) -> Any:
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
    """After Ctrl-C, when the bar is gone, how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        if out is not None:
            print_stderr("stopped: run the same command again to resume")
        else:
            print_stderr("stopped: nothing is saved without --out FOLDER")
        raise


def _names(given: list[str] | None) -> list[str] | None:
    """Options that were repeated or joined by commas."""
    return [name.strip() for part in given for name in part.split(",") if name.strip()] if given else None


def _with_notes(progress: Report, notes: list[str]) -> Report:
    """Notes are printed as the work begins, when every option was found right."""

    def tell(step: Step) -> None:
        while notes:
            print_stderr(notes.pop(0))
        progress(step)

    return tell


def _sub_folders(source: Any, file: Path) -> list[str]:
    """That the names of sub-folders are read as labels."""
    from heedful.io.datasets.pictures import FolderSource

    if not file.is_dir() or isinstance(source, str):
        return []
    names = FolderSource(file, source.labels).labels
    return [f"labels: the names of the sub-folders ({', '.join(names[:SHOWN_LABELS])})"] if names else []


def _too_few(texts: int | None, modality: str) -> list[str]:
    from heedful.core.defaults import MIN_TEXTS
    from heedful.core.phrases import counted
    from heedful.modalities.kinds import noun_of

    if texts is None or texts >= MIN_TEXTS:
        return []
    few = f"{counted(texts, noun_of(modality))} {'is' if texts == 1 else 'are'}"
    return [f"{few} too few for a verdict: at least {MIN_TEXTS} are needed; scores are measured anyway"]


def _expensive(model: Model) -> str:
    """A line that names the methods that were not run because they are expensive."""
    from heedful.core import registry
    from heedful.core.phrases import EXPENSIVE, left_out

    expensive = [entry for entry in registry.explainers().values() if entry.expensive]
    known = not isinstance(model, str)  # a name is loaded by the workers alone
    return left_out({e.name: EXPENSIVE for e in expensive if not (known and model.lacks(e.needs))})


def _progress(say: Report, modality: str) -> Report:
    """Inputs done in this run, which set the pace; those of an earlier one are named."""
    from heedful.core.phrases import plural
    from heedful.modalities.kinds import noun_of

    say(Step(f"auditing {plural(noun_of(modality))}"))

    def progress(step: Step) -> None:
        before = f" ({step.resumed:,} were done earlier)" if step.resumed else ""
        left = max(0, step.total - step.resumed)
        say(Step(f"{step.method}{before}", done=step.done - step.resumed, total=left))

    return progress
