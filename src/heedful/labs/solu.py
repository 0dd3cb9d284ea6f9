"""SoLU against GELU: at equal loss, how many neurons does one rule explain, before and after LayerNorm?

    SoLU(x) = x * softmax(x)      a large entry silences the small ones; equal ones share
    in the model LayerNorm(SoLU(x)): it trains as well as GELU, and can make large again what SoLU made small

Two one-layer language models that differ in their activation alone; the one that learns faster is taken at
the step at which it was as good as the other is at its end. Then, for every neuron:

    firing      its activation is at least half of its greatest
    rule        one condition (a token, the end of a word, what stands before, ...) from half of the windows
    explained   in the other half it holds at 80 % of the firings or more, at 10 % of other places or fewer

The unit is the training, not the neuron: neurons of one model learn together. Each pair of models gives one
share explained a kind, and intervals are over trainings. Controls: random directions in the space of the
neurons (are neurons special at all?), and neurons whose activations were moved to other places of the text
(what does the method find where there is nothing?). In the paper (recalled, not checked again) people judged
the strongest firings in larger models: 35 % of the neurons were explained with GELU, 60 % with SoLU.
Draws the share of neurons explained.

Elhage et al., Softmax Linear Units, 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from heedful.core.charts import BarGroup, Bars
from heedful.labs.base.claims import claim_mean
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.measures.neuron_rules import STRONG_SHARE, RuleWindows, Values, explained
from heedful.labs.models.small_lm import in_windows, losses, tokenizer, tokens
from heedful.nn import GPT2, MLP, Block, GPT2Config, TrainConfig, solu, train
from heedful.stats.intervals import UNIT, Interval, mean_of, share_of

RATE = 6e-3  # of training, steady
EQUAL_NATS = 0.05  # nats a token
MIN_DIFFERENCE = 0.1  # of all neurons: what the fast run can tell apart
MAX_RANDOM_SHARE = 0.1  # of neurons that fire at random, the most that a sound method may explain
GELU, ENTERING, BEFORE, AFTER = "GELU", "input of SoLU", "SoLU before LayerNorm", "SoLU after LayerNorm"
RANDOM, MOVED = "SoLU, random directions", "SoLU, shuffled activations"
RAISED, GAP = "raised", "gap"


@dataclass(frozen=True)
class SoluSizes:
    """Of the experiment."""

    vocab: int
    width: int  # of the model, which has four times as many neurons
    context: int
    steps: int
    batch: int
    every: int  # steps between two looks at the loss
    pairs: int
    windows: int  # of held-out text, at most
    judged: int  # neurons with GELU and with SoLU, in each model; half as many of other kinds
    firings: int  # a neuron, in each half of the windows


FAST = SoluSizes(
    vocab=512,
    width=32,
    context=32,
    steps=600,
    batch=8,
    every=30,
    pairs=5,
    windows=1200,
    judged=48,
    firings=16,
)
FULL = SoluSizes(
    vocab=1024,
    width=48,
    context=48,
    steps=900,
    batch=16,
    every=20,
    pairs=8,
    windows=2400,
    judged=128,
    firings=40,
)


@lab(
    "solu",
    title="SoLU against GELU: neurons that one rule explains",
    minutes=7.0,
    cite="Elhage et al., Softmax Linear Units, 2022",
)
def solu_against_gelu(run: LabRun) -> None:
    by_hand(run)
    sizes = FAST if run.fast else FULL
    reader = tokenizer(sizes.vocab, sizes.context)
    text = tokens(reader, "train", every=3 if run.fast else 1)
    tensor = in_windows(tokens(reader, "held"), sizes.context)
    tensor = tensor[:: -(-len(tensor) // sizes.windows)]
    place = RuleWindows(tensor, reader, sizes.firings)
    results: dict[str, list[float]] = {}
    moved: list[float] = []
    for number in range(sizes.pairs):
        seed = 100 * run.seed + number
        gelu, soft = trained_pair(run, sizes, text, tensor[0::2], seed)
        run.progress(number + 1, sizes.pairs, "testing neurons")
        one = {GAP: float((losses(soft, tensor[1::2]) - losses(gelu, tensor[1::2])).mean())}
        values = activations(gelu, soft, tensor)
        one |= {RAISED: raised(values[BEFORE], values[AFTER])} | shares(place, values, sizes.judged, seed)
        moved += explained(place, values[BEFORE][: sizes.judged // 2], seed, mixed=True)
        for name, value in one.items():
            results.setdefault(name, []).append(value)
    equal(run, results[GAP])
    drawn(run, results, moved)
    compared(run, results)
    nothing(run, results, moved)
    concluded(run, results)


# --- by hand ---------------------------------------------------------------------------------------


def by_hand(run: LabRun) -> None:
    """The worked examples: large entries share or stand alone, small ones go."""
    given = [(4.0, 1.0, 4.0, 1.0), (4.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0)]
    made = [solu(torch.tensor(x, dtype=torch.float64)).tolist() for x in given]
    run.table("SoLU of four numbers", ("x", "SoLU(x)"), zip(map(_row, given), map(_row, made), strict=True))
    off = max(abs(a - b) for a, b in zip(made[0], (2.0, 0.0, 2.0, 0.0), strict=True))
    run.claim(
        "SoLU of (4, 1, 4, 1) is (2, 0, 2, 0) with an error below a tenth: two equally large entries are "
        "halved, and small entries almost vanish (value: largest error).",
        value=off,
        holds=off < 0.1,
        exact=True,
    )
    run.claim(
        "SoLU of (4, 0, 0, 0) keeps more than nine tenths of the only large entry (value: share kept).",
        value=made[1][0] / 4,
        holds=made[1][0] / 4 > 0.9 and not any(made[1][1:]),
        against=made[2][0],
        control="share kept of each of four equal entries",
        exact=True,
    )


def _row(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{value:.3g}" for value in values) + ")"


# --- two models of equal loss ----------------------------------------------------------------------


def trained_pair(run: LabRun, sizes: SoluSizes, text: Tensor, look: Tensor, seed: int) -> tuple[GPT2, GPT2]:
    """With GELU and with SoLU, each at the step that brings it nearest to the end of the slower one."""
    models, paths = [], []
    for name in ("gelu", "solu-ln"):
        config = GPT2Config(sizes.vocab, sizes.context, 1, 4, sizes.width, activation=name)
        models.append(GPT2(config, seed))
        paths.append(path_of(run, models[-1], text, look[::4], sizes, seed))
    target = max(path[-1][0] for path in paths)
    for model, path in zip(models, paths, strict=True):
        model.load_state_dict(min(path, key=lambda point: abs(point[0] - target))[1])
    return models[0], models[1]


Point = tuple[float, dict[str, Tensor]]  # held-out loss, weights


def path_of(run: LabRun, model: GPT2, text: Tensor, look: Tensor, sizes: SoluSizes, seed: int) -> list[Point]:
    """Train at a steady rate, and keep what the model was at every look, all in the second half."""
    path: list[Point] = []

    def after(step: int, _: float) -> None:
        if (step + 1) % sizes.every == 0 and step >= sizes.steps // 2:
            weights = {name: value.clone() for name, value in model.state_dict().items()}
            path.append((float(losses(model, look).mean()), weights))
            run.progress(step + 1, sizes.steps, f"training with {model.config.activation}")

    train(model, text, TrainConfig(sizes.steps, sizes.batch, RATE, 1.0, 20, seed=seed, progress=False), after)
    return path


def equal(run: LabRun, gaps: Sequence[float]) -> None:
    """gaps: of each pair, the mean over windows."""
    run.say(
        f"There are {len(gaps)} pairs of one-layer language models, one with GELU and one with SoLU. Both "
        "models of a pair are trained on the same windows of text in the same order. The model that learns "
        "faster is taken from an earlier step, at which it was as good as the other model is at the end of "
        "its training. The losses are then compared on other windows. Intervals are over pairs of "
        "trainings."
    )
    claim_mean(
        run,
        "The two kinds of models are equally good: their losses on new text differ by less than 0.05 nats "
        "per token.",
        gaps,
        above=-EQUAL_NATS,
        below=EQUAL_NATS,
    )


# --- neurons ---------------------------------------------------------------------------------------


@torch.no_grad()
def activations(gelu: GPT2, soft: GPT2, rows: Tensor) -> dict[str, Values]:
    """Name -> (neurons, windows, T) of windows (n, T)."""
    plain, sharp = (entering(model, rows) for model in (gelu, soft))
    made = {
        GELU: mlp_of(gelu).act(plain),
        ENTERING: sharp,
        BEFORE: solu(sharp),
        AFTER: mlp_of(soft).act(sharp),
    }
    return {name: value.permute(2, 0, 1).numpy() for name, value in made.items()}


def mlp_of(model: GPT2) -> MLP:
    """Of the one block."""
    block = model.blocks[0]
    assert isinstance(block, Block)
    return block.mlp


def entering(model: GPT2, rows: Tensor) -> Tensor:
    """(n, T, neurons): what the activation function is given."""
    tensors: list[Tensor] = []
    hook = mlp_of(model).up.register_forward_hook(lambda module, args, out: tensors.append(out))
    try:
        model.hidden(rows)
    finally:
        hook.remove()
    return tensors[0]


def turned(neurons: Values, seed: int) -> Values:
    """As many random directions, at right angles to each other, of the neurons' space."""
    count = len(neurons)
    drawn = torch.randn(count, count, generator=torch.Generator().manual_seed(seed))
    basis: Tensor = torch.linalg.qr(drawn)[0]
    made: Values = torch.tensordot(basis, torch.from_numpy(neurons), 1).numpy()
    return made


