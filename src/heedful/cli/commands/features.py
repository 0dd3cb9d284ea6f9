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
    silence_libraries,
)
from heedful.core.numbers import duration

option, argument = typer.Option, typer.Argument
HELP = """Features of a model's activations: harvest them, train dictionaries, read them.

    \b
    heedful features sites zoo:lm
    heedful features harvest speeches.txt --model zoo:lm --site blocks.2.resid --out acts/
    heedful features train acts/ --width 4096 --kind topk --k 32 --out sae/
    heedful features page sae/ speeches.txt --model zoo:lm --choose random:10 --html page.html
"""
app = typer.Typer(help=HELP)
app.command()(train)
app.command()(page)
app.command()(interpret)
app.command()(measure)
app.command()(split)
app.command()(compare)
app.command()(probe)

File = Annotated[Path, argument(metavar="FILE", help="Texts: .txt, .csv, .tsv, .jsonl or .parquet.")]
Site = Annotated[str, option(metavar="SITE", help="Where; see: heedful features sites MODEL.")]
Out = Annotated[Path, option(metavar="FOLDER", help="The store; a harvest that was stopped there goes on.")]
Rows = Annotated[int | None, option(min=1, metavar="N", help="Stop after N activations. Default: all texts.")]
PACK = "Fill windows with texts one after the other. Default: for causal language models."
Pack = Annotated[bool | None, option("--pack/--apart", help=PACK)]
BatchTokens = Annotated[int | None, option(min=1, metavar="N", help="Tokens in one pass. Default: 4096.")]
Dtype = Annotated[Literal["float32", "float16"], option(help="Storage dtype.")]
SHARD = "Activations a file. Default: 65,536, or 64 MB if that is less."
ShardRows = Annotated[int | None, option(min=1, metavar="N", help=SHARD)]
Special = Annotated[bool, option("--special", help="Store special tokens, too.")]


@app.command()
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
    """Store a site's activations over many texts, shuffled; killed and started again, it goes on.

    \b
    heedful features harvest speeches.txt --model zoo:lm --site blocks.2.resid --out acts/
    heedful features harvest reviews.csv --model zoo:sentiment --site blocks.3.mlp --out acts/
    heedful features harvest corpus.parquet --site blocks.2.resid --rows 2000000 --engine ray --out acts/
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
    if as_json:
        put_json({"folder": str(out), **acts.facts.to_dict()})
        return
    for why, count in acts.facts.skipped.items():
        print_stderr(f"left out: {why} ({count:,} times)")
    size = f"({acts.d},) {dtype}, E‖x‖² {acts.mean_square_norm:.4g}"
    print(f"{acts.rows:,} activations of {site} in {out}: {size}")
    print_stderr(f"in {duration(time.monotonic() - started)}")


@app.command()
def sites(model: o.ModelName, as_json: o.AsJson = False, allow_pickle: o.Pickle = False) -> None:
    """List the places of a model whose activations can be read and changed.

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
        print_stderr(f"{site} cannot be told: {why}")
