"""`heedful features measure`, `split` and `compare`: numbers about SAEs, each with its controls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from heedful.cli import options as o
from heedful.cli.commands.features_texts import TextsOrZoo, texts_for
from heedful.cli.console import (
    console,
    print_stderr,
    progress_bar,
    put_document,
    put_json,
    say_written,
    silence_libraries,
    write,
)
from heedful.core.errors import HeedfulError
from heedful.core.numbers import percent

SAE_HELP = "A folder that heedful features train wrote, or zoo:lm."
Sae = Annotated[Path, o.argument(metavar="SAE", help=SAE_HELP)]
Other = Annotated[Path, o.argument(metavar="OTHER", help="The second SAE.")]
Saes = Annotated[
    list[Path],
    o.argument(metavar="SAE...", help="Two or more SAE folders, sorted from few to many features."),
]
SITE = "Site to read: a place in the model. Default: the site where the SAE was trained."
Site = Annotated[str | None, o.option(metavar="SITE", help=SITE)]
Rows = Annotated[
    int | None, o.option(min=1, metavar="N", help="Stop after about N tokens. Default: read all texts.")
]
LABEL = "Column with the true labels, for classifiers. Default: the model's own predictions."
LabelColumn = Annotated[str | None, o.option(metavar="NAME", help=LABEL)]
SEEDS = "Another SAE that differs only in its seed. It shows how much the seed matters. Repeatable."
Seeds = Annotated[list[Path] | None, o.option("--reseed", metavar="SAE", help=SEEDS)]
ALIKE = "Link two features if the cosine of their decoder vectors is at least this value."
Alike = Annotated[float, o.option(metavar="COSINE", help=ALIKE)]
Trees = Annotated[int, o.option(min=1, metavar="N", help="Draw the N largest trees of linked features.")]
OTHER_MODEL = "Model of the second SAE. Default: the model of the first SAE."
OtherModel = Annotated[str | None, o.option(metavar="MODEL", help=OTHER_MODEL)]
NEURONS = "Also compare the neurons of these two sites. Default: the neurons of the MLPs."
Neurons = Annotated[str | None, o.option(metavar="SITE,SITE", help=NEURONS)]
SHARES = ("explained", "dead", "dense")
LEGEND = {
    "l0": "features above zero a token, mean",
    "explained": "share of the variance of the activations that the dictionary gives back",
    "dead": "features that never fire on the {tokens:,} tokens read: with more tokens there are fewer",
    "dense": "features that fire on more than {dense} of the tokens",
    "activation": "mean length of what a firing feature adds, in the model's units",
    "size": "these lengths summed over a token, as a multiple of the token's own length",
    "recovered (zero)": "of the loss it costs to set the activations to zero, what the dictionary gives back",
    "recovered (mean)": "the same with the activations set to their mean, a harder standard",
}


def measure(
    sae: Sae,
    texts: TextsOrZoo = None,
    model: o.Model = "zoo:lm",
    site: Site = None,
    reseed: Seeds = None,
    rows: Rows = None,
    context: o.Context = None,
    text_column: o.TextColumn = "text",
    label_column: LabelColumn = None,
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Measure the quality of an SAE.

    The command reports the sparsity and the explained variance. It also replaces the activations of the model
    by the output of the SAE, and reports how much worse the model gets.

    \b
    heedful features measure zoo:lm
    heedful features measure sae/ held-out.txt --model zoo:lm
    heedful features measure sae/ texts.csv -m zoo:sentiment --label-column label
    heedful features measure sae-0/ held-out.txt --reseed sae-1/ --reseed sae-2/
    """
    silence_libraries()
    import heedful
    from heedful.features.activations.eval_windows import corpus
    from heedful.features.measures.quality import measure as run
    from heedful.features.measures.quality import noise
    from heedful.models.load import load_token_model

    saes = [heedful.SAE.load(folder) for folder in (sae, *(reseed or []))]
    file = texts_for(texts, sae)
    with progress_bar(f"loading {model}", quiet) as say:
        loaded = load_token_model(model, "a measure of features", allow_pickle=allow_pickle)
        windows_read = corpus(
            loaded, file, context=context, rows=rows, text_column=text_column, label_column=label_column
        )
        every = [run(one, loaded, windows_read, site=site, seed=seed, progress=say) for one in saes]
    names = every[0].figures
    noises = {name: noise([one[name] for one in every]) for name in names} if len(every) > 1 else {}
    if as_json:
        document = {"sae": str(sae), **every[0].to_dict()}
        if noises:
            document["seeds"] = {name: one.to_dict() for name, one in noises.items()}
        put_json(document)
        return
    _show(every[0], noises)


