"""`heedful features`: a model's activations and what is made of them. Heavy imports wait until it runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from heedful.cli import options as o
from heedful.cli.commands.features_measure import compare, measure, split
from heedful.cli.commands.features_probe import probe
from heedful.cli.commands.features_read import interpret, page
from heedful.cli.commands.features_train import train
from heedful.cli.console import (
    console,
    print_stderr,
    progress_bar,
    put_json,
    say_written,
    silence_libraries,
)
from heedful.core.numbers import duration

option, argument = typer.Option, typer.Argument
HELP = """Train sparse autoencoders (SAEs) and read their features.

    \b
    heedful features sites zoo:lm
    heedful features harvest speeches.txt --site blocks.2.resid --out acts/
    heedful features train acts/ --width 4096 --kind topk --k 32 --out sae/
    heedful features page sae/ speeches.txt --choose random:10 --html page.html

    Do these steps in this order. First find a site. Then store the activations of the site. Then train an SAE
    on the activations. Then look at the features of the SAE.
"""
app = typer.Typer(help=HELP)

File = Annotated[
    Path, argument(metavar="FILE", help="File with the texts: .txt, .csv, .tsv, .jsonl or .parquet.")
]
SITE = "Site to read: a place in the model. The command heedful features sites MODEL lists all sites."
Site = Annotated[str, option(metavar="SITE", help=SITE)]
Out = Annotated[Path, o.written_folder(help="Folder for the activations.")]
Rows = Annotated[
    int | None,
    option(min=1, metavar="N", help="Stop after N activations (one per token). Default: read all texts."),
]
PACK = (
    "Join texts to fill each model input (--pack), or keep texts apart. Default: --pack for causal language "
    "models, --apart for other models."
)
Pack = Annotated[bool | None, option("--pack/--apart", help=PACK)]
BatchTokens = Annotated[
    int | None, option(min=1, metavar="N", help="Number of tokens per forward pass. Default: 4096.")
]
Dtype = Annotated[Literal["float32", "float16"], option(help="Number format of the stored activations.")]
SHARD = "Number of activations per file. Default: 65,536, or fewer if the file would exceed 64 MB."
ShardRows = Annotated[int | None, option(min=1, metavar="N", help=SHARD)]
Special = Annotated[bool, option("--special", help="Also store activations of special tokens.")]


def harvest(
    file: File,
    site: Site,
    out: Out,
    model: o.Model = "zoo:lm",
    rows: Rows = None,
    context: o.Context = None,
    pack: Pack = None,
    batch_tokens: BatchTokens = None,
    dtype: Dtype = "float32",
    shard_rows: ShardRows = None,
    seed: o.Seed = 0,
    special: Special = False,
    text_column: o.TextColumn = "text",
    engine: o.Engine = "local",
    address: o.Address = None,
    workers: o.Workers = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Store the activations of one layer on many texts.

    The activations are stored in random order. If the command is interrupted, run it again to continue.

    \b
    heedful features harvest speeches.txt --site blocks.2.resid --out acts/
    heedful features harvest reviews.csv -m zoo:sentiment --site embed --out a/
    heedful features harvest a.parquet --site blocks.2.resid --engine ray --out a/

    Each stored number takes 4 bytes. For a model with 384 dimensions, a million tokens take about 1.5 GB.
    """
    silence_libraries()
    import heedful
    from heedful.features.activations.windows import open_texts

    open_texts(file, text_column)  # its mistakes are told before the model is loaded
    with progress_bar(f"loading {model}", quiet) as say:
        # a name is loaded by each worker; what had to be trusted here is sent to them as it is
        by_name = engine == "ray" and not allow_pickle
        source: Any = model if by_name else heedful.load(model, allow_pickle=allow_pickle)
        started = time.monotonic()
        acts = heedful.harvest(
            source,
            file,
            site,
            out,
            rows=rows,
            context=context,
            pack=pack,
            batch_tokens=batch_tokens,
            dtype=dtype,
            shard_rows=shard_rows,
            seed=seed,
            skip_special=not special,
            text_column=text_column,
            engine=engine,
            address=address,
            workers=workers,
            progress=say,
        )
    say_written(out, quiet=quiet)
    if as_json:
        put_json({"folder": str(out), **acts.facts.to_dict()})
        return
    size = f"({acts.d},) {dtype}, E‖x‖² {acts.mean_square_norm:.4g}"
    print(f"{acts.rows:,} activations of {site} in {out}: {size}")
    if not quiet:
        for why, count in acts.facts.skipped.items():
            print_stderr(f"skipped: {why} ({count:,} times)")
        print_stderr(f"in {duration(time.monotonic() - started)}")


def sites(model: o.ModelName, as_json: o.AsJson = False, allow_pickle: o.Pickle = False) -> None:
    """List the sites of a model. Activations can be read at sites.

    \b
    heedful features sites zoo:lm
    """
    silence_libraries()
    import heedful
    from heedful.models.sites.access import sites as find

    with progress_bar(f"loading {model}"):
        result = find(heedful.load(model, allow_pickle=allow_pickle))
    if as_json:
        places = [
            {
                "site": p.site,
                "width": p.width,
                "module": p.path,
                "end": "input" if p.taken else "output",
                "normed": p.normed,
            }
            for p in result.places.values()
        ]
        put_json({"model": model, "sites": places, "missing": result.missing})
        return
    from rich.table import Table

    table = Table("site", "width", "module", box=None, pad_edge=False)
    for place in result.places.values():
        how = "into " if place.taken else ""
        table.add_row(
            place.site, f"{place.width:,}", how + place.path + (", before a norm" if place.normed else "")
        )
    console().print(table)
    for site, why in result.missing.items():
        print_stderr(f"{site} is not available: {why}")


# in the order of the work
for command in (sites, harvest, train, page, interpret, measure, probe, split, compare):
    app.command()(command)
