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
from heedful.core.progress import Report, counting
from heedful.core.target import Target
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.maxima import known_maxima
from heedful.features.steering.diff_of_means import Texts, beside
from heedful.features.steering.directions import Direction, feature_maxima, random_direction, site_of
from heedful.features.steering.results import BROKEN, SteeredText, Sweep, SweepPoint, paired
from heedful.features.steering.steer import is_text_list, steer
from heedful.features.steering.strength import parse
from heedful.modalities.text import TextInput
from heedful.models.adapter import TokenModel
from heedful.models.sites.access import read, width

__all__ = [
    "BROKEN",
    "Baselines",
    "Intervention",
    "Presence",
    "SteeredText",
    "Sweep",
    "SweepPoint",
    "Writing",
    "sweep",
]
RUN_TOKENS = 3  # tokens of a run that may repeat
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
class Intervention:
    """What is steered, and how strongly."""

    by: SAE | Direction
    feature: int | None = None  # of an SAE: which is set
    strengths: Sequence[Any] | None = None  # None: STRENGTHS; of a direction, numbers
    site: str | None = None  # None: where the SAE or the direction was made
    maxima: Any = None  # of features, for strengths such as 5x; or texts to measure them on


@dataclass(frozen=True)
class Presence:
    """How much of what is wanted a text has."""

    score: Score | None = None  # None: the share of tokens on which the feature fires
    threshold: float = 0.0  # above which it fires


@dataclass(frozen=True, eq=False)
class Baselines:
    """What is added at the same size, beside: a difference of means and a random direction."""

    difference: Direction | None = None  # turned round where the feature is taken out
    texts: Texts | None = None  # for the difference: of firings on these; None: maxima, if these are texts
    seed: int = 0  # of the random direction


@dataclass(frozen=True, eq=False)
class _Task:
    """Everything a text is written and judged by."""

    model: TokenModel
    site: str
    prompts: tuple[TextInput, ...]
    writing: Writing
    score: Callable[[TextInput, list[int], str], float]


def sweep(
    model: TokenModel,
    intervention: Intervention,
    prompts: Sequence[str],
    *,
    presence: Presence | None = None,
    baselines: Baselines | None = None,
    writing: Writing | None = None,
    progress: Report | None = None,
) -> Sweep:
    """Write after every prompt at every strength, by a feature of an SAE or along a direction."""
    presence, baselines = presence or Presence(), baselines or Baselines()
    by, feature, maxima = intervention.by, intervention.feature, intervention.maxima
    place = site_of(by, intervention.site)
    _check(model, by, feature, prompts, presence.score)
    judge = (
        _own_score(presence.score)
        if presence.score
        else _firing(model, by, place, feature, presence.threshold)
    )
    encoded = tuple(model.encode(prompt) for prompt in prompts)
    task = _Task(model=model, site=place, prompts=encoded, writing=writing or Writing(), score=judge)
    strengths = intervention.strengths
    if strengths is None:
        strengths = STRENGTHS if isinstance(by, SAE) else (0.5, 1, 2, 4)
    if isinstance(by, SAE) and any("x" in str(one) for one in strengths):
        maxima = _maxima(model, by, maxima, place)
    difference, note = _difference(model, intervention, baselines, place)
    noise = random_direction(width(model, place), place, baselines.seed)
    others = {"difference of means": difference, "random direction": noise}
    points = [_point(task, "unsteered", "–", by, {} if isinstance(by, SAE) else 0.0, maxima)]
    for number, one in enumerate(strengths):
        counting(progress, f"strength {one}")(number, len(strengths))
        points += _strength(task, by, feature, one, maxima, others)
    result = _result(task, points, feature, presence)
    return replace(result, notes=(*result.notes, *filter(None, [note])))


def _difference(
    model: TokenModel, intervention: Intervention, baselines: Baselines, site: str
) -> tuple[Direction | None, str]:
    """The difference of means that stands beside, and why there is none."""
    by, feature = intervention.by, intervention.feature
    if not isinstance(by, SAE) or baselines.difference is not None or feature is None:
        return baselines.difference, ""
    texts = baselines.texts
    if texts is None and is_text_list(intervention.maxima):
        texts = intervention.maxima
    return beside(model, by, {feature: 1.0}, texts, site)


