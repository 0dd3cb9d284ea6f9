"""`heedful attention`: what every head looks at. Heavy imports wait until it runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from heedful.cli import options as o
from heedful.cli.commands import heads_ablation
from heedful.cli.console import (
    captions,
    check_save,
    form,
    print_stderr,
    progress_bar,
    put_document,
    put_json,
    read_input,
    refuse_both,
    say_written,
    silence_libraries,
    write,
)
from heedful.cli.picture_header import check_picture
from heedful.core.errors import HeedfulError

if TYPE_CHECKING:
    from heedful.core.arrays import Floats
    from heedful.heads.ablation.ablate_text import AblationResult
    from heedful.heads.atlas import Atlas
    from heedful.heads.top_links import Link

option = typer.Option
TARGET = "With --aggregate gradient: use gradients of this label, index or token. Default: the prediction."
Target = Annotated[str | None, option(metavar="LABEL", help=TARGET)]
CAPTION = "An atlas shows one encoder: give captions with --labels instead."
Caption = Annotated[str | None, option("--text", metavar="TEXT", help=CAPTION, hidden=True)]
ANSWER = "For models that generate text: read this continuation, not the model's own continuation."
Answer = Annotated[str | None, option(metavar="TEXT", help=ANSWER)]
Unit = Annotated[Literal["word", "token"], option(help="Show attention between words, or between tokens.")]
STACK = (
    "For encoder-decoders: show attention in the encoder (self), in the decoder (decoder), or from the "
    "decoder to the text (cross)."
)
Stack = Annotated[Literal["self", "decoder", "cross"], option(help=STACK)]
Layer = Annotated[int | None, option(metavar="N", min=0, help="Show one layer, counted from 0.")]
Head = Annotated[
    int | None, option(metavar="N", min=0, help="With --layer: show the strongest links of one head.")
]
HOW = "How heads and layers are combined into one map."
Hows = Literal["mean", "max", "rollout", "flow", "gradient"]
Aggregate = Annotated[Hows, option("--aggregate", help=HOW)]
Links = Annotated[int, option(metavar="N", min=1, help="Number of links (pairs of words) to show.")]
FIGURE = "Draw a figure of all heads, or of the chosen head. The name ends in .png or .svg."
Figure = Annotated[Path | None, o.written_file(help=FIGURE)]
VIEW = (
    "With --figure: draw all heads (grid), one head as a matrix (matrix), one head as lines (head), or a map "
    "of similar heads (layout)."
)
Views = Literal["grid", "matrix", "head", "layout"]
View = Annotated[Views | None, option("--view", help=VIEW)]
ABLATE = (
    "Switch off these heads, separated by commas: 2.3 (layer 2, head 3, both counted from 0), 3.* (all heads "
    "of layer 3), cross:1.0 (cross-attention) or all."
)
Ablate = Annotated[str | None, option("--ablate", metavar="HEADS", help=ABLATE)]
REMOVE = "With --ablate: set a head's output to 0, or to its mean over the text, or use uniform attention."
Remove = Annotated[Literal["zero", "mean", "uniform"], option("--how", help=REMOVE)]
Weights = Annotated[bool, option("--weights", help="With --json or --csv: also print all attention weights.")]
CSV = "Print CSV: one line per head. With --weights: one line per weight."
AsCsv = Annotated[bool, option("--csv", help=CSV)]
Long = Annotated[
    Literal["error", "truncate"],
    option(help="What to do if the text is longer than the model can read: stop, or cut it."),
]


def attention(
    text: o.Text = None,
    model: o.Model = "zoo:sentiment",
    pair: o.Pair = None,
    chat: o.Chat = None,
    caption: Caption = None,
    labels: o.Captions = None,
    target: Target = None,
    answer: Answer = None,
    unit: Unit = "word",
    stack: Stack = "self",
    layer: Layer = None,
    head: Head = None,
    how: Aggregate = "mean",
    links: Links = 10,
    ablate: Ablate = None,
    remove: Remove = "zero",
    long: Long = "error",
    html: o.Html = None,
    figure: Figure = None,
    view: View = None,
    save: o.Save = None,
    keep_picture: o.KeepPicture = "png",
    weights: Weights = False,
    as_json: o.AsJson = False,
    as_csv: AsCsv = False,
    verbose: o.Verbose = False,
    quiet: o.Quiet = False,
    allow_pickle: o.Pickle = False,
) -> None:
    """Show the type of each attention head and what it looks at.

    \b
    heedful attention "the service is not bad"
    heedful attention "the service is not bad" --html heads.html
    heedful attention "the service is not bad" --layer 1 --head 0
    heedful attention "not bad" --aggregate rollout --figure heads.png
    heedful attention "not bad" --figure heads.svg --view layout
    heedful attention "Once upon a time" --model zoo:lm --unit token --json
    heedful attention "Read it." -m zoo:titler --stack cross --answer "Reading"
    heedful attention "not bad" --ablate 0.1,1.* --how uniform
    heedful attention seven.png --model zoo:digits-vit --html heads.html
    heedful attention scene.png -m zoo:tiny-clip --labels "a red ring,a blue star"

    A letter shows the type of a head. The type says what the head looks at: P previous (word), N next (word),
    S self (the word itself), F first (position), D delimiter (special tokens except the first), . period
    (punctuation), V vertical (one other word), B block (the same text of a pair), ~ broad (many words),
    - heterogeneous (none of these).

    A high weight shows where a head looks. It does not show what the model uses. To find out what the model
    uses, see heedful explain and heedful trial.
    """
    shape, look = form(as_json, as_csv), AttentionView(stack, layer, head, how, links)
    look.check(figure, view)
    check_save(save, "attention")
    refuse_both(caption, labels)
    results = read_input(text, pair, chat)
    silence_libraries()
    check_picture(model, results)
    import heedful
    from heedful.cli.run_explain import input_for, with_caption
    from heedful.heads.atlas import refuse_two_encoders

    with progress_bar(f"loading {model}", quiet):
        loaded = heedful.load(model, allow_pickle=allow_pickle, labels=captions(labels))
        refuse_two_encoders(loaded)
        with_caption(loaded, results, caption)
        results = input_for(loaded, results) if isinstance(results, bytes) else results
        wanted = how == "gradient" or target is not None
        gone, removed = heads_ablation.removing(loaded, results, ablate, remove, long, answer)
        with removed:
            tokens = heedful.attention(loaded, results, target, answer=answer, gradients=wanted, long=long)
        if ablate is not None:
            result = f"without the heads {ablate} (replaced by: {remove}); shown are their own weights"
            tokens = replace(tokens, notes=(*tokens.notes, result))
        atlas = tokens.words() if unit == "word" else tokens
        matrix = look.matrix(atlas)
    if html:
        write(html, _page(tokens, gone))
    _draw(atlas, look, figure, view)
    if save:
        tokens.save(save, keep_picture)
    if shape == "json":
        without = {} if gone is None else {"without": gone.to_dict()}
        put_json(atlas.to_dict(weights) | {"shown": look.document(atlas, matrix)} | without)
    elif shape == "csv":
        print(atlas.to_csv("weights" if weights else "heads"), end="")
    else:
        look.show(atlas, matrix, gone, verbose)
    say_written(save, html, figure, quiet=quiet)
    if not quiet and shape == "text" and not html:
        print_stderr("to see every head: --html heads.html")


@dataclass(frozen=True)
class AttentionView:
    """What is looked at closely: a head, or heads and layers together."""

    stack: str
    layer: int | None
    head: int | None
    how: str
    links: int

    def check(self, figure: Path | None, view: str | None = None) -> None:
        """Mistakes that can be told before the model is loaded."""
        if self.head is not None and self.layer is None:
            raise HeedfulError("--head needs --layer", fix=f"For example: --layer 0 --head {self.head}")
        if self.head is not None and self.how != "mean":
            raise HeedfulError("--aggregate combines many heads", "--head chooses one", "Drop one of them")
        if view and not figure:
            raise HeedfulError("--view needs --figure", fix=f"For example: --figure heads.svg --view {view}")
        if figure and figure.suffix.lower() not in (".png", ".svg"):
            raise HeedfulError(f"cannot draw to {figure}", "figures are .png or .svg", "Name one of these")

    def matrix(self, atlas: Atlas) -> Floats:
        """(Q, K)"""
        if self.head is None:
            return atlas.aggregate(self.how, self.layer, self.stack)
        maps, layer = atlas.stack(self.stack), self.layer or 0
        for name, value, count in (("layer", layer, maps.layers), ("head", self.head, maps.heads)):
            if value >= count:
                raise HeedfulError(f"there is no {name} {value}", f"the model has {count}, counted from 0")
        values: Floats = maps.weights[layer, self.head].astype("float64")
        return values

    def found(self, atlas: Atlas, matrix: Floats) -> list[Link]:
        """A single head is shown as it is; of many, what words look at in other words."""
        from heedful.heads.top_links import strongest

        control = self.matrix(atlas.uniform())
        return strongest(atlas.stack(self.stack), matrix, control, self.links, words_only=self.head is None)

    def document(self, atlas: Atlas, matrix: Floats) -> dict[str, Any]:
        chosen = {"stack": self.stack, "layer": self.layer, "head": self.head}
        how = {} if self.head is not None else {"aggregate": self.how}
        links = [asdict(link) for link in self.found(atlas, matrix)]
        return chosen | how | {"matrix": matrix.tolist(), "links": links}

    def show(self, atlas: Atlas, matrix: Floats, gone: AblationResult | None, verbose: bool) -> None:
        """Above the maps of a model without some heads: what that did."""
        from heedful.reports import ablation
        from heedful.reports.atlas import AtlasView, document, links_title

        kind = None
        if self.head is None:
            title = links_title(self.how, self.layer)
        else:
            heads = atlas.stack(self.stack).heads
            kind = atlas.kinds(self.stack)[(self.layer or 0) * heads + self.head]
            title = "Its strongest links"
        view = AtlasView(title, self.found(atlas, matrix), self.stack, kind)
        first = () if gone is None else ablation.summary(gone)
        put_document(document(atlas, view, first, numbers=False), verbose)


def _page(tokens: Atlas, gone: AblationResult | None) -> str:
    """Both levels, tokens and words, are in it."""
    from heedful.reports import ablation, html
    from heedful.reports.atlas import document

    return html.page(document(tokens, first=() if gone is None else ablation.summary(gone)))


def _draw(atlas: Atlas, look: AttentionView, figure: Path | None, view: str | None) -> None:
    if not figure:
        return
    view = view or ("grid" if look.head is None else "matrix")
    try:
        figure.parent.mkdir(parents=True, exist_ok=True)
        atlas.to_figure(figure, view=view, layer=look.layer, head=look.head, stack=look.stack)
    except OSError as error:
        raise HeedfulError(
            f"cannot write {figure}", error.strerror or str(error), "Name another file"
        ) from None
