"""Attention is not not explanation: Wiegreffe and Pinter's four tests, on models that run here.

    uniform     the BiLSTM trained again with its attention frozen to 1/T: does the task need attention?
    seeds       JSD between the attention of models that differ by a seed: what chance alone moves
    adversary   a model trained on TVD(y', y) - lambda KL(alpha' || alpha): the same answers, other attention
    guide       weights that are given to a network of words alone: do they say which words matter?

                uniform < learnt by the network < a model's attention,   and an adversary's attention last

They answer Jain and Wallace: weights that an adversary puts together sentence by sentence are no model, and a
model that is trained to look elsewhere has weights that are of no use to anyone else.

Wiegreffe & Pinter, Attention is not not Explanation, EMNLP 2019; their numbers are of SST.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from heedful.debate.frozen import Frozen, frozen
from heedful.debate.guide import BUDGET, Guided, guide
from heedful.debate.seeds import Seeds, seeds
from heedful.debate.spread import mean_of
from heedful.debate.trained_adversary import Point, TrainedAdversary, trained_adversary
from heedful.labs.frame import LabRun, lab
from heedful.labs.stage import Stage, stage
from heedful.nn.train import TrainConfig
from heedful.view.charts import Group, bars
from heedful.view.plots import Series, scatter

F1 = "macro-F1"
BASE, ADVERSARY, ONE = "BiLSTM", "adversary of the BiLSTM", "zoo:one-layer"
NAMES = {
    "uniform": "uniform",
    "trained": "learnt by the network",
    "model": ONE,
    "shuffled": "zoo:one-layer, shuffled",
}
PUBLISHED = {"uniform": 0.812, "trained": 0.817, BASE: 0.824, ADVERSARY: 0.592}  # F1 on SST
LITTLE = 0.08  # of F1 or accuracy
BRIEFLY = 100  # steps of a guided network


@dataclass(frozen=True)
class Size:
    """How much is run."""

    train: int
    test: int
    steps: int
    seeds: int
    networks: int  # a guide
    weights: tuple[float, ...]  # lambda


FAST = Size(2000, 800, 70, 2, 4, (0.1,))
FULL = Size(6943, 1800, 250, 4, 8, (0.0, 0.003, 0.03, 0.3))


@lab(
    "not-not-explanation",
    title="Attention is not not explanation: four tests of Wiegreffe and Pinter",
    minutes=6.0,
    cite="Wiegreffe & Pinter 2019",
)
def not_not_explanation(run: LabRun) -> None:
    size = FAST if run.fast else FULL
    here = stage(run.seed, size.train, size.test, size.steps)
    numbers = tuple(range(1000 * run.seed, 1000 * run.seed + size.seeds))
    base = here.model("lstm", numbers[-1] + 1)
    flat = frozen(base, here.train, here.test, numbers, here.budget, progress=_say(run, "free and uniform"))
    tell_uniform(run, flat)
    apart = seeds(base, here.train, here.test, numbers, students=flat.students)
    moved = adversaries(run, here, base, size, apart)
    best = moved.best(float("inf"))
    assert best is not None
    tell_adversary(run, apart, moved, best)
    given = {BASE: base, ADVERSARY: best.models[0]}
    led = guide(
        here.one, here.train, here.test, range(numbers[0], numbers[0] + size.networks),
        replace(BUDGET, steps=min(size.steps, BRIEFLY)), others=given,
        vectors=here.vectors, progress=_say(run, "guided networks"),
    )  # fmt: skip
    tell_guides(run, led)
    if not run.fast:
        tell_one_layer(run, here, numbers)


def _say(run: LabRun, what: str) -> Any:
    return lambda done, total: run.progress(done, total, what)


# --- is attention needed? ----------------------------------------------------------------------------------


def tell_uniform(run: LabRun, flat: Frozen) -> None:
    run.say(
        """First, a BiLSTM trained with attention and one trained without: every state weighs the same. If the
        second is as good, the task needs no attention, and a map of it cannot say how it must be done."""
    )
    told = {
        "trained freely": flat.free,
        "trained with uniform attention": flat.uniform,
        "majority": flat.majority,
    }
    published = {"trained freely": 0.831, "trained with uniform attention": 0.822}
    rows = []
    for name, judged in told.items():
        value, reach = judged.value(F1)
        rows.append((name, value, *reach, published.get(name)))
    run.table("F1 of the BiLSTM", ("training", "F1", "at least", "at most", "published, SST"), rows)
    gap, reach = flat.free.over(flat.uniform, F1)
    run.claim(
        "Trained with uniform attention, a BiLSTM loses little: less than eight hundredths of F1",
        value=gap, interval=reach, holds=reach[1] < LITTLE, against=0.009, control="published loss, SST",
    )  # fmt: skip


# --- another model that looks elsewhere --------------------------------------------------------------------


def adversaries(run: LabRun, here: Stage, model: Any, size: Size, apart: Seeds) -> TrainedAdversary:
    """One fit a lambda, from the model's own weights."""
    config = replace(here.budget, weight_decay=0.0, steps=here.budget.steps * 5 // 4)
    return trained_adversary(
        model, here.train, here.test, size.weights, (run.seed,), config, beside=apart,
        progress=_say(run, "training adversaries"),
    )  # fmt: skip


def tell_adversary(run: LabRun, apart: Seeds, moved: TrainedAdversary, best: Point) -> None:
    run.say(
        """Next, a second BiLSTM is trained to answer like the first and to look elsewhere. How far it came
        means something beside what a mere seed does."""
    )
    (among, _), (output, _) = apart.between(apart.among), apart.between(apart.among_output)
    rows = [
        ("two seeds", output, among, apart.right.mean()),
        *((f"lambda {p.weight:g}", p.output.mean(), p.moved.mean(), p.right.mean()) for p in moved.points),
        ("published adversary, SST", 0.036, 0.514, 0.823),
    ]
    columns = ("model", "answers moved, TVD", "attention moved, JSD", "accuracy (published: F1)")
    run.table("The same answers, other attention", columns, rows)
    curve = [(float(point.output.mean()), float(point.moved.mean())) for point in moved.points]
    series = [
        Series("adversaries, a dot a lambda", curve, joined=True),
        Series("two seeds", [(output, among)]),
        Series("published adversary, SST", [(0.036, 0.514)]),
    ]
    run.figure(
        "adversaries",
        scatter(
            series, "answers moved (TVD)", "attention moved (JSD)", "How far attention goes for how little"
        ),
        "Means over held-out sentences. Two models that differ by a seed are the scale.",
    )
    claim_adversary(run, apart, moved, best)


def claim_adversary(run: LabRun, apart: Seeds, moved: TrainedAdversary, best: Point) -> None:
    gap, reach = mean_of(best.moved.mean(0) - apart.medians())
    run.claim(
        "A model trained to look elsewhere moves attention farther than another seed does",
        value=gap, interval=reach, holds=reach[0] > 0, against=0.0, control="as far as a seed",
    )  # fmt: skip
    gap, reach = mean_of(best.right.mean(0) - moved.own_right)
    run.claim(
        "It stays as accurate, within eight hundredths",
        value=gap, interval=reach, holds=reach[0] > -LITTLE, against=0.0, control="as accurate as the first",
    )  # fmt: skip


# --- guides ------------------------------------------------------------------------------------------------


def tell_guides(run: LabRun, led: Guided) -> None:
    run.say(
        """Last, the weights are handed to a network that reads each word alone and knows nothing of the model
        they come from. Weights that help it are about the words."""
    )
    rows = []
    for name, judged in led.judged.items():
        value, reach = judged.value(F1)
        rows.append((NAMES.get(name, name), value, *reach, PUBLISHED.get(name)))
    rows.sort(key=lambda row: row[1])
    run.table(
        "F1 of a network of words, by its guide",
        ("weights", "F1", "at least", "at most", "published, SST"),
        rows,
    )
    run.figure(
        "guides",
        bars([Group(row[0], (row[1],), (row[2],), (row[3],)) for row in rows], ["F1"], "F1", "Guides, ours"),
        "Bars: mean over networks; lines: 95 % intervals over networks and sentences.",
    )
    claim_guides(run, led)


def claim_guides(run: LabRun, led: Guided) -> None:
    pairs = (
        ("model", "uniform", "Attention of zoo:one-layer guides better than uniform weights", None),
        ("model", "shuffled", "It guides better than the same weights in another order", None),
        ("trained", "uniform", "Weights that the network learns guide better than uniform ones", 0.005),
        (BASE, "uniform", "Attention of the BiLSTM guides better than uniform weights", 0.012),
    )
    for some, other, sentence, published in pairs:
        gap, reach = led.judged[some].over(led.judged[other], F1)
        control = {"against": 0.0, "control": "no difference"}
        if published is not None:
            control = {"against": published, "control": "published difference, SST"}
        run.claim(sentence, value=gap, interval=reach, holds=reach[0] > 0, **control)  # type: ignore[arg-type]
    rows = [
        (f"{NAMES.get(some, some)} rather than {NAMES.get(other, other)}", *_over(led, some, other))
        for some, other in (("model", "trained"), (BASE, "trained"), (BASE, ADVERSARY))
    ]
    run.table("Differences of F1 that are not claimed", ("guide", "more F1", "at least", "at most"), rows)
    run.say(
        """The published order is uniform, learnt, the model's. That a model's attention guides better than
        uniform weights shows here, too; between the model's and those that the network learns by itself the
        table cannot tell. Networks learn briefly here: with two and a half times as many steps, uniform
        weights caught up to about the published difference, which so few sentences hardly tell from none. An
        adversary's weights guided worse than the model's; how much worse changed with the seed, from hardly
        to by far."""
    )


def _over(led: Guided, some: str, other: str) -> tuple[float, float, float]:
    gap, reach = led.judged[some].over(led.judged[other], F1)
    return gap, *reach


# --- the same on zoo:one-layer -----------------------------------------------------------------------------


def tell_one_layer(run: LabRun, here: Stage, numbers: Sequence[int]) -> None:
    """Trained again on these few sentences, with vectors of its own: far below zoo:one-layer itself."""
    config = TrainConfig(steps=300, batch=32, lr=3e-3, warmup=20, weight_decay=0.05, progress=False)
    flat = frozen(here.one, here.train, here.test, numbers[:2], config, progress=_say(run, "zoo:one-layer"))
    moved = trained_adversary(
        here.one, here.train, here.test, (0.0, 0.03, 0.3), (run.seed,),
        replace(config, lr=1e-3, weight_decay=0.0), progress=_say(run, "adversaries of zoo:one-layer"),
    )  # fmt: skip
    judged = {"as it is": flat.own, "as it is, attention made uniform": flat.own_uniform,
              "trained again": flat.free, "trained again, uniform attention": flat.uniform}  # fmt: skip
    rows: list[tuple[Any, ...]] = [(name, each.value(F1)[0], None, None) for name, each in judged.items()]
    for point in moved.points:
        told = (float(each.mean()) for each in (point.right, point.output, point.moved))
        rows.append((f"adversary, lambda {point.weight:g}", *told))
    columns = ("zoo:one-layer", "F1 (adversaries: accuracy)", "answers moved, TVD", "attention moved, JSD")
    run.table("The same tests on zoo:one-layer", columns, rows)
