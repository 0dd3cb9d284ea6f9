"""`heedful features train`: a sparse autoencoder from harvested activations."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from heedful.cli import options as o
from heedful.cli.console import (
    PATIENCE,
    console,
    print_stderr,
    progress_bar,
    put_json,
    say_written,
    silence_libraries,
)
from heedful.core.errors import HeedfulError
from heedful.core.numbers import duration, percent
from heedful.core.progress import Report, Step

Kind = Literal["relu", "relu-tied", "topk", "batchtopk", "jumprelu", "matryoshka"]
ActivationStore = Annotated[
    Path, o.argument(metavar="ACTS", help="Folder that heedful features harvest wrote.")
]
Out = Annotated[Path, o.written_folder(help="Folder for the SAE and its checkpoints.")]
WIDTH = "Number of features. Default: eight per dimension, but at most one per 16 activations."
Width = Annotated[int | None, o.option(min=1, help=WIDTH)]
Kinds = Annotated[Kind, o.option(help="Architecture of the SAE.")]
Steps = Annotated[
    int | None,
    o.option(min=1, help="Training steps. Default: until all data are used four times, but at least 4,000."),
]
BATCH = "Activations per step. Default: 1,024, or 4,096 if there are more than a million activations."
Batch = Annotated[int | None, o.option(min=1, help=BATCH)]
ACTIVE = "For topk, batchtopk, matryoshka: active features per token. Default: a short pilot run chooses it."
K = Annotated[int | None, o.option("--k", min=1, help=ACTIVE)]
LR = (
    "Learning rate. Default: 4e-4 * 4096 / width, but at most 5e-3. If the width is 4,096 or more, the "
    "default is 2e-4 / sqrt(width / 2^14)."
)
Lr = Annotated[float | None, o.option(help=LR)]
LAMBDA = "For relu, relu-tied, jumprelu: weight of the sparsity penalty. Default: a pilot run chooses it."
Lambda = Annotated[float | None, o.option("--lambda", min=0, help=LAMBDA)]
Resume = Annotated[bool, o.option("--resume", help="Resume from the last checkpoint in the folder.")]
Keep = Annotated[int, o.option(min=1, metavar="STEPS", help="Number of steps between checkpoints.")]
LOOK = "File with texts. At every checkpoint, show three features on these texts."
Look = Annotated[Path | None, o.option("--look", metavar="TEXTS", help=LOOK)]
LOOKS = "With --look: the model that reads the texts. Default: the model of the activations."
LookModel = Annotated[str | None, o.option("--model", metavar="MODEL", help=LOOKS)]
Threads = Annotated[int | None, o.option(min=1, help="Number of CPU threads. Default: torch chooses it.")]


def train(
    acts: ActivationStore,
    out: Out,
    width: Width = None,
    kind: Kinds = "relu",
    steps: Steps = None,
    batch: Batch = None,
    k: K = None,
    lr: Lr = None,
    sparsity: Lambda = None,
    seed: o.Seed = 0,
    resume: Resume = False,
    keep: Keep = 1000,
    look: Look = None,
    model: LookModel = None,
    threads: Threads = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Train a sparse autoencoder (SAE) on stored activations.

    \b
    heedful features train acts/ --kind topk --out sae/
    heedful features train acts/ --kind topk --out sae/ --resume
    heedful features train acts/ --width 2048 --kind relu --lambda 3 --out sae/
    heedful features train acts/ --kind topk --out sae/ --look speeches.txt

    If the training is interrupted, --resume continues from the last checkpoint. The result is the same as
    without the interruption. If you give neither --k nor --lambda, a short pilot run measures how sparse the
    activations are. Then it chooses the value. To train on several GPUs or machines, start the command with
    torchrun -m heedful features train.
    """
    silence_libraries()
    import torch

    from heedful.features.activations.store import ActivationStore as Store
    from heedful.features.sae.distributed import worker_group
    from heedful.features.sae.train import train_sae

    store: Any = Store.load(acts)
    if threads:
        torch.set_num_threads(threads)
    wanted = {"batch": batch, "k": k, "lr": lr, "sparsity": sparsity, "seed": seed}
    given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    results: list[dict[str, Any]] = []
    started = time.monotonic()
    with worker_group() as workers, _live(quiet or workers.rank > 0) as say:

        def progress(step: Step) -> None:
            results.append(dict(step.values))
            say(step)

        def chose(choice: Any) -> None:
            if not quiet:
                print_stderr(f"{choice.width:,} features; k = {choice.k}: {choice.why}{_by_k(choice)}")

        sae = train_sae(
            store,
            width,
            kind,
            steps=steps,
            out=out,
            resume=resume,
            every=10,
            keep=keep,
            progress=progress,
            look=_looking(store, look, model, seed) if workers.rank == 0 else None,
            workers=workers,
            tell=chose,
            **given,
        )
        speaks = workers.rank == 0
    if speaks:
        _put(sae, results, out, time.monotonic() - started, as_json=as_json, quiet=quiet)
        say_written(out, quiet=quiet)


