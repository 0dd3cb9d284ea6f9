"""Attention is not not explanation: Wiegreffe and Pinter's four tests, on models that run here.

    uniform     the BiLSTM trained again with its attention frozen to 1/T: does the task need attention?
    seeds       JSD between the attention of models that differ by a seed: what chance alone moves
    adversary   a model trained on TVD(y', y) - lambda KL(alpha' || alpha): the same answers, other attention
    guide       weights that are given to a network of words alone: do they say which words matter?

                uniform < learnt by the network < a model's attention,   and an adversary's attention last

They answer Jain and Wallace: weights that an adversary puts together sentence by sentence are no model, and a
model that is trained to look elsewhere has weights that are of no use to anyone else.

Adversaries start from drawn weights, as in the paper. Lambda goes beyond the paper's 5e-4, which it had 80
epochs for: here are a few.

Wiegreffe & Pinter, Attention is not not Explanation, EMNLP 2019; their numbers are of SST, and recalled: they
stand beside ours to compare with, and no claim rests on them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from heedful.core.charts import BarGroup, Bars, Scatter, Series
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.models.attention_setup import AttentionSetup, stage
from heedful.models.adapter import TokenModel
from heedful.nn.train import TrainConfig
from heedful.stats.divergence import LN2
from heedful.stats.intervals import nanmean_of
from heedful.trials.tests.guided_classifier import BUDGET, Guided, guide
from heedful.trials.tests.retrain_uniform import SCORES, UniformRetraining, frozen, judge
from heedful.trials.tests.seeds import Seeds, seeds
from heedful.trials.tests.trained_adversary import (
    LIMIT,
    AdversaryTraining,
    LambdaPoint,
    TrainedAdversary,
    trained_adversary,
)
from heedful.trials.training import answers

F1 = "macro-F1"
BASE, ADVERSARY, ONE = "BiLSTM", "adversary of the BiLSTM", "zoo:one-layer"
NAMES = {
    "uniform": "uniform",
    "trained": "learnt by the network",
    "model": ONE,
    "shuffled": "zoo:one-layer, weights shuffled",
}
RECALLED = "in the paper, on SST (quoted from memory)"
GUIDES = {"uniform": 0.812, "trained": 0.817, BASE: 0.824, ADVERSARY: 0.592}  # F1, recalled
TRAININGS = {"trained with learnt attention": 0.831, "trained with uniform attention": 0.822}  # F1, recalled
FAR = {"output": 0.036, "moved": 0.514, "f1": 0.823}  # the adversary at lambda 5.25e-4, recalled
GUIDED_STEPS = 100  # steps of a guided network


@dataclass(frozen=True)
class Size:
    """How much is run."""

    train: int
    test: int
    steps: int
    seeds: int  # the last is the BiLSTM that is looked at
    networks: int  # a guide
    weights: tuple[float, ...]  # lambda, from none to most
    longer: float  # steps of an adversary, as a multiple
    little: float  # of F1 or accuracy: few sentences and seeds leave wide intervals
    kept: float  # TVD up to which an adversary keeps the answers: few sentences teach them less well


FAST = Size(
    train=2000,
    test=1800,
    steps=70,
    seeds=3,
    networks=3,
    weights=(0.0, 0.05),
    longer=1.5,
    little=0.06,
    kept=0.1,
)
FULL = Size(
    train=6943,
    test=1800,
    steps=250,
    seeds=5,
    networks=8,
    weights=(0.0, 0.0005, 0.003, 0.01, 0.02, 0.03, 0.1),
    longer=2.0,
    little=0.03,
    kept=LIMIT,
)


@lab(
    "not-not-explanation",
    title="Attention is not not explanation: four tests of Wiegreffe and Pinter",
    minutes=5.0,
    cite="Wiegreffe & Pinter 2019",
)
def not_not_explanation(run: LabRun) -> None:
    size = FAST if run.fast else FULL
    here = stage(run.seed, size.train, size.test, size.steps)
    numbers = tuple(range(1000 * run.seed, 1000 * run.seed + size.seeds))
    drawn = here.untrained("lstm", numbers[0])
    flat = frozen(
        drawn, here.train, here.test, numbers, here.budget, progress=run.progress_of("training BiLSTMs")
    )
    tell_uniform(run, flat, size.little)
    *others, base = flat.students
    apart = seeds(base, here.train, here.test, numbers[:-1], students=others)
    moved = adversaries(run, here, base, size, apart)
    best = chosen(moved, size.kept)
    tell_adversary(run, here, flat, apart, moved)
    claim_adversary(run, apart, moved, best, size)
    led = guide(
        here.one,
        here.train,
        here.test,
        range(numbers[0], numbers[0] + size.networks),
        replace(BUDGET, steps=min(size.steps, GUIDED_STEPS)),
        others={BASE: base, ADVERSARY: best.models[0]},
        vectors=here.vectors,
        progress=run.progress_of("guided networks"),
    )
    tell_guides(run, led)
    tell_one_layer(run, here, size)


# --- is attention needed? ----------------------------------------------------------------------------------


def tell_uniform(run: LabRun, flat: UniformRetraining, little: float) -> None:
    run.say(
        "First, a BiLSTM that learns its attention is compared with a BiLSTM trained with uniform "
        "attention. If the second is as good as the first, the task needs no attention, and an attention "
        "map cannot show how the task must be solved."
    )
    results = {
        "trained with learnt attention": flat.free,
        "trained with uniform attention": flat.uniform,
        "always the majority class": flat.majority,
    }
    rows = []
    for name, judged in results.items():
        value, reach = judged.value(F1)
        rows.append((name, value, *reach, TRAININGS.get(name)))
    run.table("F1 of the BiLSTM", ("training", "F1", "low", "high", f"F1 {RECALLED}"), rows)
    gap, reach = flat.free.over(flat.uniform, F1)
    run.claim(
        f"The F1 of a BiLSTM trained with uniform attention is less than {100 * little:.0f} points lower "
        "than the F1 of a BiLSTM with learnt attention (value: loss of F1).",
        value=gap,
        interval=reach,
        holds=reach[1] < little,
        against=0.009,
        control=f"loss {RECALLED}",
    )


# --- another model that looks elsewhere --------------------------------------------------------------------


def adversaries(
    run: LabRun, here: AttentionSetup, model: TokenModel, size: Size, apart: Seeds
) -> TrainedAdversary:
    """One fit a lambda, from drawn weights."""
    config = replace(here.budget, weight_decay=0.0, steps=int(here.budget.steps * size.longer))
    return trained_adversary(
        model,
        here.train,
        here.test,
        AdversaryTraining(weights=size.weights, seeds=(run.seed,), config=config, start="fresh"),
        beside=apart,
        progress=run.progress_of("training adversaries"),
    )


def chosen(moved: TrainedAdversary, kept: float) -> LambdaPoint:
    """The one that went farthest and kept the answers; if none did, the one that moved them least, of which
    the claims will tell."""
    best = moved.best(kept) or moved.mildest()
    assert best is not None
    return best


def tell_adversary(
    run: LabRun, here: AttentionSetup, flat: UniformRetraining, apart: Seeds, moved: TrainedAdversary
) -> None:
    run.say(
        "Next, a second BiLSTM, the adversary, is trained to give the same answers as the first one, but "
        "with different attention. The larger lambda is, the more training rewards different attention. "
        "The change of the answers is a total variation distance (TVD), the change of attention a "
        "Jensen-Shannon divergence (JSD). For comparison, the table also shows how much two models with "
        "different seeds differ."
    )
    (among, _), (output, _) = apart.between(apart.among), apart.between(apart.among_output)
    rows: list[tuple[Any, ...]] = [
        ("two seeds", output, among, *(flat.free.value(score)[0] for score in SCORES)),
        *(_moved(point, here) for point in moved.points),
        (f"adversary {RECALLED}", FAR["output"], FAR["moved"], None, FAR["f1"]),
    ]
    columns = ("model", "change of the answers (TVD)", "change of attention (JSD)", "accuracy", "F1")
    run.table("Similar answers with different attention", columns, rows)
    series = [
        Series("adversaries, one dot per lambda", [(row[1], row[2]) for row in rows[1:-1]], joined=True),
        Series("two seeds", [(output, among)]),
        Series("adversary in the paper (from memory)", [(FAR["output"], FAR["moved"])]),
    ]
    title = "Change of attention and change of the answers"
    run.figure(
        "adversaries",
        Scatter(series, "change of the answers (TVD)", "change of attention (JSD)", title),
        "Means over test sentences. For comparison: the difference between two models with different seeds.",
    )


def _moved(point: LambdaPoint, here: AttentionSetup) -> tuple[Any, ...]:
    """A row: how far answers and attention went, and both scores."""
    result = judge([answers(each, here.test).argmax(1) for each in point.models], here.test, here.one)
    means = float(point.output.mean()), float(point.moved.mean())
    return f"lambda {point.weight:g}", *means, *(float(result.scores(score).mean()) for score in SCORES)


def claim_adversary(
    run: LabRun, apart: Seeds, moved: TrainedAdversary, best: LambdaPoint, size: Size
) -> None:
    none, most = moved.points[0], moved.points[-1]
    cost, reach = nanmean_of(most.output.mean(0) - none.output.mean(0))
    run.claim(
        "Different attention has a cost: the adversary is rewarded for different attention, more for a "
        "larger lambda. With the largest lambda, its answers differ more from those of the first model "
        "than with lambda 0 (value: difference of the TVD).",
        value=cost,
        interval=reach,
        holds=reach[0] > 0,
        against=0.0,
        control="difference if there were no cost",
    )
    gap, reach = nanmean_of(best.moved.mean(0) - apart.medians())
    kept = bool(best.output.mean() <= size.kept)
    run.claim(
        "The attention of an adversary differs more from that of the first model than attention differs "
        f"between two seeds, while its answers change by at most {size.kept:g} in TVD (value: difference "
        "of the JSD).",
        value=gap,
        interval=reach,
        holds=reach[0] > 0 and kept,
        against=0.0,
        control="difference if both differed equally",
    )
    gap, reach = nanmean_of(best.right.mean(0) - moved.own_right)
    run.claim(
        f"The accuracy of this adversary is at most {100 * size.little:.0f} points below that of the first "
        "model (value: difference of the accuracies).",
        value=gap,
        interval=reach,
        holds=reach[0] > -size.little,
        against=0.0,
        control="difference if both were equally accurate",
    )


# --- guides ------------------------------------------------------------------------------------------------


def tell_guides(run: LabRun, led: Guided) -> None:
    run.say(
        "Last, attention weights are used to guide another network: it reads each word separately, takes "
        "the mean of the words with the given weights, and has no access to the model that the weights "
        "come from. If the weights make this network better, they contain information about which words "
        "matter."
    )
    rows = []
    for name, judged in led.judged.items():
        value, reach = judged.value(F1)
        rows.append((NAMES.get(name, name), value, *reach, GUIDES.get(name)))
    rows.sort(key=lambda row: row[1])
    run.table(
        "F1 of the guided network, by the weights that guide it",
        ("weights", "F1", "low", "high", f"F1 {RECALLED}"),
        rows,
    )
    run.figure(
        "guides",
        Bars(
            [BarGroup(row[0], (row[1],), (row[2],), (row[3],)) for row in rows],
            ["F1"],
            "F1",
            "F1 of the guided network",
            better="high",
        ),
        "Bars: mean over networks; lines: 95 % intervals over networks and sentences.",
    )
    claim_guides(run, led)


def claim_guides(run: LabRun, led: Guided) -> None:
    claimed: list[tuple[str, str, str, float | None]] = [
        (
            "model",
            "uniform",
            "The guided network is better with attention of zoo:one-layer than with uniform weights",
            None,
        ),
        (
            "model",
            "shuffled",
            "The guided network is better with attention of zoo:one-layer than with the same weights "
            "after shuffling",
            None,
        ),
        (
            "trained",
            "uniform",
            "The guided network is better with weights that it learns itself than with uniform weights",
            0.005,
        ),
        (
            BASE,
            "uniform",
            "The guided network is better with attention of the BiLSTM than with uniform weights",
            0.012,
        ),
    ]
    unclaimed = [("model", "trained"), (BASE, "trained"), (BASE, ADVERSARY)]
    if run.fast:  # uniform weights are worse by two or three points: few networks cannot tell that from none
        unclaimed += [(some, other) for some, other, _, _ in claimed if other == "uniform"]
        claimed = [each for each in claimed if each[1] == "shuffled"]
    for some, other, sentence, recalled in claimed:
        gap, reach = led.judged[some].over(led.judged[other], F1)
        control = {"against": 0.0, "control": "difference if both were equally good"}
        if recalled is not None:
            control = {"against": recalled, "control": f"difference {RECALLED}"}
        words = f"{sentence} (value: difference of F1)."
        run.claim(words, value=gap, interval=reach, holds=reach[0] > 0, **control)  # type: ignore[arg-type]
    rows = [
        (f"{NAMES.get(some, some)} minus {NAMES.get(other, other)}", *_over(led, some, other))
        for some, other in unclaimed
    ]
    columns = ("weights that guide the network", "difference of F1", "low", "high")
    run.table("Further differences of F1, which are not claims", columns, rows)
    run.say(
        "In the paper (quoted from memory), the F1 is lowest with the adversary's attention, higher with "
        "uniform weights, still higher with learnt weights, and highest with the model's attention. Here "
        f"the weights of the BiLSTM {_beside(rows[1])} the weights that the network learns itself, and they "
        f"{_beside(rows[2])} the weights of the BiLSTM's adversary. These two results are not claims."
    )


def _over(led: Guided, some: str, other: str) -> tuple[float, float, float]:
    gap, reach = led.judged[some].over(led.judged[other], F1)
    return gap, *reach


def _beside(row: tuple[Any, ...]) -> str:
    """What an interval of differences says."""
    _, _, low, high = row
    if low > 0:
        return "guide the network better than"
    return "guide the network worse than" if high < 0 else "are not significantly better or worse than"


# --- the same on zoo:one-layer -----------------------------------------------------------------------------


def tell_one_layer(run: LabRun, here: AttentionSetup, size: Size) -> None:
    """As it is, with its attention made uniform; the full run trains it again and against itself."""
    own, even = (
        judge([answers(here.one, here.test, flat).argmax(1)], here.test, here.one) for flat in (False, True)
    )
    results = {"unchanged": own, "unchanged, but with uniform attention": even}
    rows: list[tuple[Any, ...]] = []
    moved = None
    if not run.fast:
        again, moved = one_layer_again(run, here)
        results |= {"trained again": again.free, "trained again with uniform attention": again.uniform}
        rows = [("adversary with " + name, *row) for name, *row in (_moved(p, here) for p in moved.points)]
    scored = [(name, None, None, *(each.value(s)[0] for s in SCORES)) for name, each in results.items()]
    columns = ("model", "change of the answers (TVD)", "change of attention (JSD)", "accuracy", "F1")
    run.table("The same tests on zoo:one-layer", columns, [*scored, *rows])
    gap, reach = own.over(even, F1)
    run.claim(
        "zoo:one-layer needs its learnt attention: with uniform attention, its F1 is lower (value: loss "
        "of F1).",
        value=gap,
        interval=reach,
        holds=reach[0] > 0,
        against=0.0,
        control="loss if attention did not matter",
    )
    if moved is not None:
        claim_one_layer(run, moved, size.little)


def one_layer_again(run: LabRun, here: AttentionSetup) -> tuple[UniformRetraining, TrainedAdversary]:
    """Trained again on these few sentences, with vectors of its own, it is far below zoo:one-layer itself;
    so adversaries start from its weights."""
    config = TrainConfig(steps=300, batch=32, lr=3e-3, warmup=20, weight_decay=0.05, progress=False)
    numbers = (1000 * run.seed, 1000 * run.seed + 1)
    again = frozen(
        here.one, here.train, here.test, numbers, config, progress=run.progress_of("zoo:one-layer")
    )
    moved = trained_adversary(
        here.one,
        here.train,
        here.test,
        AdversaryTraining(
            weights=(0.0, 0.001, 0.03, 0.3),
            seeds=(run.seed,),
            config=replace(config, lr=1e-3, weight_decay=0.0),
        ),
        progress=run.progress_of("adversaries of zoo:one-layer"),
    )
    return again, moved


def claim_one_layer(run: LabRun, moved: TrainedAdversary, little: float) -> None:
    best = moved.best() or moved.mildest()
    assert best is not None
    gap, reach = nanmean_of(best.right.mean(0) - moved.own_right)
    far, _ = nanmean_of(best.moved.mean(0))
    run.claim(
        "A copy of zoo:one-layer whose attention differs by more than a fifth of the largest possible JSD "
        f"is at most {100 * little:.0f} points less accurate than zoo:one-layer itself (value: difference "
        "of the accuracies).",
        value=gap,
        interval=reach,
        holds=reach[0] > -little and far > LN2 / 5,
        against=0.0,
        control="difference if both were equally accurate",
    )
