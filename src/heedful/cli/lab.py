"""`heedful lab`: experiments of the field that run in minutes and check their own claims."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from heedful.cli import options as o
from heedful.cli.io import calm, console, note, put_json, working, write

app = typer.Typer(rich_markup_mode=None)
Name = Annotated[str, o.argument(metavar="NAME", help="A name of heedful lab list.")]
Fast = Annotated[bool, o.option("--fast", help="A smaller run, within a minute.")]
Out = Annotated[Path | None, o.option(metavar="FOLDER", help="For the report, its numbers and its figures.")]


@app.callback()
def start() -> None:
    """Experiments and theorems of the field, run in minutes: see them hold, or fail.

    \b
    heedful lab list
    heedful lab run superposition --fast
    """


@app.command("list")
def show(as_json: o.AsJson = False) -> None:
    """List the labs, and about how long each takes.

    \b
    heedful lab list
    heedful lab list --json
    """
    from heedful.labs.frame import labs

    found = labs().values()
    if as_json:
        put_json([{name: fact for name, fact in asdict(each).items() if name != "module"} for each in found])
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("name", "minutes", "what it shows", "after"):
        table.add_column(head, justify="right" if head == "minutes" else "left", no_wrap=head == "name")
    for each in found:
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
    quiet: o.Quiet = False,
) -> None:
    """Run a lab. Exit code 1 when one of its claims fails.

    \b
    heedful lab run superposition --fast
    heedful lab run superposition --fast --seed 1 --out lab/ --html lab.html
    heedful lab run superposition --fast --json

    Another seed changes the digits and not the conclusions; where it does, that is a finding.
    """
    calm()
    from heedful.labs.frame import run_lab
    from heedful.view import lab_page, lab_terminal

    with working(f"lab {name}", quiet) as say:
        report = run_lab(name, fast=fast, seed=seed, out=out, progress=say)
    if html:
        write(html, lab_page.page(report))
    if as_json:
        put_json(report.to_dict())
    else:
        lab_terminal.show(report, console())
    if not quiet:
        for written in (out, html):
            if written:
                note(f"wrote {written}")
    if not report.holds:
        raise typer.Exit(1)
