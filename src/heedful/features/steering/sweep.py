"""How far can it be steered? Texts written at growing strength, and what becomes of them.

    perplexity    exp(- mean log-probability of the written tokens, after the prompt, under the UNSTEERED
                  model); over prompts the geometric mean
    presence      share of written tokens on which the feature fires above `threshold` when the unsteered
                  model reads the text; or a function text -> number of your own
    repetition    1 - distinct / all runs of three tokens: a loop is likely, so perplexity alone misses it
    size          mean length of what was added to a position

Breaking point: the first strength at which perplexity exceeds `BROKEN` times that of the unsteered texts (the
mean over prompts of the log ratio exceeds log 2). Intervals: 95 %, Student's t over prompts; draws (seeds) of
a prompt are averaged first. Beside each strength stand a difference of means and a random direction whose
size is the same: no dictionary is worth more than what these reach.

Cost: (1 + methods x strengths) x prompts x seeds texts written, and each read twice.
Templeton et al. 2024 (strengths as multiples of the maximum); Wu et al. 2025 (AxBench: baselines).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from heedful.core.errors import HeedfulError
from heedful.core.input import Encoded
from heedful.core.progress import Report, counting
from heedful.core.target import Target
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.maxima import known_maxima
from heedful.features.steering.diff_of_means import Texts, beside
from heedful.features.steering.directions import Direction, feature_maxima, random_direction, site_of
from heedful.features.steering.results import BROKEN, PromptMean, SteeredText, Sweep, SweepPoint, paired
from heedful.features.steering.steer import steer
from heedful.features.steering.strength import parse
from heedful.models.backend import Inputs
from heedful.models.sites.access import read, width

__all__ = ["BROKEN", "PromptMean", "SteeredText", "Sweep", "SweepPoint", "Writing", "sweep"]
RUN = 3  # tokens of a run that may repeat
STRENGTHS = ("1x", "2x", "5x", "10x")
Score = Callable[[str], float]


@dataclass(frozen=True)
class Writing:
    """How texts are written."""

    max_new_tokens: int = 40
    strategy: str = "greedy"
    seeds: tuple[int, ...] = (0,)  # one text a prompt and seed; greedy needs one
    positions: Any = "all"


@dataclass(frozen=True, eq=False)
class _Task:
    """Everything a text is written and judged by."""

    model: Any
    site: str
    prompts: tuple[Encoded, ...]
    writing: Writing
    score: Callable[[Encoded, list[int], str], float]


def sweep(
    model: Any,
    by: SAE | Direction,
    prompts: Sequence[str],
    *,
    feature: int | None = None,
    strengths: Sequence[Any] | None = None,
    baseline: Direction | None = None,
    texts: Texts | None = None,
    presence: Score | None = None,
    threshold: float = 0.0,
    writing: Writing | None = None,
    site: str | None = None,
    maxima: Any = None,
    seed: int = 0,
    progress: Report | None = None,
) -> Sweep:
    """Write after every prompt at every strength, by a feature of an SAE or along a direction.

    by, feature   an SAE and the feature that is set; or a direction, with numbers as strengths
    baseline      a difference of means, added at the same size as the feature's own push, and turned round
                  where the feature is taken out; None: of the feature's own firings on `texts`
    texts         a list or a file; None: `maxima`, if these are texts
    presence      how much of what is wanted a text has; default: where the feature fires
    """
    place = site_of(by, site)
    _check(model, by, feature, prompts, presence)
    judge = _own_score(presence) if presence else _firing(model, by, place, feature, threshold)
    encoded = tuple(model.encode(prompt) for prompt in prompts)
    task = _Task(model, place, encoded, writing or Writing(), judge)
    given = tuple(
        strengths if strengths is not None else STRENGTHS if isinstance(by, SAE) else (0.5, 1, 2, 4)
    )
    own = maxima if _is_texts(maxima) else None
    if isinstance(by, SAE) and any("x" in str(one) for one in given):
        maxima = _maxima(model, by, maxima, place)
    told = ""
    if isinstance(by, SAE) and baseline is None and feature is not None:
        baseline, told = beside(model, by, {feature: 1.0}, texts if texts is not None else own, place)
    base = _point(task, "unsteered", "–", by, {} if isinstance(by, SAE) else 0.0, maxima)
    noise = random_direction(width(model, place), place, seed)
    others = {"difference of means": baseline, "random direction": noise}
    points = [base]
    for number, one in enumerate(given):
        counting(progress, f"strength {one}")(number, len(given))
        points += _strength(task, by, feature, one, maxima, others)
    result = _result(task, points, feature, threshold, presence is not None)
    return replace(result, notes=(*result.notes, *filter(None, [told])))


def _check(model: Any, by: Any, feature: int | None, prompts: Any, presence: Any) -> None:
    if "generate" not in model.capabilities:
        raise HeedfulError(f"{model.name} cannot write text", f"it is a {model.kind}", "Try zoo:lm")
    if isinstance(prompts, str) or not prompts:
        raise HeedfulError("a sweep needs prompts", fix="Give a list of texts")
    if isinstance(by, SAE) and feature is None:
        raise HeedfulError("which feature shall be set?", fix="Give feature=268")
    if not isinstance(by, SAE) and presence is None:
        raise HeedfulError(
            "what is wanted of the texts is not known",
            "a direction does not fire",
            "Give presence=, a function from text to a number",
        )


def _maxima(model: Any, sae: SAE, given: Any, site: str) -> Any:
    """Measured once, if they are to be measured."""
    if given is None:
        return known_maxima(sae)
    return feature_maxima(model, sae, given, site=site) if _is_texts(given) else given


def _is_texts(given: Any) -> bool:
    return isinstance(given, list | tuple) and bool(given) and isinstance(given[0], str)


# --- judging -----------------------------------------------------------------------------------------


def _own_score(score: Score) -> Callable[[Encoded, list[int], str], float]:
    return lambda x, ids, text: float(score(text))


def _firing(model: Any, sae: Any, site: str, feature: int | None, threshold: float) -> Any:
    def share(x: Encoded, ids: list[int], text: str) -> float:
        codes = sae.encode(read_written(model, x, ids, text, site))[:, feature]
        return float((codes > threshold).double().mean())

    return share


def read_written(model: Any, x: Encoded, ids: Sequence[int], text: str, site: str) -> torch.Tensor:
    """What the site holds for the written tokens (n, d), read after the prompt by the unsteered model.

    An encoder never reads what was written: its sites read the written text by itself.
    """
    answer, row, first = None, list(x.ids), len(x)
    if model.kind == "encoder-decoder":
        start = model.backend.special_id("decoder_start") or 0
        if site.startswith("decoder."):
            answer, first = [start, *ids], 1
        else:
            answer, row, first = [start], list(model.encode(text or " ", long="truncate").ids), 0
    else:
        row += ids
    tokens = torch.tensor([row])
    inputs = Inputs(
        tokens, torch.ones_like(tokens), answer=None if answer is None else torch.tensor([answer])
    )
    with torch.inference_mode(False), torch.no_grad():
        return read(model, inputs, [site])[site][0, first:].float()


def perplexity(model: Any, x: Encoded, ids: Sequence[int]) -> float:
    """exp of minus the mean log-probability of the tokens after the text."""
    if not ids:
        return math.nan
    target = Target("sequence", sequence=tuple(ids))
    keep = np.ones((1, len(x.units("token"))), dtype=bool)
    total = float(model.rows(x, target, keep, None, "token")[0])
    return math.exp(min(-total / len(ids), 700.0))


def repetition(ids: Sequence[int]) -> float:
    """Share of runs of three tokens that stood there before."""
    runs = [tuple(ids[i : i + RUN]) for i in range(len(ids) - RUN + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


# --- writing -----------------------------------------------------------------------------------------


def _point(task: _Task, method: str, strength: str, by: Any, how: Any, maxima: Any) -> SweepPoint:
    """All prompts at one strength."""
    model, made, pushed = task.model, [], []
    for number, x in enumerate(task.prompts):
        for seed in task.writing.seeds:
            with steer(
                model, by, how, positions=task.writing.positions, site=task.site, maxima=maxima
            ) as applied:
                ids = model.answer(x, task.writing.max_new_tokens, strategy=task.writing.strategy, seed=seed)
            pushed.append((applied.total, applied.positions))
            text = str(model.tokenizer.decode(ids, skip_special_tokens=True))
            judged = (perplexity(model, x, ids), task.score(x, ids, text), repetition(ids))
            made.append(SteeredText(number, seed, text, *judged))
    total, positions = (sum(part) for part in zip(*pushed, strict=True))
    return SweepPoint(method, strength, total / positions if positions else 0.0, tuple(made))


def _strength(
    task: _Task, by: Any, feature: int | None, one: Any, maxima: Any, others: dict[str, Direction | None]
) -> list[SweepPoint]:
    """One strength, and the other pushes at its size; these are turned round where a feature is taken out."""
    how = {feature: one} if isinstance(by, SAE) else one
    name = f"feature {feature}" if isinstance(by, SAE) else "direction"
    found = _point(task, name, str(one), by, how, maxima)
    way = -1.0 if feature is not None and parse(feature, one).takes_out else 1.0
    return [found] + [
        _point(task, other, str(one), vector.scaled(found.size), way, None)
        for other, vector in others.items()
        if vector is not None and found.size > 0
    ]


def _result(
    task: _Task, points: Sequence[SweepPoint], feature: int | None, threshold: float, own: bool
) -> Sweep:
    notes = []
    if len(task.prompts) < 2:
        notes.append("One prompt: no interval can be given.")
    if task.writing.strategy == "greedy" and len(task.writing.seeds) > 1:
        notes.append("Greedy texts do not depend on the seed.")
    settings = {
        "site": task.site,
        "feature": feature,
        "threshold": None if own else threshold,
        "presence": "your function" if own else "share of written tokens on which the feature fires",
        "max_new_tokens": task.writing.max_new_tokens,
        "strategy": task.writing.strategy,
        "seeds": list(task.writing.seeds),
        "positions": task.writing.positions,
    }
    if not isinstance(settings["positions"], str):
        settings["positions"] = list(task.writing.positions)
    compared = tuple(replace(point, ratio=paired(points[0], point)) for point in points)
    names = tuple(x.text for x in task.prompts)
    return Sweep(compared, names, {"name": task.model.name, "kind": task.model.kind}, settings, tuple(notes))
