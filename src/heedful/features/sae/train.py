"""Training a dictionary: one loop for every architecture.

    x <- s x with E||s x||² = d;  Adam on the architecture's loss;  gradient norm clipped to 1
    learning rate falls linearly over the last 20 % of the steps, lambda rises over the first 5 %
    decoders of length one: gradient along them removed before, length restored after each step

Deterministic by seed. Every `every` steps the run tells how it stands; every `keep` steps it writes a
checkpoint, from which it goes on bit for bit (on one thread). Cost of a step: see the architecture's file.
At the end each feature's greatest activation is taken over a fiftieth as many rows as were trained on (at
least 32,768, at most all once) and recorded: steering by "5x" is a multiple of it. A function of the final
weights and the seed, so a resumed run records the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.progress import Report, Step
from heedful.features.activations.stream import ActivationStream, mean_square_norm, rows_of
from heedful.features.sae import architectures, checkpoint, pilot
from heedful.features.sae.architectures import relu_tied
from heedful.features.sae.autoencoder import SAE, fold
from heedful.features.sae.base import (
    Outcome,
    Params,
    SingleWorker,
    TrainingState,
    WorkerGroup,
    note_fired,
    renormalise_,
    tangent_,
)
from heedful.features.sae.distributed import shares
from heedful.features.sae.maxima import row_maxima, with_maxima
from heedful.features.sae.settings import TrainSettings, lr_at, resolve_settings
from heedful.io.files import locked, writing
from heedful.io.run_folder import MANIFEST, RESULT

Look = Callable[[SAE, int], None]
Tell = Callable[[pilot.SparsityChoice], None]
MIN_MAXIMA_ROWS = 32_768  # rows over which maxima are taken, at least
TRAINED_ROWS_PER_MAXIMA_ROW = 50  # rows trained on are one more
LARGE_STORE_ROWS = 1 << 20  # rows from which a batch is large: 4,096 rows, otherwise 1,024

NOT_FINITE = "Check the activations with ActivationStore.check(), or use a lower learning rate"


@dataclass(eq=False)
class TrainingRun:
    """A dictionary in the making."""

    settings: TrainSettings
    params: Params
    optimizer: torch.optim.Adam
    memory: TrainingState
    scale: float
    step: int = 0
    history: list[dict[str, float | int]] = field(default_factory=list)

    def sae(self, source: dict[str, Any] | None = None) -> SAE:
        """The autoencoder as it stands, its own copy."""
        return fold(self.params, self.settings, self.memory, self.scale, source or {})


def train_sae(
    data: Any,
    width: int | None = None,
    kind: str = "relu",
    *,
    steps: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    every: int = 50,
    keep: int = 1000,
    progress: Report | None = None,
    look: Look | None = None,
    workers: WorkerGroup | None = None,
    tell: Tell | None = None,
    **settings: Any,
) -> SAE:
    """Train a sparse autoencoder (SAE) on activations.

    Parameters
    ----------
    data
        The result of `heedful.harvest`, or a tensor or array of shape (n, d).
    width
        Number of features. If `None`, eight features per dimension. With few activations: one feature per 16
        activations, but at least one per dimension.
    kind
        Architecture of the SAE: "relu", "relu-tied", "topk", "batchtopk", "jumprelu" or "matryoshka".
    steps
        Number of training steps. If `None`, four passes over the data, but at least 4,000 steps (1,000 with
        batches of more than 1,024).
    out
        Folder for the SAE and its checkpoints. If `None`, nothing is written.
    resume
        Continue from the last checkpoint in `out`.
    every
        Number of steps between two calls of `progress`.
    keep
        Number of steps between two checkpoints.
    progress
        A function that is called with a `heedful.core.progress.Step`. Its `values` are loss, l0, explained,
        dead and rate.
    look
        A function that is called with the SAE and the step at every checkpoint.
    workers
        Processes that train together. If `None`, only this process trains.
    tell
        A function that is called with the choice of the pilot run: the values and the reason. The pilot run
        is a short run that chooses settings that you do not give.
    **settings
        Further settings: batch, seed, lr, sparsity, k, ... (`heedful.features.sae.settings.TrainSettings`).

    Returns
    -------
    SAE
        The trained SAE. `sae.config.source` says how it was made.

    Examples
    --------
    >>> import heedful, torch
    >>> data = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    >>> heedful.train_sae(data, width=16, kind="topk", k=4, steps=20, batch=64)
    <topk autoencoder: (8,) to 16 features, k = 4>
    """
    rows = rows_of(data)
    workers = workers or SingleWorker()
    folder = None if out is None else Path(out)
    given = {"width": width, "kind": kind, "steps": steps} | settings
    with _alone_in(folder, workers):
        chosen, choice = _settled(rows, given, folder if resume else None, workers)
        if choice is not None and workers.rank == 0:
            if folder is not None:
                pilot.write(folder, choice)
            if tell is not None:
                tell(choice)
        run = _opened(rows, chosen, folder if resume else None, workers)
        for outcome, x in steps_of(run, rows):
            due = run.step % every == 0 or run.step == chosen.steps
            if due:
                run.history.append(standing(run, outcome, x))
                if progress is not None and workers.rank == 0:
                    row = run.history[-1]
                    progress(Step("training", done=run.step, total=chosen.steps, values=row))
            if run.step % keep == 0 or run.step == chosen.steps:
                _keep(run, folder)
                if look is not None and workers.rank == 0:
                    look(_so_far(run, outcome), run.step)
        sae = _with_maxima(run.sae(_source(data, run, choice)), rows, run)
        if folder is not None and workers.rank == 0:
            sae.save(folder)
        return sae


@contextmanager
def _alone_in(folder: Path | None, workers: WorkerGroup) -> Iterator[None]:
    """The first worker writes: no other training may, and a disk that is full is told in one line."""
    if folder is None or workers.rank:
        yield
        return
    written = ("checkpoint", pilot.FILE, MANIFEST, RESULT)
    again = "Free some space, then run it again with --resume"
    with locked(folder, "training", written), writing(folder, again):
        yield


def _settled(
    rows: ActivationStream, given: dict[str, Any], folder: Path | None, workers: WorkerGroup
) -> tuple[TrainSettings, pilot.SparsityChoice | None]:
    """What the user gave; the rest follows the data: its size, its dimension, a pilot for the sparsity."""
    wish = {name: value for name, value in given.items() if value is not None}
    kind, d, width = wish.pop("kind"), rows.d, wish.pop("width", None)
    batch = wish.setdefault("batch", min(4096 if rows.rows >= LARGE_STORE_ROWS else 1024, max(1, rows.rows)))
    least = 4000 if batch <= 1024 else 1000
    steps = wish.pop("steps", max(least, 4 * rows.rows // max(1, batch)))
    shares(batch, workers.world)
    wide = pilot.default_width(d, rows.rows) if width is None else width
    open_k = {"k": 1} if kind in pilot.BY_K else {}  # whatever the pilot says, it fits
    result = resolve_settings(kind, d, wide, steps, **open_k | wish)  # mistakes are told before the pilot
    if not pilot.wanted(kind, wish):
        return result, None
    choice = pilot.read(folder) if folder is not None else None
    if choice is None or choice.width != wide:
        choice = _agreed(rows, result, workers)
    return resolve_settings(kind, d, wide, steps, **wish | pilot.sparsity_of(kind, d, choice.k)), choice


def _agreed(rows: ActivationStream, wish: TrainSettings, workers: WorkerGroup) -> pilot.SparsityChoice:
    """The first worker runs the pilot, the others take what it chose."""
    alone = pilot.SparsityChoice(wish.width, 0, "k by the first worker")
    choice = (
        alone if workers.rank else pilot.choose(rows, wish.width, wish.seed, _fitted, wish.steps, wish.kind)
    )
    return replace(choice, k=int(workers.gather(torch.tensor([choice.k]))[0]))


def _fitted(rows: ActivationStream, settings: TrainSettings) -> SAE:
    """A dictionary without checkpoints."""
    run = begin(rows, settings)
    for _ in steps_of(run, rows):
        pass
    return run.sae()


def begin(rows: ActivationStream, settings: TrainSettings, workers: WorkerGroup | None = None) -> TrainingRun:
    """A run at step 0."""
    scale = (settings.d / mean_square_norm(rows, settings.batch, settings.seed)) ** 0.5
    first = next(iter(rows.batches(settings.batch, settings.seed))) * scale
    params = architectures.get(settings.kind).start(settings, first)
    return _assembled(settings, params, TrainingState.new(settings), scale, workers or SingleWorker())


def _assembled(
    settings: TrainSettings, params: Params, memory: TrainingState, scale: float, workers: WorkerGroup
) -> TrainingRun:
    for value in params.values():
        value.requires_grad_(True)
    memory.workers = workers
    optimizer = torch.optim.Adam(list(params.values()), lr=settings.lr, betas=settings.betas, fused=True)
    return TrainingRun(settings, params, optimizer, memory, scale)


def _opened(
    rows: ActivationStream, settings: TrainSettings, folder: Path | None, workers: WorkerGroup
) -> TrainingRun:
    saved = None if folder is None else checkpoint.read(folder / "checkpoint", settings)
    if saved is None:
        return begin(rows, settings, workers)
    run = _assembled(settings, saved.params, saved.memory, saved.scale, workers)
    checkpoint.give_moments(run.optimizer, run.params, saved)
    run.step, run.history = saved.step, saved.history
    return run


def steps_of(run: TrainingRun, rows: ActivationStream) -> Iterator[tuple[Outcome, Tensor]]:
    """Take the remaining steps, one at a time; gives each one's outcome and its scaled batch."""
    s, workers = run.settings, run.memory.workers
    resampled = relu_tied.resampling_steps(s) if s.kind == "relu-tied" else []
    for raw in rows.batches(s.batch, s.seed, start=run.step):
        if run.step >= s.steps:
            return
        x = raw[workers.rank :: workers.world].float() * run.scale
        outcome = take_step(run, x)
        if run.step in resampled:
            _resample(run, rows)
        yield outcome, x


