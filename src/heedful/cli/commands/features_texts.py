"""Texts that features are read and measured on: a file, or those that come with an SAE of the zoo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from heedful.cli import options as o
from heedful.core.errors import HeedfulError

TEXTS = (
    "File with texts: .txt, .csv, .tsv, .jsonl or .parquet. For zoo:lm, the default is speeches "
    "that were not used for training."
)
TextsOrZoo = Annotated[Path | None, o.argument(metavar="[TEXTS]", help=TEXTS, show_default=False)]


def texts_for(given: Path | None, sae: Path) -> Path:
    """The file that was given; a zoo name, given or of the autoencoder, stands for its held-out texts."""
    named = str(sae if given is None else given)
    if named.startswith("zoo:"):
        from heedful.models.zoo import resolve

        return resolve.held_out(named)
    if given is None:
        raise HeedfulError(
            "no texts were given", f"only zoo:lm brings its own, {sae} does not", "Name a file"
        )
    from heedful.io.datasets.sources import check_there

    check_there(given)
    return given
