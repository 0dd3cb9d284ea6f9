"""What a reader of stories does with its attention, one number per story.

right      the answer is right
pointed    the largest weight is on the supporting fact, and how large the fact's weight is
other      what other attention does: random orders, uniform, all weight on one other sentence
removed    fall of the answer's probability without each sentence
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.labs.data.stories import Stories, StoryReader, uniform, without
from heedful.trials.permute_attention import permuted

ORDERS = 20  # random orders of each story's attention


def right(model: StoryReader, some: Stories) -> Floats:
    """(N,) 1 where the answer is right."""
    with torch.no_grad():
        result = model(some).argmax(1)
    return np.asarray((result == some.answer).double().numpy())


def pointed(model: StoryReader, some: Stories) -> tuple[Floats, Floats]:
    """((N,) whether the largest weight is on the fact, (N,) weight of the fact); ties share the point."""
    with torch.no_grad():
        alpha = model.attend(some)[0]
    at = alpha.gather(1, some.fact[:, None])
    best = alpha == alpha.amax(1, keepdim=True)
    hit = best.gather(1, some.fact[:, None])[:, 0] / best.sum(1)
    return hit.double().numpy(), at[:, 0].double().numpy()


@dataclass(frozen=True, eq=False)
class Other:
    """What other attention does to a reader's answers, one number per story; nan where there is none."""

    changed: Floats  # share of random orders that change the answer
    follows: Floats  # share of random orders whose answer is the place where the largest weight landed
    flat: Floats  # 1 where uniform attention keeps the answer
    same: Floats  # all weight on another sentence that names the same place: share that keeps the answer
    different: Floats  # the same for sentences that name another place


def other(model: StoryReader, some: Stories, rng: torch.Generator) -> Other:
    with torch.no_grad():
        alpha, h = model.attend(some)
        own = model.read(alpha, h).argmax(1)  # (N,)
        noise = torch.rand(ORDERS, *alpha.shape, generator=rng)
        moved = permuted(alpha, some.real, noise)  # (ORDERS, N, n)
        result = model.read(moved, h).argmax(-1)  # (ORDERS, N)
        landed = some.place.gather(
            1, moved.argmax(-1).T
        ).T  # (ORDERS, N) place of the sentence that weighs most
        flat = model.read(uniform(some), h).argmax(1) == own
        each = torch.eye(alpha.shape[1])[:, None].expand(-1, len(some), -1)  # all weight on sentence j
        kept = (model.read(each, h).argmax(-1) == own).T  # (N, n)
    elsewhere = some.real & (torch.arange(alpha.shape[1]) != some.fact[:, None])
    same = elsewhere & (some.place == some.answer[:, None])
    return Other(
        (result != own).double().mean(0).numpy(),
        (result == landed).double().mean(0).numpy(),
        flat.double().numpy(),
        _share(kept, same),
        _share(kept, elsewhere & ~same),
    )


def _share(hits: Tensor, where: Tensor) -> Floats:
    """(N,) share of `hits` among the sentences `where`; nan for a story without one."""
    return ((hits & where).sum(1) / where.sum(1)).double().numpy()


def removed(model: StoryReader, some: Stories) -> Floats:
    """(N, n) fall of the probability of the answer given without each sentence; -inf where there is none."""
    with torch.no_grad():
        own = model(some).softmax(1)
        best = own.argmax(1, keepdim=True)
        falls = torch.full(some.real.shape, -torch.inf)
        for j in range(falls.shape[1]):
            there = some.real[:, j]
            less = without(some.pick(there), torch.full((int(there.sum()),), j))
            falls[there, j] = (own.gather(1, best)[there] - model(less).softmax(1).gather(1, best[there]))[
                :, 0
            ]
    return falls.double().numpy()