def take_step(run: TrainingRun, x: Tensor) -> Outcome:
    """One step on a scaled batch (n, d)."""
    s, params = run.settings, run.params
    outcome: Outcome = architectures.get(s.kind).loss(params, x, s, run.step, run.memory)
    if not bool(outcome.total.isfinite()):
        why = "the activations are not" if not bool(x.isfinite().all()) else "the weights grew without bound"
        raise HeedfulError(f"the loss of step {run.step + 1} is not a finite number", why, NOT_FINITE)
    run.optimizer.zero_grad(set_to_none=True)
    outcome.total.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        _share_gradients(params, run.memory.workers)
        if s.unit and params["dec"].grad is not None:
            tangent_(params["dec"], params["dec"].grad)
        torch.nn.utils.clip_grad_norm_(list(params.values()), s.clip)
        run.optimizer.param_groups[0]["lr"] = lr_at(s, run.step)
        run.optimizer.step()
        if s.unit:
            renormalise_(params["dec"])
        note_fired(run.memory, outcome.fired, len(x))
        _note_threshold(run, outcome)
    run.step += 1
    return outcome


def _share_gradients(params: Params, workers: WorkerGroup) -> None:
    """Every worker takes the mean of all workers' gradients, so their weights stay equal."""
    for p in params.values() if workers.world > 1 else ():
        p.grad = workers.mean(torch.zeros_like(p) if p.grad is None else p.grad)