@contextmanager
def _live(quiet: bool) -> Iterator[Report]:
    """A bar on a terminal; elsewhere a line every ten seconds."""
    if quiet:
        yield lambda step: None
        return
    if sys.stderr.isatty():
        with progress_bar("training") as say:
            yield lambda step: say(replace(step, method=line(step.values)))
        return
    last = time.monotonic()

    def now_and_then(step: Step) -> None:
        nonlocal last
        if time.monotonic() - last >= PATIENCE:
            last = time.monotonic()
            print_stderr(f"step {step.done:,}/{step.total:,}: {line(step.values)}")

    yield now_and_then


def _looking(store: Any, texts: Path | None, name: str | None, seed: int) -> Any:
    """Shows features on standard error whenever a checkpoint is due; None where no texts are given."""
    if texts is None:
        return None
    from heedful.features.activations.windows import open_texts
    from heedful.features.sae.preview import preview_callback
    from heedful.models.load import load_token_model

    open_texts(texts, "text")  # a file that is not there is told before any step
    facts = store.facts
    model = load_token_model(name or facts.name)
    if model.facts()["fingerprint"] != facts.model["fingerprint"]:
        raise HeedfulError(
            f"{model.name} is not the model that was harvested", f"that was {facts.name}", "Give --model"
        )

    def tell(step: int, lines: list[str]) -> None:
        print_stderr(f"step {step:,}, three features so far:")
        for one in lines:
            from heedful.reports.visible import visible

            print_stderr(f"  {visible(one)}")

    return preview_callback(model, texts, facts.site, tell, seed=seed)


def _by_k(choice: Any) -> str:
    """What the pilot measured."""
    shares = ", ".join(f"{percent(max(0.0, r))} with k = {k}" for k, r in choice.reproducible.items())
    return f". Share of the variance that such features explain: {shares}" if shares else ""


def line(standing: Mapping[str, Any]) -> str:
    """How a run stands, in a line."""
    return (
        f"loss {standing['loss']:.4g}, {standing['l0']:.1f} active, "
        f"{percent(standing['explained'], 1)} explained, {percent(standing['dead'], 1)} dead"
    )


def _put(
    sae: Any, told: list[dict[str, Any]], out: Path, seconds: float, *, as_json: bool, quiet: bool
) -> None:
    last = sae.config.source["last"]
    if as_json:
        put_json({"folder": str(out), "seconds": round(seconds, 1), **sae.config.to_dict(), "told": told})
        return
    from rich.table import Table

    table = Table(
        "kind", "features", "active", "explained", "dead", "loss", "steps", box=None, pad_edge=False
    )
    table.add_row(
        sae.config.kind,
        f"{sae.config.width:,}",
        f"{last['l0']:.1f}",
        percent(last["explained"], 1),
        percent(last["dead"], 1),
        f"{last['loss']:.4g}",
        f"{last['step']:,}",
    )
    console().print(table)
    if not quiet:
        observed = sae.config.source["maxima_rows"]
        print_stderr(
            f"on the last batch; maxima of features over {observed:,} activations; {duration(seconds)}"
        )
