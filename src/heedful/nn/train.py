"""Training: AdamW, warm-up then cosine, gradient clipping, a progress bar on standard error.

    lr(t) = peak * t / warmup                                          for t < warmup
          = floor + (peak - floor) * (1 + cos(pi * progress)) / 2      after
    matrices and embeddings are decayed; biases, gains (anything of one dimension) are not.

`fit` runs any loss; `train` is `fit` on random windows of one long row of tokens. All randomness (windows,
dropout) comes from `seed`; the global random state is as it was afterwards.

Loshchilov & Hutter, Decoupled Weight Decay Regularization, ICLR 2019.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Int, Shaped
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.nn.gpt2 import GPT2


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run. The defaults suit a model of a few million parameters."""

    steps: int = 1000
    batch: int = 16
    lr: float = 1e-3
    floor: float = 0.1  # the last learning rate, as a share of lr
    warmup: int = 50
    weight_decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float = 1.0
    seed: int = 0
    progress: bool = True


def learning_rate(step: int, config: TrainConfig) -> float:
    """Warm-up and cosine; `step` counts from 0, the first step already moves."""
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    progress = (step - config.warmup) / max(1, config.steps - 1 - config.warmup)
    low = config.lr * config.floor
    return low + (config.lr - low) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Two AdamW groups: parameters of two and more dimensions with decay, the others without."""
    params = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in params if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
    ]


def fit(
    model: nn.Module,
    loss: Callable[[int], Tensor],
    config: TrainConfig,
    after_step: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Minimise `loss(step)` and return its value at every step. `after_step(step, loss)` may evaluate or save
    the model."""
    groups = decay_groups(model, config.weight_decay)
    optimiser = torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, fused=True)
    losses: list[float] = []
    model.train()
    with torch.random.fork_rng(devices=[]), _bar(config) as tell:
        torch.manual_seed(config.seed)  # for dropout
        for step in range(config.steps):
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(step, config)
            value = loss(step)
            value.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            losses.append(value.item())
            if not math.isfinite(losses[-1]):
                raise HeedfulError(f"loss is {losses[-1]} at step {step}", fix=f"Lower lr (now {config.lr})")
            tell(losses[-1])
            if after_step is not None:
                after_step(step, losses[-1])
                model.train()
    model.eval()
    return losses


def windows(
    ids: Shaped[Tensor, " N"], batch: int, length: int, rng: torch.Generator
) -> Int[Tensor, "batch length"]:
    """`batch` random stretches of `length` tokens, as int64 whatever `ids` is kept in."""
    starts = torch.randint(len(ids) - length + 1, (batch, 1), generator=rng)
    return ids[starts + torch.arange(length)].long()


def train(
    model: GPT2,
    ids: Shaped[Tensor, " N"],
    config: TrainConfig,
    after_step: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train a model to predict the next token of one long sequence. At the end, the model is in eval mode."""
    length = min(model.config.context + 1, len(ids))
    rng = torch.Generator().manual_seed(config.seed)
    return fit(model, lambda _: model.loss(windows(ids, config.batch, length, rng)), config, after_step)


@contextmanager
def _bar(config: TrainConfig) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error that shows the running loss; silent when `progress` is off."""
    if not config.progress:
        yield lambda _: None
        return
    loss_column = TextColumn("loss {task.fields[loss]:.3f}")
    columns = (*Progress.get_default_columns()[:3], TimeRemainingColumn(), loss_column)
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("training", total=config.steps, loss=math.nan)
        mean = math.nan

        def tell(loss: float) -> None:
            nonlocal mean
            mean = loss if math.isnan(mean) else 0.95 * mean + 0.05 * loss
            progress.update(task, advance=1, loss=mean)

        yield tell
