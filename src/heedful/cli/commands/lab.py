"""`heedful lab`: experiments of the field that run in minutes and check their own claims."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heedful.cli import options as o
from heedful.cli.console import (
    console,
    print_stderr,
    progress_bar,
    put_json,
    say_written,
    silence_libraries,
    write,
)
from heedful.core.defaults import HOST, STUDY_PORT
from heedful.core.errors import HeedfulError

if TYPE_CHECKING:
    from heedful.labs.human_study.answers import AnswerFile

app = typer.Typer(rich_markup_mode=None)
NAME = "A name that the command heedful lab list prints."
Name = Annotated[str, o.argument(metavar="NAME", help=NAME)]
Fast = Annotated[bool, o.option("--fast", help="Run a smaller version. It takes at most about a minute.")]
Port = Annotated[int, o.option(min=0, max=65535, help="Port of the web page. 0 means any free port.")]
Database = Annotated[Path, o.written_file(help="SQLite file for the answers.")]
RESULTS = "Print the answers that were given so far. Do not start the page."
Results = Annotated[bool, o.option("--results", help=RESULTS)]
Out = Annotated[Path | None, o.written_folder(help="Save the report, its numbers and figures here.")]


@app.callback()
def start() -> None:
    """Check the claims of published experiments and theorems.

    \b
    heedful lab list
    heedful lab run superposition --fast
    """


@app.command("list")
def show(as_json: o.AsJson = False) -> None:
    """List the labs and the minutes that each lab takes.

    \b
    heedful lab list
    heedful lab list --json
    """
    from heedful.labs.base.registry import labs

    values = labs().values()
    if as_json:
        put_json([{name: fact for name, fact in asdict(each).items() if name != "module"} for each in values])
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("name", "minutes", "what it shows", "after"):
        table.add_column(head, justify="right" if head == "minutes" else "left", no_wrap=head == "name")
    for each in values:
        table.add_row(*map(Text, (each.name, f"{each.minutes:g}", each.title, each.cite)))
    console().print(table)


@app.command()
def run(
    name: Name,
    fast: Fast = False,
    seed: o.Seed = 0,
    out: Out = None,
    html: o.Html = None,
    as_json: o.AsJson = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
) -> None:
    """Run a lab and check its claims. The exit code is 1 if a claim fails.

    \b
    heedful lab run superposition --fast
    heedful lab run superposition --fast --seed 1 --out lab/ --html a.html
    heedful lab run superposition --fast --json

    Each lab takes some minutes. The command heedful lab list shows how many. Another seed gives slightly
    different numbers. The page docs/labs/index.md says how often another seed changes a conclusion.
    """
    silence_libraries()
    from heedful.labs.base.registry import run_lab
    from heedful.reports import terminal

    with progress_bar(f"lab {name}", quiet) as say:
        report = run_lab(name, fast=fast, seed=seed, out=out, progress=say)
    if html:
        write(html, report.page())
    if as_json:
        put_json(report.to_dict())
    else:
        terminal.show(report.document(), console(), verbose, more=o.MORE)
    say_written(out, html, quiet=quiet)
    if not report.holds:
        raise typer.Exit(1)


@app.command()
def study(
    name: Name,
    database: Database,
    port: Port = STUDY_PORT,
    seed: o.Seed = 0,
    results: Results = False,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Run a lab's test with people, on a web page.

    \b
    heedful lab study choose-the-classifier --database answers.sqlite
    heedful lab study choose-the-classifier --database answers.sqlite --port 0
    heedful lab study choose-the-classifier --database answers.sqlite --results

    Only this machine can open the page. The page works without JavaScript and does not ask for names. Ctrl-C
    stops the server. The answers are kept.
    """
    silence_libraries()
    answers = _answers(name, database, seed, results)
    if results:
        _tell(answers, as_json)
        return
    try:
        from heedful.labs.human_study import server as page
    except ModuleNotFoundError as error:
        raise HeedfulError(
            "the web page of a study needs FastAPI and uvicorn",
            f"no module {error.name}",
            'Type: pip install "heedful[serve]"',
        ) from None
    with page.listen(port) as at:
        with progress_bar(f"study {name}", quiet) as say:
            rounds = page.material(seed, say)
        print_stderr(f"http://{HOST}:{at.getsockname()[1]}/  answers go to {answers.path}  (Ctrl-C stops it)")
        page.serve(page.application(rounds, answers), at)


def _answers(name: str, path: Path, seed: int, results: bool) -> AnswerFile:
    from heedful.labs.human_study.answers import STUDIES, AnswerFile

    if name not in STUDIES:
        raise HeedfulError(f"the lab {name!r} has no study", fix=f"These have one: {', '.join(STUDIES)}")
    if results and not path.is_file():
        raise HeedfulError(f"there are no answers in {path}", fix="Run the study first, without --results")
    return AnswerFile(path, f"{name}, seed {seed}")


def _tell(answers: AnswerFile, as_json: bool) -> None:
    shares = answers.shares()
    if as_json:
        put_json([asdict(each) for each in shares])
        return
    for each in shares:
        text, (low, high) = "no answers yet", each.interval
        if each.share is not None:
            text = f"{each.share:.2f} ({low:.2f} to {high:.2f}), {each.right} of {each.rounds} rounds right"
        print(f"{each.sees:<14} {text}, people: {each.people}")
