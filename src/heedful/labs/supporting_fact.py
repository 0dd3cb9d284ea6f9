"""Does attention point to the supporting fact, and does the answer survive other attention?

Small readers answer "Where is Sandra?" about a story of moves; the fact that decides is known. In one reader
a state is one sentence's ("alone"), in the other every state has read the story and the question ("asked").
Both are trained with attention of their own and with uniform attention, which points to nothing.

    pointed    the sentence with the largest weight is the fact; beside the last sentence, and 1 / n
    follows    attention in a random order: the answer is the place of the sentence that now weighs most
    survives   all weight on one other sentence: the answer stays the same
    removed    fall of the answer's probability without a sentence; what matters most by that is the fact

Where sentences are read alone, the answer has to come through the weights: attention that points elsewhere
gives another answer, unless the sentence there names the same place. Where states have read the question, the
weights may say nothing: a reader with uniform attention answers as well, and removal still finds the fact.

Weston et al. 2015 (bAbI, task 1); Jain & Wallace 2019; Wiegreffe & Pinter 2019 (uniform attention).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from heedful.core.arrays import Floats
from heedful.core.charts import BarGroup, Bars, Matrices, Matrix
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.data.stories import ENCODERS, ReaderConfig, Stories, StoryReader, stories
from heedful.labs.measures.story_measures import Other, other, pointed, removed, right
from heedful.nn.train import TrainConfig, fit
from heedful.stats.intervals import UNIT, Interval, two_way_mean

SOLVED_SHARE = 0.97  # share of answers that counts as solved
ROUNDS = 20  # of training, at most
READ = (("alone", False), ("asked", False), ("asked", True))  # readers that can answer: encoder, uniform
MOST_SHARE, RARE_SHARE = 0.85, 0.15  # of stories or sentences
READERS = {"alone": "separate", "asked": "joint"}  # as the report calls them


@dataclass(frozen=True)
class StorySizes:
    longest: int  # sentences of a story
    train: int
    test: int
    models: int  # of each kind
    steps: int  # of a round


FULL = StorySizes(10, 100_000, 500, 3, 500)
FAST = StorySizes(5, 50_000, 400, 1, 150)


@lab(
    "supporting-fact",
    title="Attention and the supporting fact: does attention point to it, and does the answer need it?",
    minutes=3.0,
    cite="Weston et al. 2015; Jain & Wallace 2019; Wiegreffe & Pinter 2019",
)
def supporting_fact(run: LabRun) -> None:
    sizes = FAST if run.fast else FULL
    data = stories(sizes.train, sizes.longest, 2 * run.seed)
    test = stories(sizes.test, sizes.longest, 2 * run.seed + 1)
    *lines, question = test.text(0)
    run.say(
        f"The stories have 3 to {sizes.longest} sentences; {len(data)} stories are used for training and "
        f"{len(test)} new ones for testing. Example: {'. '.join(lines)}. Question: {question}? The "
        "supporting fact is the last sentence that names the person in the question. There are two kinds of "
        "readers. In the separate reader, each state has read only one sentence. In the joint reader, each "
        "state has read the whole story and the question. Each kind is trained once with learnt attention "
        "and once with uniform attention."
    )
    kinds = [(encoder, flat) for encoder in ENCODERS for flat in (False, True)]
    models: dict[tuple[str, bool], list[StoryReader]] = {kind: [] for kind in kinds}
    for number in range(sizes.models):
        for kind, some in models.items():
            run.progress(sum(map(len, models.values())), 4 * sizes.models, "training")
            some.append(trained(kind, data, sizes, 1000 * run.seed + number))
    tell_answers(run, models, test)
    tell_pointed(run, models, test)
    own = {encoder: models[encoder, False] for encoder in ENCODERS}
    tell_other(run, own, test, torch.Generator().manual_seed(run.seed))
    tell_removed(run, models, test)
    draw(run, models, test)


def trained(kind: tuple[str, bool], data: Stories, sizes: StorySizes, seed: int) -> StoryReader:
    """Round by round until it answers right what it trains on; test stories have no say. Sentences read alone
    under uniform attention cannot be answered (the question does not reach the answer): one round."""
    encoder, flat = kind
    model = StoryReader(ReaderConfig(encoder, longest=sizes.longest, uniform=flat), seed)
    rng = torch.Generator().manual_seed(seed)

    def loss(_: int) -> Tensor:
        batch = data.pick(torch.randint(len(data), (64,), generator=rng))
        return nn.functional.cross_entropy(model(batch), batch.answer)

    config = TrainConfig(sizes.steps, 64, 1e-2, warmup=20, weight_decay=0.01, seed=seed, progress=False)
    for _ in range(1 if (encoder, flat) == ("alone", True) else ROUNDS):
        fit(model, loss, config)
        if right(model, data.pick(slice(2000))).mean() >= SOLVED_SHARE:
            break
    return model.requires_grad_(False)


def over(values: Sequence[Floats], limits: Interval = UNIT) -> tuple[float, Interval]:
    """(mean, 95 %) of (models, stories), over both; two models say too little of models: over stories."""
    rows = np.stack(values)
    return two_way_mean(rows if len(rows) > 2 else rows.mean(0, keepdims=True), limits)


# --- answers -----------------------------------------------------------------------------------------------


def named(kind: tuple[str, bool]) -> str:
    return f"{READERS[kind[0]]} reader with {'uniform' if kind[1] else 'learnt'} attention"


def tell_answers(
    run: LabRun, models: Mapping[tuple[str, bool], Sequence[StoryReader]], test: Stories
) -> None:
    shares = {kind: [right(model, test) for model in some] for kind, some in models.items()}
    rows = [(named(kind), value, *span) for kind, each in shares.items() for value, span in [over(each)]]
    run.table("Share of test stories answered correctly", ("reader", "share", "low", "high"), rows)
    for encoder in ENCODERS:
        value, span = over(shares[encoder, False])
        run.claim(
            f"The {named((encoder, False))} answers nearly every question correctly.",
            value=value,
            interval=span,
            holds=span[0] > 0.9,
        )
    value, span = over(shares["asked", True])
    alone = over(shares["alone", True])
    run.claim(
        "The joint reader, whose states have read the question, answers most questions correctly even with "
        "uniform attention.",
        value=value,
        interval=span,
        holds=span[0] > MOST_SHARE,
        against=alone[0],
        control="the separate reader with uniform attention",
    )
    run.claim(
        "In the separate reader with uniform attention, the question cannot influence the answer. This "
        "reader answers less than two thirds of the questions correctly.",
        value=alone[0],
        interval=alone[1],
        holds=alone[1][1] < 2 / 3,
    )


# --- where attention points --------------------------------------------------------------------------------


def tell_pointed(
    run: LabRun, models: Mapping[tuple[str, bool], Sequence[StoryReader]], test: Stories
) -> None:
    many = test.real.sum(1)
    last = (test.fact == many - 1).double().numpy()
    rows: list[tuple[object, ...]] = []
    for kind, some in models.items():
        hits, weights = zip(*(pointed(model, test) for model in some), strict=True)
        value, span = over(hits)
        rows.append((named(kind), value, *span, over(weights)[0]))
        if not kind[1]:
            run.claim(
                f"In most stories, the {named(kind)} puts its largest weight on the supporting fact.",
                value=value,
                interval=span,
                holds=span[0] > MOST_SHARE,
                against=float(last.mean()),
                control="share of stories whose last sentence is the fact",
            )
    rows.append(("always the last sentence", *_flat(over([last])), float(last.mean())))
    chance = (1 / many).double().numpy()
    rows.append(("a random sentence", *_flat(over([chance])), float(chance.mean())))
    columns = ("reader", "largest weight is on the fact", "low", "high", "mean weight of the fact")
    run.table("Does attention point to the supporting fact? (shares of test stories)", columns, rows)


def _flat(found: tuple[float, Interval]) -> tuple[float, float, float]:
    return found[0], *found[1]


# --- other attention ---------------------------------------------------------------------------------------


def tell_other(
    run: LabRun, models: Mapping[str, Sequence[StoryReader]], test: Stories, rng: torch.Generator
) -> None:
    results = {encoder: [other(model, test, rng) for model in some] for encoder, some in models.items()}
    rows: list[tuple[object, ...]] = []
    labels = {
        "changed": "shuffled weights that change the answer",
        "follows": "shuffled weights whose answer is the place in the sentence with the largest weight",
        "flat": "answers that stay the same with uniform weights",
        "same": "all weight on another sentence that names the same place: answers that stay the same",
        "different": "all weight on a sentence that names another place: answers that stay the same",
    }
    for name, label in labels.items():
        rows += [
            (f"{READERS[encoder]} reader", label, *_flat(_of(each, name)))
            for encoder, each in results.items()
        ]
    columns = ("reader", "what is counted", "share", "low", "high")
    run.table("Other attention weights in the same reader (with learnt attention)", columns, rows)
    alone = {name: _of(results["alone"], name) for name in labels}
    run.claim(
        "In the separate reader, the answer follows the weights: if they are shuffled, the answer is mostly "
        "the place in the sentence that now has the largest weight (value: share of shuffled weights).",
        value=alone["follows"][0],
        interval=alone["follows"][1],
        holds=alone["follows"][1][0] > 0.75,
        against=1 - alone["changed"][0],
        control="share of shuffled weights that do not change the answer",
    )
    run.claim(
        "In the separate reader, all weight can be moved to another sentence that names the same place: the "
        "answer stays the same (value: share of answers that stay the same).",
        value=alone["same"][0],
        interval=alone["same"][1],
        holds=alone["same"][1][0] > MOST_SHARE,
        against=alone["different"][0],
        control="share if the sentence names another place",
    )
    run.claim(
        "In the separate reader, the answer changes if all weight is moved to a sentence that names another "
        "place (value: share of answers that stay the same).",
        value=alone["different"][0],
        interval=alone["different"][1],
        holds=alone["different"][1][1] < RARE_SHARE,
    )
    run.say(
        "So very different attention can give the same answer, but only if it is on a sentence that names "
        "the same place. This shows that the answer can be read from more than one sentence. It does not "
        "show that attention weights mean nothing."
    )


def _of(found: Sequence[Other], name: str) -> tuple[float, Interval]:
    """Over models and the stories that have a number (the same stories for all)."""
    rows = np.stack([getattr(one, name) for one in found])
    return over(list(rows[:, np.isfinite(rows).all(0)]))


# --- removal -----------------------------------------------------------------------------------------------


def tell_removed(
    run: LabRun, models: Mapping[tuple[str, bool], Sequence[StoryReader]], test: Stories
) -> None:
    rows: list[tuple[object, ...]] = []
    fact = test.fact.numpy()
    index = np.arange(len(fact))
    for kind in READ:
        falls = [removed(model, test) for model in models[kind]]
        value, span = over([by_removal(model, test) for model in models[kind]])
        others = [np.where(np.arange(fall.shape[1]) == fact[:, None], -np.inf, fall) for fall in falls]
        largest = over([np.clip(np.max(fall, 1), 0, 1) for fall in others])[0]
        mean = over([fall[index, fact] for fall in falls], (-1.0, 1.0))[0]
        rows.append((named(kind), value, *span, mean, largest))
        run.claim(
            f"For the {named(kind)}, the supporting fact is in most stories the sentence whose removal "
            "lowers the probability of the answer most.",
            value=value,
            interval=span,
            holds=span[0] > 0.7,
            against=float((1 / test.real.sum(1)).mean()),
            control="share for a random sentence",
        )
    columns = (
        "reader",
        "largest fall is by removal of the fact",
        "low",
        "high",
        "mean fall by removal of the fact",
        "mean of the largest fall by removal of another sentence",
    )
    title = "Does removal point to the supporting fact? (share of stories, and falls of the probability of "
    run.table(f"{title}the answer)", columns, rows)
    run.say(
        "Removal finds the fact in all readers that answer correctly, even if attention is uniform. It "
        "misses the fact if an older sentence about the same person names the same place. Then, if the "
        "fact is removed, this older sentence decides the answer, and the answer correctly stays the same."
    )


def by_removal(model: StoryReader, some: Stories) -> Floats:
    """(N,) 1 where the largest fall is the fact's."""
    return np.asarray(removed(model, some).argmax(1) == some.fact.numpy(), dtype=float)


