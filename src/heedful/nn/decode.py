"""Decoding: from next-token scores to text, by any function `ids (B, T) -> logits (B, vocab)`.

    greedy       x_{t+1} = argmax_v logits_v
    sample       x_{t+1} ~ softmax(logits)
    temperature  softmax(logits / tau): tau < 1 sharpens, tau > 1 flattens
    top-k        the k best tokens, renormalised
    nucleus      the smallest set of best tokens whose mass reaches p, renormalised ("top-p")
    beam         the sequence with the best  sum_t log p(x_t | x_<t) / length^penalty  among `beams` kept open

Cost: one call of the function a new token, with 1 row (beam: up to `beams`); the prefix is read each time.
Draws come from a torch.Generator made of `seed`.

Holtzman et al., The Curious Case of Neural Text Degeneration, ICLR 2020 (nucleus); Fan et al. 2018 (top-k).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heedful.core.errors import HeedfulError

NextLogits = Callable[[Tensor], Tensor]  # ids (B, T) -> logits of the next token (B, vocab)
Choose = Callable[[Tensor], Tensor]  # logits (vocab,) -> one id ()


# One step: logits -> logits, and logits -> id.


def greedy(logits: Float[Tensor, "*b V"]) -> Int[Tensor, "*b"]:
    """The most probable token; the lower id wins a tie."""
    return logits.argmax(-1)


def sample(logits: Float[Tensor, "*b V"], rng: torch.Generator) -> Int[Tensor, "*b"]:
    """Sample a token from softmax(logits)."""
    probs = logits.softmax(-1)
    drawn = torch.multinomial(probs.reshape(-1, probs.shape[-1]), 1, generator=rng)
    return drawn.view(probs.shape[:-1])


def temperature(logits: Float[Tensor, "*b V"], tau: float | int) -> Float[Tensor, "*b V"]:
    """Divide the logits by tau."""
    if not tau > 0:
        raise HeedfulError(f"temperature is {tau}, it must be above 0", fix="For temperature 0 use greedy")
    return logits / tau


def top_k(logits: Float[Tensor, "*b V"], k: int) -> Float[Tensor, "*b V"]:
    """Keep the k largest logits, and those equal to the k-th. All other logits become -inf."""
    if k < 1:
        raise HeedfulError(f"top-k needs k of at least 1, got {k}")
    worst = logits.topk(min(k, logits.shape[-1])).values[..., -1:]  # (*b, 1)
    return logits.masked_fill(logits < worst, -math.inf)


def nucleus(logits: Float[Tensor, "*b V"], p: float | int) -> Float[Tensor, "*b V"]:
    """Keep the smallest set of most likely tokens with total probability >= p. All other logits become -inf.
    So a token is kept if all more likely tokens together have a probability < p."""
    if not 0 < p <= 1:
        raise HeedfulError(f"nucleus needs 0 < p <= 1, got {p}")
    if p == 1:
        return logits  # all the mass; a rounded cumulative sum might drop the tail
    best, order = logits.sort(dim=-1, descending=True, stable=True)
    probs = best.softmax(-1)
    before = probs.cumsum(-1) - probs  # mass of the better tokens (*b, V)
    drop = (before >= p).scatter(-1, order, before >= p)  # back in the order of the vocabulary
    return logits.masked_fill(drop, -math.inf)


# Many steps.


def extend(
    next_logits: NextLogits,
    prompt: Int[Tensor, " T"],
    choose: Choose,
    new_tokens: int,
    eos: int | None = None,
) -> Int[Tensor, " T_out"]:
    """Add what `choose` picks, token by token, until `new_tokens` or `eos` (which is kept)."""
    ids = prompt
    for _ in range(new_tokens):
        chosen = choose(next_logits(ids[None])[0])
        ids = torch.cat([ids, chosen.view(1)])
        if eos is not None and int(chosen) == eos:
            break
    return ids


class Beam(NamedTuple):
    """A finished sequence and its score, sum of log-probabilities / new tokens^penalty."""

    ids: Int[Tensor, " T"]
    score: float


def beam_search(
    next_logits: NextLogits,
    prompt: Int[Tensor, " T"],
    beams: int,
    new_tokens: int,
    eos: int | None = None,
    length_penalty: float | int = 1.0,
) -> list[Beam]:
    """The best finished sequences, best first, at most `beams` of them.

    Each step takes the 2 x beams best continuations, so that `beams` stay open even if all the best ones end.
    A continuation that ends counts only if it is among the first `beams`. The search stops when `beams` are
    finished and the best open one, at its present length, beats none of them.
    """
    if beams < 1:
        raise HeedfulError(f"beam search needs beams of at least 1, got {beams}")
    done: list[Beam] = []
    ids, totals = prompt[None], torch.zeros(1, device=prompt.device)  # (open, T), (open,)
    for length in range(1, new_tokens + 1):
        steps = totals[:, None] + next_logits(ids).float().log_softmax(-1)  # (open, V)
        values, flat = steps.flatten().topk(min(2 * beams, steps.numel()))
        beam, token = flat // steps.shape[1], flat % steps.shape[1]
        grown = torch.cat([ids[beam], token[:, None]], dim=1)  # (2 beams, T + 1)
        ends = torch.full_like(flat, length == new_tokens, dtype=torch.bool)
        if eos is not None:
            ends |= token == eos
        worth = (values / length**length_penalty).tolist()
        done += [Beam(grown[rank], worth[rank]) for rank in range(len(flat))[:beams] if ends[rank]]
        done = sorted(done, key=lambda finished: -finished.score)[:beams]
        ids, totals = grown[~ends][:beams], values[~ends][:beams]
        if len(ids) == 0 or (len(done) == beams and totals[0] / length**length_penalty <= done[-1].score):
            break
    return done or [Beam(prompt, 0.0)]


STRATEGIES: dict[str, dict[str, float | int]] = {  # name -> its options and their defaults
    "greedy": {},
    "sample": {},
    "temperature": {"temperature": 0.7},
    "top-k": {"k": 50, "temperature": 1.0},
    "nucleus": {"p": 0.9, "temperature": 1.0},
    "beam": {"beams": 5, "length_penalty": 1.0},
}


def chooser(strategy: str, options: dict[str, float | int], rng: torch.Generator) -> Choose:
    """The one-step rule of a sampling strategy: warp, then draw."""
    tau = options.get("temperature", 1.0)
    if strategy == "top-k":
        return lambda logits: sample(top_k(temperature(logits, tau), int(options["k"])), rng)
    if strategy == "nucleus":
        return lambda logits: sample(nucleus(temperature(logits, tau), options["p"]), rng)
    return lambda logits: sample(temperature(logits, tau), rng)


def generate(
    next_logits: NextLogits,
    prompt: Int[Tensor, " T"],
    strategy: str = "greedy",
    *,
    new_tokens: int = 20,
    eos: int | None = None,
    seed: int = 0,
    **options: float | int,
) -> Int[Tensor, " T_out"]:
    """Continue a prompt with a named strategy, and return both. `options` are those of the strategy
    (STRATEGIES)."""
    if strategy not in STRATEGIES:
        raise HeedfulError(f"no decoding strategy {strategy!r}", fix=f"Choose one of {', '.join(STRATEGIES)}")
    known = STRATEGIES[strategy]
    if extra := sorted(set(options) - set(known)):
        has = ", ".join(known) or "none"
        raise HeedfulError(f"{strategy} has no option {extra[0]!r}", fix=f"Its options: {has}")
    if len(prompt) == 0:
        raise HeedfulError("the prompt has no tokens", "the first token has nothing to follow")
    settings = {**known, **options}
    if strategy == "greedy":
        return extend(next_logits, prompt, greedy, new_tokens, eos)
    if strategy == "beam":
        beams, penalty = int(settings["beams"]), settings["length_penalty"]
        return beam_search(next_logits, prompt, beams, new_tokens, eos, penalty)[0].ids
    rng = torch.Generator(prompt.device).manual_seed(seed)
    return extend(next_logits, prompt, chooser(strategy, settings, rng), new_tokens, eos)
