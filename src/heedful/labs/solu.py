"""SoLU against GELU: at equal loss, how many neurons does one rule explain, before and after LayerNorm?

    SoLU(x) = x * softmax(x)      a large entry silences the small ones; equal ones share
    in the model LayerNorm(SoLU(x)): it trains as well as GELU, and can make large again what SoLU made small

Two one-layer language models that differ in their activation alone; the one that learns faster is taken at
the step at which it was as good as the other is at its end. Then, for every neuron:

    firing      its activation is at least half of its greatest
    rule        one condition (a token, the end of a word, what stands before, ...) from half of the windows
    explained   in the other half it holds at 80 % of the firings or more, at 10 % of other places or fewer

Controls: random directions in the space of the neurons (are neurons special at all?), and neurons whose
activations were moved to other places of the text (what does the method find where there is nothing?). In the
paper people judged the strongest firings in larger models: 35 % of the neurons were explained with GELU, 60 %
with SoLU.
Draws the share of neurons explained.

Elhage et al., Softmax Linear Units, 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from heedful.intervals import student
from heedful.labs.frame import LabRun, lab
from heedful.labs.means import claim_mean
from heedful.labs.neuron_rules import STRONG, Places, Values, explained
from heedful.labs.small_lm import in_windows, losses, tokenizer, tokens
from heedful.nn import GPT2, MLP, Block, GPT2Config, TrainConfig, solu, train
from heedful.types import Floats
from heedful.view.charts import Group, bars

EQUAL = 0.05  # nats a token
GELU, ENTERING, BEFORE, AFTER = "GELU", "entering SoLU", "SoLU", "SoLU, LayerNorm"
RANDOM, MOVED, RAISED = ", random directions", ", moved", "raised"


@dataclass(frozen=True)
class Sizes:
    """Of the experiment."""

    vocab: int
    width: int  # of the model, which has four times as many neurons
    context: int
    steps: int
    every: int  # steps between two looks at the loss
    pairs: int
    firings: int  # a neuron, in each half of the windows


FAST = Sizes(512, 32, 32, 600, 15, 1, 20)
FULL = Sizes(1024, 64, 64, 1500, 25, 3, 40)


@lab(
    "solu",
    title="SoLU against GELU: neurons that one rule explains",
    minutes=6.0,
    cite="Elhage et al., Softmax Linear Units, 2022",
)
def solu_against_gelu(run: LabRun) -> None:
    by_hand(run)
    sizes = FAST if run.fast else FULL
    reader = tokenizer(sizes.vocab, sizes.context)
    text, held = tokens(reader, "train"), in_windows(tokens(reader, "held"), sizes.context)
    place = Places(held, reader, sizes.firings)
    gaps: list[Floats] = []
    found: dict[str, list[float]] = {}
    for number in range(sizes.pairs):
        seed = run.seed + 100 * number
        gelu, soft = trained_pair(run, sizes, text, held[0::2], seed)
        gaps.append(losses(soft, held[1::2]) - losses(gelu, held[1::2]))
        values_of = activations(gelu, soft, held)
        found.setdefault(RAISED, []).extend(raised(values_of[BEFORE], values_of[AFTER]))
        for name, values in values_of.items():
            run.progress(number, sizes.pairs, "judging neurons")
            for kind, shown in (("", values), (RANDOM, turned(values, seed)[::2]), (MOVED, values[::3])):
                found.setdefault(name + kind, []).extend(explained(place, shown, seed, kind == MOVED))
    equal(run, np.concatenate(gaps))
    compared(run, {name: np.array(values) for name, values in found.items()})


# --- by hand ---------------------------------------------------------------------------------------


def by_hand(run: LabRun) -> None:
    """The worked examples: large entries share or stand alone, small ones go."""
    given = [(4.0, 1.0, 4.0, 1.0), (4.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0)]
    made = [solu(torch.tensor(x, dtype=torch.float64)).tolist() for x in given]
    run.table("SoLU of four numbers", ("x", "SoLU(x)"), zip(map(_row, given), map(_row, made), strict=True))
    off = max(abs(a - b) for a, b in zip(made[0], (2.0, 0.0, 2.0, 0.0), strict=True))
    run.claim(
        "SoLU of (4, 1, 4, 1) is (2, 0, 2, 0) to within a tenth: two large entries share, small ones go",
        value=off,
        holds=off < 0.1,
        exact=True,
    )
    run.claim(
        "SoLU of (4, 0, 0, 0) keeps more than nine tenths of the entry that stands alone",
        value=made[1][0] / 4,
        holds=made[1][0] / 4 > 0.9 and not any(made[1][1:]),
        against=made[2][0],
        control="of four equal entries each keeps",
        exact=True,
    )


def _row(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{value:.3g}" for value in values) + ")"


# --- two models of equal loss ----------------------------------------------------------------------


def trained_pair(run: LabRun, sizes: Sizes, text: Tensor, look: Tensor, seed: int) -> tuple[GPT2, GPT2]:
    """With GELU and with SoLU, each at the step that brings it nearest to the end of the slower one."""
    models, paths = [], []
    for name in ("gelu", "solu-ln"):
        config = GPT2Config(sizes.vocab, sizes.context, 1, 4, sizes.width, activation=name)
        models.append(GPT2(config, seed))
        paths.append(path_of(run, models[-1], text, look[::8], sizes, seed))
    target = max(path[-1][0] for path in paths)
    for model, path in zip(models, paths, strict=True):
        model.load_state_dict(min(path, key=lambda point: abs(point[0] - target))[1])
    return models[0], models[1]


Point = tuple[float, dict[str, Tensor]]  # held-out loss, weights


def path_of(run: LabRun, model: GPT2, text: Tensor, look: Tensor, sizes: Sizes, seed: int) -> list[Point]:
    """Train at a steady rate, and keep what the model was at every look, all in the second half."""
    path: list[Point] = []

    def after(step: int, _: float) -> None:
        if (step + 1) % sizes.every == 0 and step >= sizes.steps // 2:
            weights = {name: value.clone() for name, value in model.state_dict().items()}
            path.append((float(losses(model, look).mean()), weights))
            run.progress(step + 1, sizes.steps, f"training with {model.config.activation}")

    train(model, text, TrainConfig(sizes.steps, 16, 6e-3, 1.0, 20, seed=seed, progress=False), after)
    return path


def equal(run: LabRun, gap: Floats) -> None:
    run.say(
        """Two one-layer language models are trained on the same windows in the same order. The one that
        learns faster is taken earlier, where it was as good as the other is at its end. On windows that had
        no part in that choice the losses are compared."""
    )
    claim_mean(
        run,
        "The two models are equally good: their held-out losses differ by less than 0.05 nats a token",
        gap,
        above=-EQUAL,
        below=EQUAL,
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
    seen: list[Tensor] = []
    hook = mlp_of(model).up.register_forward_hook(lambda module, args, out: seen.append(out))
    try:
        model.hidden(rows)
    finally:
        hook.remove()
    return seen[0]


def turned(neurons: Values, seed: int) -> Values:
    """As many random directions, at right angles to each other, of the neurons' space."""
    count = len(neurons)
    drawn = torch.randn(count, count, generator=torch.Generator().manual_seed(seed))
    basis: Tensor = torch.linalg.qr(drawn)[0]
    made: Values = torch.tensordot(basis, torch.from_numpy(neurons), 1).numpy()
    return made


