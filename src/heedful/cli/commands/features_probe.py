"""`heedful features probe`: can a label be read from a few features?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from heedful.cli import options as o
from heedful.cli.commands.features_measure import Rows, Sae, Site
from heedful.cli.console import console, progress_bar, put_json, silence_libraries
from heedful.core.errors import HeedfulError
from heedful.core.progress import Step
from heedful.core.whole_numbers import whole_number

File = Annotated[
    Path, o.argument(metavar="FILE", help="File with texts and labels: .csv, .tsv, .jsonl or .parquet.")
]
LabelColumn = Annotated[str, o.option(metavar="NAME", help="Column with the true labels.")]
KS = "Number of features that the classifier may use. Separate several numbers by commas."
Ks = Annotated[str, o.option("-k", "--k", metavar="N,N", help=KS)]


def probe(
    sae: Sae,
    texts: File,
    model: o.Model = "zoo:lm",
    k: Ks = "1,2,5",
    site: Site = None,
    rows: Rows = None,
    context: o.Context = None,
    text_column: o.TextColumn = "text",
    label_column: LabelColumn = "label",
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Test how well a few features predict a label.

    The features are chosen on one part of the texts and tested on another part. There are four controls: the
    same number of random features, the same number of coordinates of the activations, all coordinates of the
    activations, and the most frequent label.

    \b
    heedful features probe zoo:lm reviews.csv
    heedful features probe sae/ reviews.csv -m zoo:sentiment -k 1,5,20 --json
    """
    silence_libraries()
    import heedful
    from heedful.features.measures.probing import probe as run

    counts = _counts(k)
    loaded_sae = heedful.SAE.load(sae)
    with progress_bar(f"loading {model}", quiet) as say:
        loaded = heedful.load(model, allow_pickle=allow_pickle)
        say(Step("reading texts"))
        result = run(
            loaded_sae,
            loaded,
            texts,
            site=site,
            ks=counts,
            seed=seed,
            rows=rows,
            context=context,
            text_column=text_column,
            label_column=label_column,
        )
    if as_json:
        put_json({"sae": str(sae), **result.to_dict()})
    else:
        _show(result)


def _counts(words: str) -> tuple[int, ...]:
    numbers = tuple(number for word in words.split(",") if (number := whole_number(word)))
    if len(numbers) != len(words.split(",")):
        raise HeedfulError(f"-k {words}: not numbers of features", fix="For example: -k 1,2,5")
    return numbers


def _show(found: Any) -> None:
    from rich.table import Table

    from heedful.reports.measured import ranged

    out = console()
    out.print(f"{found.texts:,} texts, {len(found.labels)} labels: {', '.join(found.labels)}")
    table = Table(box=None, pad_edge=False)
    table.add_column("read from", no_wrap=True)
    for name in ("accuracy (95 %)", *found.controls, "chosen"):
        table.add_column(name)
    for k, figure in found.features.items():
        beside = [ranged(found.controls[name][k], True) for name in found.controls]
        name = f"{k} feature{'s' if k > 1 else ''}"
        table.add_row(name, ranged(figure, True), *beside, "; ".join(map(_names, found.chosen[k])))
    for name, figure in found.whole.items():
        table.add_row(name, ranged(figure, True))
    out.print(table)
    for line in found.notes:
        out.print(line)


def _names(features: list[int]) -> str:
    return ", ".join(f"#{index}" for index in features)