def _note_threshold(run: TrainingRun, outcome: Outcome) -> None:
    """The running mean of the smallest kept activation, from `threshold_from` of the steps on."""
    s, memory = run.settings, run.memory
    if outcome.smallest is None or run.step < int(s.threshold_from * s.steps):
        return
    values = memory.workers.mean(outcome.smallest)
    first = float(memory.threshold) < 0
    memory.threshold.copy_(values if first else torch.lerp(values, memory.threshold, s.threshold_decay))


def _resample(run: TrainingRun, rows: ActivationStream) -> None:
    """Draw dead latents anew (relu-tied), with the inputs that come next; their moments start at zero."""
    s = run.settings
    dead = (run.memory.silent >= relu_tied.patience(s)).nonzero()[:, 0]
    if not len(dead):
        return
    wanted = min(100, max(1, s.resample_rows // s.batch), max(1, rows.rows // s.batch))
    inputs, errors = [], []
    with torch.no_grad():
        for _, raw in zip(range(wanted), rows.batches(s.batch, s.seed, start=run.step), strict=False):
            x = raw.float() * run.scale
            result = architectures.get(s.kind).loss(run.params, x, s, run.step, run.memory)
            inputs.append(x)
            errors.append(result.residual.square().sum(1))
        relu_tied.resample(run.params, dead, torch.cat(inputs), torch.cat(errors), s.seed + run.step)
    for name, moments in checkpoint.moments_of(run.optimizer, run.params).items():
        for moment in moments if name != "b_dec" else ():
            moment[dead] = 0.0
    run.memory.silent[dead] = 0


def standing(run: TrainingRun, outcome: Outcome, x: Tensor) -> dict[str, float | int]:
    """How a run stands: loss and its parts, active latents a row, variance explained and dead share."""
    workers, s = run.memory.workers, run.settings
    with torch.no_grad():
        centre = workers.mean(x.mean(0))
        spread = workers.mean((x - centre).square().sum() / len(x))
        left = workers.mean(outcome.residual.square().sum() / len(x))
        fired = workers.total(outcome.fired).sum() / (len(x) * workers.world)
        parts = {name: float(workers.mean(part.detach())) for name, part in outcome.parts.items()}
    dead = (run.memory.silent >= min(s.dead_rows, max(1, run.step // 4) * s.batch)).double().mean()
    return {
        "step": run.step,
        "steps": s.steps,
        "loss": float(workers.mean(outcome.total.detach())),
        **parts,
        "l0": float(fired),
        "explained": 1 - float(left / spread.clamp(min=1e-12)),
        "dead": float(dead),
        "lr": lr_at(s, run.step - 1),
    }


def _keep(run: TrainingRun, folder: Path | None) -> None:
    if folder is not None and run.memory.workers.rank == 0:
        moments = checkpoint.moments_of(run.optimizer, run.params)
        saved = checkpoint.Saved(
            step=run.step,
            scale=run.scale,
            params=run.params,
            moments=moments,
            memory=run.memory,
            history=run.history,
        )
        checkpoint.write(folder / "checkpoint", saved, run.settings)


def _so_far(run: TrainingRun, outcome: Outcome) -> SAE:
    """For an early look: where no threshold is known yet, the last batch's stands for it."""
    sae = run.sae()
    if sae.threshold is None or outcome.smallest is None or bool((sae.threshold >= 0).all()):
        return sae
    return replace(sae, threshold=outcome.smallest.detach() / run.scale)


def _with_maxima(sae: SAE, rows: ActivationStream, run: TrainingRun) -> SAE:
    s = run.settings
    wanted = max(MIN_MAXIMA_ROWS, s.steps * s.batch // TRAINED_ROWS_PER_MAXIMA_ROW)
    return with_maxima(
        sae, *row_maxima(sae, rows, wanted, batch=s.batch, seed=s.seed, workers=run.memory.workers)
    )


def _source(data: Any, run: TrainingRun, choice: pilot.SparsityChoice | None) -> dict[str, Any]:
    store = getattr(data, "facts", None)
    facts = {} if store is None else {name: getattr(store, name) for name in ("name", "model", "site")}
    return {
        **facts,
        "settings": run.settings.to_dict(),
        **({} if choice is None else {"pilot": choice.to_dict()}),
        "last": run.history[-1] if run.history else {},
        "finished": time.strftime("%Y-%m-%d", time.gmtime()),
    }