def _check(model: TokenModel, by: Any, feature: int | None, prompts: Any, presence: Any) -> None:
    if "generate" not in model.capabilities:
        raise HeedfulError(f"{model.name} cannot write text", f"it is a {model.kind}", "Try zoo:lm")
    if isinstance(prompts, str) or not prompts:
        raise HeedfulError("a sweep needs prompts", fix="Give a list of texts")
    if isinstance(by, SAE) and feature is None:
        raise HeedfulError("which feature shall be set?", fix="Give feature=268")
    if not isinstance(by, SAE) and presence is None:
        raise HeedfulError(
            "it is not clear what the texts should show",
            "a direction has no activation",
            "Give presence=, a function from text to a number",
        )


def _maxima(model: TokenModel, sae: SAE, given: Any, site: str) -> Any:
    """Measured once, if they are to be measured."""
    if given is None:
        return known_maxima(sae)
    return feature_maxima(model, sae, given, site=site) if is_text_list(given) else given


# --- judging -----------------------------------------------------------------------------------------


def _own_score(score: Score) -> Callable[[TextInput, list[int], str], float]:
    return lambda x, ids, text: float(score(text))


def _firing(model: TokenModel, sae: Any, site: str, feature: int | None, threshold: float) -> Any:
    def share(x: TextInput, ids: list[int], text: str) -> float:
        codes = sae.encode(read_written(model, x, ids, text, site))[:, feature]
        return float((codes > threshold).double().mean())

    return share


def read_written(model: TokenModel, x: TextInput, ids: Sequence[int], text: str, site: str) -> torch.Tensor:
    """What the site holds for the written tokens (n, d), read after the prompt by the unsteered model.

    An encoder never reads what was written: its sites read the written text by itself.
    """
    if model.kind != "encoder-decoder":
        inputs, first = model.padded(torch.tensor([[*x.ids, *ids]])), len(x)
    elif site.startswith("decoder."):
        inputs, first = model.inputs(x, Target("token", given=tuple(ids))), 1
    else:
        written = model.encode(text or " ", long="truncate")
        inputs, first = model.padded(torch.tensor([written.ids])), 0
    with torch.inference_mode(False), torch.no_grad():
        return read(model, inputs, [site])[site][0, first:].float()


def perplexity(model: TokenModel, x: TextInput, ids: Sequence[int]) -> float:
    """exp of minus the mean log-probability of the tokens after the text."""
    if not ids:
        return math.nan
    target = Target("sequence", sequence=tuple(ids))
    keep = np.ones((1, len(x.units("token"))), dtype=bool)
    total = float(model.values(x, target, keep, None, "token")[0])
    return math.exp(min(-total / len(ids), 700.0))


def repetition(ids: Sequence[int]) -> float:
    """Share of runs of three tokens that stood there before."""
    runs = [tuple(ids[i : i + RUN_TOKENS]) for i in range(len(ids) - RUN_TOKENS + 1)]
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
            text = model.decode(ids, skip_special=True)
            made.append(
                SteeredText(
                    prompt=number,
                    seed=seed,
                    text=text,
                    perplexity=perplexity(model, x, ids),
                    presence=task.score(x, ids, text),
                    repetition=repetition(ids),
                )
            )
    total, positions = (sum(part) for part in zip(*pushed, strict=True))
    return SweepPoint(method, strength, total / positions if positions else 0.0, tuple(made))


def _strength(
    task: _Task, by: Any, feature: int | None, one: Any, maxima: Any, others: dict[str, Direction | None]
) -> list[SweepPoint]:
    """One strength, and the other pushes at its size; these are turned round where a feature is taken out."""
    how = {feature: one} if isinstance(by, SAE) else one
    name = f"feature {feature}" if isinstance(by, SAE) else "direction"
    sweep_point = _point(task, name, str(one), by, how, maxima)
    way = -1.0 if feature is not None and parse(feature, one).takes_out else 1.0
    return [sweep_point] + [
        _point(task, other, str(one), vector.scaled(sweep_point.size), way, None)
        for other, vector in others.items()
        if vector is not None and sweep_point.size > 0
    ]


def _result(task: _Task, points: Sequence[SweepPoint], feature: int | None, presence: Presence) -> Sweep:
    notes, own = [], presence.score is not None
    if len(task.prompts) < 2:
        notes.append("One prompt: no interval can be given.")
    if task.writing.strategy == "greedy" and len(task.writing.seeds) > 1:
        notes.append("Greedy texts do not depend on the seed.")
    settings = {
        "site": task.site,
        "feature": feature,
        "threshold": None if own else presence.threshold,
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