def _show(found: Any, noises: dict[str, Any]) -> None:
    from rich.table import Table

    from heedful.reports.measured import ranged, shown

    about, out = found.about, console()
    out.print(
        f"{about['width']:,} features ({about['kind']}) of {about['site']}, {about['model']}: "
        f"{about['tokens']:,} tokens in {about['windows']:,} windows"
    )
    controls = list(found.controls)
    heads = ["", "value (95 %)", *controls, *(["over seeds (sd)"] if noises else [])]
    table = Table(*heads, box=None, pad_edge=False)
    for name, figure in found.figures.items():
        share = name in SHARES or name.startswith("recovered")
        show = shown(share)
        beside = [show(found.controls[c][name]) if name in found.controls[c] else "" for c in controls]
        over = noises.get(name)
        last = [f"{show(over.mean)} ({show(over.sd)})"] if over else []
        table.add_row(name, ranged(figure, share), *beside, *last)
    out.print(table)
    if found.loss:
        text = ", ".join(f"{name} {value:.3f}" for name, value in found.loss.items() if name != "identity")
        out.print(f"-log p of {about['loss of']}, nats: {text}")
    for line in found.notes:
        out.print(line)
    legend = Table.grid(padding=(0, 2, 0, 0))
    for name in found.figures:
        legend.add_row(name, LEGEND[name].format(**about, dense=percent(about["dense above"])), style="dim")
    out.print()
    out.print(legend)


def split(
    saes: Saes,
    alike: Alike = 0.5,
    html: o.Html = None,
    trees: Trees = 12,
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
    verbose: o.Verbose = False,
) -> None:
    """Show how features split into finer features in wider SAEs.

    Two features are linked if the cosine of their decoder vectors is high.

    \b
    heedful features split sae-512/ sae-2048/ sae-8192/ --html split.html
    """
    silence_libraries()
    import heedful
    from heedful.features.measures.splitting import split as run

    result = run([heedful.SAE.load(folder) for folder in saes], alike, seed)
    from heedful.reports.splitting import document

    shown = document(result, [str(folder) for folder in saes], trees)
    if html:
        from heedful.reports.html import page

        write(html, page(shown))
        say_written(None, html)
    if as_json:
        put_json({"saes": [str(folder) for folder in saes], **result.to_dict(trees)})
        return
    put_document(shown, verbose)


def compare(
    sae: Sae,
    other: Other,
    texts: TextsOrZoo = None,
    model: o.Model = "zoo:lm",
    other_model: OtherModel = None,
    neurons: Neurons = None,
    rows: Rows = None,
    context: o.Context = None,
    text_column: o.TextColumn = "text",
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Test whether two SAEs find the same features.

    Each feature is compared with all features of the other SAE, on the same tokens. For each feature, the
    command reports the highest correlation.

    \b
    heedful features compare sae-seed0/ sae-seed1/ held-out.txt --model zoo:lm
    """
    silence_libraries()
    import heedful
    from heedful.features.measures.universality import ModelSAE
    from heedful.features.measures.universality import compare as run

    first, second = heedful.SAE.load(sae), heedful.SAE.load(other)
    file = texts_for(texts, sae)
    units = tuple(neurons.split(",")) if neurons else None
    if units is not None and len(units) != 2:
        raise HeedfulError("--neurons takes two sites", fix="--neurons blocks.0.neurons,blocks.1.neurons")
    from heedful.models.load import load_token_model

    with progress_bar(f"loading {model}", quiet) as say:
        loaded = load_token_model(model, allow_pickle=allow_pickle)
        beside = load_token_model(other_model, allow_pickle=allow_pickle) if other_model else loaded
        result = run(
            ModelSAE(first, loaded),
            ModelSAE(second, beside),
            file,
            neurons=units,
            seed=seed,
            progress=say,
            context=context,
            rows=rows,
            text_column=text_column,
        )
    if as_json:
        put_json({"saes": [str(sae), str(other)], **result.to_dict()})
        return
    from rich.table import Table

    from heedful.reports.measured import ranged

    table = Table("", "median of the best correlation (95 %)", box=None, pad_edge=False)
    for name, figure in result.figures.items():
        table.add_row(name, ranged(figure))
    console().print(table)
    if units := result.about["neurons"]:
        print_stderr(f"neurons: {units[0]} against {units[1]}")
    for line in result.notes:
        print_stderr(line)