def raised(before: Values, after: Values) -> list[float]:
    """Of each neuron's (windows, T) strong firings after LayerNorm, the share that was weak before."""
    strong = [v >= STRONG * np.maximum(v.max((1, 2), keepdims=True), 1e-9) for v in (before, after)]
    fresh, count = (strong[1] & ~strong[0]).sum((1, 2)), strong[1].sum((1, 2))
    return [float(share) for share in fresh[count > 0] / count[count > 0]]


# --- what was found --------------------------------------------------------------------------------


def compared(run: LabRun, found: dict[str, Floats]) -> None:
    names, kinds = (GELU, ENTERING, BEFORE, AFTER), ("", RANDOM, MOVED)
    groups = []
    for name in names:
        bands = [student(found[name + kind][:, None], 1) for kind in kinds]
        low, high = [max(0.0, float(b.low[0])) for b in bands], [float(b.high[0]) for b in bands]
        groups.append(Group(name, [float(b.mean[0]) for b in bands], low, high))
    series = ["neurons", "random directions", "neurons, activations moved"]
    run.figure(
        "explained",
        bars(groups, series, "share explained", "Neurons that one rule explains"),
        "Share of neurons whose strong firings one rule explains, with 95 % intervals over neurons.",
    )
    run.table("Share explained", ("", *series), [(g.name, *g.values) for g in groups])
    for name, where in ((BEFORE, "before"), (AFTER, "after")):
        claim_mean(
            run,
            f"One rule explains more neurons with SoLU, {where} its LayerNorm, than with GELU",
            found[name] - found[GELU],
            above=0.0,
            against=float(found[GELU].mean()),
            control="share with GELU",
        )
    claim_mean(
        run,
        "It is SoLU that makes the difference: of what enters it, one rule explains less",
        found[BEFORE] - found[ENTERING],
        above=0.0,
        against=float(found[ENTERING].mean()),
        control="share of what enters SoLU",
    )
    claim_mean(
        run,
        "LayerNorm raises what SoLU made small: of the strong firings after it a tenth or more were weak",
        found[RAISED],
        above=0.1,
    )
    more = "More" if found[BEFORE].mean() > found[AFTER].mean() else "Not more"
    run.say(
        f"""{more} neurons are explained before the LayerNorm than after it. The paper finds them cleaner
        before; models as small as these agree with it only once they are trained for longer than the
        fast run is."""
    )
    claim_mean(
        run,
        "SoLU makes neurons special: one rule explains far more of them than of random directions",
        found[BEFORE][::2] - found[BEFORE + RANDOM],
        above=0.0,
        against=float(found[BEFORE + RANDOM].mean()),
        control="share of random directions",
    )
    claim_mean(
        run,
        "Where activations were moved to other places, one rule explains hardly any",
        np.concatenate([found[name + MOVED] for name in names]),
        below=0.05,
        against=float(found[BEFORE].mean()),
        control="share with SoLU before LayerNorm",
    )