def raised(before: Values, after: Values) -> float:
    """Of a neuron's (windows, T) strong firings after LayerNorm the share that was weak before: the mean."""
    strong = [v >= STRONG_SHARE * np.maximum(v.max((1, 2), keepdims=True), 1e-9) for v in (before, after)]
    fresh, count = (strong[1] & ~strong[0]).sum((1, 2)), strong[1].sum((1, 2))
    return float((fresh[count > 0] / count[count > 0]).mean())


def shares(place: RuleWindows, values: dict[str, Values], judged: int, seed: int) -> dict[str, float]:
    """Share explained of each kind, in one pair of models; neurons start alike, so the first are any."""
    shown = {name: n[: judged if name in (GELU, BEFORE) else judged // 2] for name, n in values.items()}
    shown[RANDOM] = turned(values[BEFORE], seed)[: judged // 2]
    return {name: float(np.mean(explained(place, neurons, seed))) for name, neurons in shown.items()}


# --- what was found --------------------------------------------------------------------------------


def drawn(run: LabRun, found: dict[str, list[float]], moved: Sequence[float]) -> None:
    run.say(
        "A rule is one condition on the text, for example a token or the end of a word. It is chosen on half "
        "of the windows and explains a neuron if, in the other half, it is true at 80 % or more of the "
        "strong activations and at 10 % or less of the other positions. There are two controls: random "
        "directions in the space of the neurons, and activations that are shuffled over the text."
    )
    names = (GELU, ENTERING, BEFORE, AFTER, RANDOM)
    spans = {name: mean_of(found[name], UNIT) for name in names} | {MOVED: share_of(np.array(moved) > 0)}
    run.figure(
        "explained",
        Bars(
            [BarGroup(name, [value], [low], [high]) for name, (value, (low, high)) in spans.items()],
            ["explained by one rule"],
            "share of neurons explained",
            "Neurons that one rule explains",
            better="high",
        ),
        "Share of neurons whose strong activations are explained by one rule. The 95 % intervals are over "
        "trainings; for shuffled activations, they are over neurons.",
    )
    each = [[name, value, *span, *found.get(name, [])] for name, (value, span) in spans.items()]
    pairs = [f"pair {number + 1}" for number in range(len(found[GELU]))]
    run.table(
        "Share of neurons that one rule explains",
        ["", "mean", "low", "high", *pairs],
        [row + [None] * (4 + len(pairs) - len(row)) for row in each],
    )


def compared(run: LabRun, found: dict[str, list[float]]) -> None:
    """Two groups of trainings, none paired with another."""
    value, span = beyond(found[BEFORE], found[GELU])
    more = "One rule explains more neurons with SoLU, before its LayerNorm, than with GELU"
    if run.fast:  # so few, small trainings: an interval above zero would be luck one time in eight
        more += ", or at most a tenth of the neurons fewer"
    run.claim(
        f"{more} (value: difference of the shares).",
        value=value,
        interval=span,
        holds=span[0] > (-MIN_DIFFERENCE if run.fast else 0.0),
        against=float(np.mean(found[GELU])),
        control="share with GELU",
    )
    claim_mean(
        run,
        "LayerNorm raises activations that SoLU made small: at least a tenth of the activations that are "
        "strong after LayerNorm were weak before it.",
        found[RAISED],
        above=0.1,
    )


def beyond(one: Sequence[float], other: Sequence[float]) -> tuple[float, Interval]:
    """(difference of means, 95 %) of two groups of trainings; Welch, as SoLU's shares spread more."""
    span = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    return float(np.mean(one) - np.mean(other)), (float(span.low), float(span.high))


def nothing(run: LabRun, found: dict[str, list[float]], moved: Sequence[float]) -> None:
    """moved: for each neuron whose activations were moved, by a draw of its own, 1 or 0."""
    value, span = share_of(np.array(moved) > 0)
    run.claim(
        "If the activations are shuffled over the text, one rule explains hardly any neuron (value: share of "
        "neurons).",
        value=value,
        interval=span,
        holds=span[1] < MAX_RANDOM_SHARE,
        against=float(np.mean(found[BEFORE])),
        control="share with SoLU before LayerNorm",
    )


def concluded(run: LabRun, found: dict[str, list[float]]) -> None:
    """Further differences, with their intervals and no claim: so few trainings need not settle them."""
    share = {name: np.array(values) for name, values in found.items()}
    found_too = {f"{AFTER} minus {GELU}": beyond(found[AFTER], found[GELU])}
    for name in (ENTERING, AFTER, RANDOM):  # of the same models: differences within a training
        found_too[f"{BEFORE} minus {name}"] = mean_of(share[BEFORE] - share[name])
    run.table(
        "Further differences of shares (95 % intervals over trainings)",
        ["difference", "mean", "low", "high", "the first share is"],
        [[name, value, *span, said(span)] for name, (value, span) in found_too.items()],
    )
    gain = float(share[BEFORE].mean() - share[GELU].mean())
    here = said(found_too[f"{BEFORE} minus {AFTER}"][1])
    run.say(
        "The shares differ much between trainings. So with "
        f"{len(share[GELU])} trainings of each kind, only the differences that the table calls higher or "
        "lower are significant. The share with SoLU (before the LayerNorm) minus the share with GELU is "
        f"{100 * gain:.0f} points. In the paper (quoted from memory) this difference is 25 points, between "
        "60 % and 35 %, for larger models and by human judgement. The paper also finds that neurons are "
        "easier to interpret before the LayerNorm than after it. Here, compared with the share after the "
        f"LayerNorm, the share before it is {here}."
    )


def said(span: Interval) -> str:
    """The word for an interval of a difference."""
    return "higher" if span[0] > 0 else "lower" if span[1] < 0 else "not significantly different"