# --- figures -----------------------------------------------------------------------------------------------


def draw(run: LabRun, models: Mapping[tuple[str, bool], Sequence[StoryReader]], test: Stories) -> None:
    groups = []
    for kind in READ:
        parts = (
            over([pointed(model, test)[0] for model in models[kind]]),
            over([by_removal(model, test) for model in models[kind]]),
        )
        low, high = [p[1][0] for p in parts], [p[1][1] for p in parts]
        groups.append(BarGroup(named(kind), [p[0] for p in parts], low, high))
    run.figure(
        "found",
        Bars(
            groups,
            ["attention", "removal"],
            "share of stories",
            "Stories in which the fact is found",
            better="high",
        ),
        "Share of test stories in which the supporting fact has the largest attention weight, or in which "
        "its removal lowers the probability of the answer most.",
    )
    chosen = telling(test)
    row = test.pick(slice(chosen, chosen + 1))
    many, fact = int(row.real.sum()), int(row.fact[0])
    values: list[list[float]] = []
    for kind in READ:
        with torch.no_grad():
            values.append(models[kind][0].attend(row)[0][0, :many].tolist())
        values.append(np.clip(removed(models[kind][0], row)[0, :many], 0, 1).tolist())
    names = [
        f"{READERS[kind[0]]}{', uniform' * kind[1]}: {by}" for kind in READ for by in ("attention", "removal")
    ]
    *lines, question = test.text(chosen)
    marked = [(fact, column) for column in range(len(names))]
    table = Matrix(f"{question}?", list(zip(*values, strict=True)), lines, names, marked)
    run.figure(
        "story",
        Matrices([table], "One story: attention, and fall of the probability by removal", across=1),
        "One story: the attention on each sentence, and the fall of the answer's probability without this "
        "sentence, in three readers. The outline marks the supporting fact.",
    )


def telling(some: Stories) -> int:
    """A long story whose fact is not its last sentence and follows another move of the same person."""
    older = (some.person == some.asked[:, None]) & (some.place != some.answer[:, None])
    good = older.any(1) & (some.fact < some.real.sum(1) - 1)
    return int((some.real.sum(1) + some.words.shape[1] * good).argmax())
