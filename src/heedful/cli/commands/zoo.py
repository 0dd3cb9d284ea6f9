"""`heedful zoo`: the models that come with heedful, and real ones that are pulled once and kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from heedful.cli import options as o
from heedful.cli.console import console, print_stderr, put_json
from heedful.core.errors import HeedfulError

app = typer.Typer(rich_markup_mode=None)


@app.callback()
def start() -> None:
    """List and download example models.

    Some small models are part of heedful. Other models are downloaded once and then kept on this machine.

    \b
    heedful zoo list
    heedful zoo card sentiment
    heedful zoo pull minilm
    """


@app.command("list")
def show(as_json: o.AsJson = False) -> None:
    """List the models, and show which of them are on this machine.

    \b
    heedful zoo list
    heedful zoo list --json
    """
    from heedful.models.zoo import resolve

    rows: list[dict[str, Any]] = []
    for entry in resolve.entries():
        here = resolve.pulled(entry.name)
        where = ("in heedful" if here else "missing") if entry.embedded else "pulled" if here else "to pull"
        rows.append({**asdict(entry), "here": here, "where": where})
    if as_json:
        put_json(rows)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("name", "kind", "size", "where", "what it is"):
        table.add_column(head, justify="right" if head == "size" else "left", no_wrap=head != "what it is")
    for row in rows:
        size = f"{row['size'] / 1e6:.1f} MB" if row["size"] else "–"
        what = row["description"] + (f"; SAE: {row['dictionary']}" if row["dictionary"] else "")
        table.add_row(*map(Text, (f"zoo:{row['name']}", row["kind"], size, row["where"], what)))
    console().print(table)


@app.command()
def pull(
    names: o.ZooNames = None, every: o.ZooAll = False, force: o.Force = False, as_json: o.AsJson = False
) -> None:
    """Download a model and check its checksum.

    The command repairs a damaged download. It must convert some models, and for this it needs an extra
    package. If the package is missing, the command says so before it starts.

    \b
    heedful zoo pull minilm
    heedful zoo pull --all
    """
    from heedful.models.zoo import resolve

    wanted = [entry.name for entry in resolve.entries()] if every else list(names or [])
    if not wanted:
        raise HeedfulError("no model was named", fix="Give a name from heedful zoo list, or --all")
    resolve.require_packages(wanted, force=force)
    folders = {
        name.removeprefix("zoo:"): str(resolve.pull(name, force=force, progress=print_stderr))
        for name in wanted
    }
    if as_json:
        put_json(folders)


@app.command()
def card(name: o.ZooName, as_json: o.AsJson = False) -> None:
    """Print a model's card: source, licence, measurements, limits.

    \b
    heedful zoo card sentiment
    """
    from heedful.models.zoo import resolve

    text = resolve.card(name)
    if as_json:
        put_json({"name": name.removeprefix("zoo:"), "card": text})
    else:
        print(text)


@app.command()
def path(name: o.ZooName, as_json: o.AsJson = False) -> None:
    """Print the folder of a model.

    \b
    heedful zoo path sentiment
    """
    from heedful.models.zoo import resolve

    folder = str(resolve.path(name))
    if as_json:
        put_json({"name": name.removeprefix("zoo:"), "path": folder})
    else:
        print(folder)
