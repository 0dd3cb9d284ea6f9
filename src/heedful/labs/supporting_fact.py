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
        f"Stories of 3 to {sizes.longest} sentences, {len(data)} for training, {len(test)} new ones for "
        f"testing. Example: {'. '.join(lines)}. Question: {question}? The supporting fact is the last "
        "sentence that names the person."
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
    return f"{kind[0]}, {'uniform' if kind[1] else 'own'} attention"


def tell_answers(
    run: LabRun, models: Mapping[tuple[str, bool], Sequence[StoryReader]], test: Stories
) -> None:
    shares = {kind: [right(model, test) for model in some] for kind, some in models.items()}
    rows = [(named(kind), value, *span) for kind, each in shares.items() for value, span in [over(each)]]
    run.table("Test stories answered right", ("reader", "share", "at least", "at most"), rows)
    for encoder in ENCODERS:
        value, span = over(shares[encoder, False])
        run.claim(
            f"With its own attention, the reader {encoder!r} answers nearly every question correctly.",
            value=value,
            interval=span,
            holds=span[0] > 0.9,
        )
    value, span = over(shares["asked", True])
    alone = over(shares["alone", True])
    run.claim(
        "With uniform attention, the reader whose states have read the question still answers most "
        "questions correctly.",
        value=value,
        interval=span,
        holds=span[0] > MOST_SHARE,
        against=alone[0],
        control="sentences read alone, uniform attention",
    )
    run.claim(
        "With uniform attention over sentences read separately, the question cannot influence the answer: "
        "less than two thirds are correct.",
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
                f"The largest weight of the reader {kind[0]!r} is on the supporting fact in most stories.",
                value=value,
                interval=span,
                holds=span[0] > MOST_SHARE,
                against=float(last.mean()),
                control="the last sentence",
            )
    rows.append(("always the last sentence", *_flat(over([last])), float(last.mean())))
    chance = (1 / many).double().numpy()
    rows.append(("a random sentence", *_flat(over([chance])), float(chance.mean())))
    columns = ("reader", "largest weight on the fact", "at least", "at most", "weight of the fact")
    run.table("Does attention point to the supporting fact?", columns, rows)


def _flat(found: tuple[float, Interval]) -> tuple[float, float, float]:
    return found[0], *found[1]


# --- other attention ---------------------------------------------------------------------------------------


def tell_other(
    run: LabRun, models: Mapping[str, Sequence[StoryReader]], test: Stories, rng: torch.Generator
) -> None:
    results = {encoder: [other(model, test, rng) for model in some] for encoder, some in models.items()}
    rows: list[tuple[object, ...]] = []
    labels = {
        "changed": "answers that a random order of the weights changes",
        "follows": "random orders whose answer is the place in the sentence with the largest weight",
        "flat": "answers that uniform weights keep",
        "same": "all weight on another sentence with the same place: answers kept",
        "different": "all weight on a sentence with another place: answers kept",
    }
    for name, label in labels.items():
        rows += [(encoder, label, *_flat(_of(each, name))) for encoder, each in results.items()]
    run.table("Other attention in the same reader", ("reader", "of", "share", "at least", "at most"), rows)
    alone = {name: _of(results["alone"], name) for name in labels}
    run.claim(
        "Sentences read separately: the answer follows the weights. With permuted weights it is mostly "
        "the place in the sentence with the largest weight.",
        value=alone["follows"][0],
        interval=alone["follows"][1],
        holds=alone["follows"][1][0] > 0.75,
        against=1 - alone["changed"][0],
        control="the answer stays what it was",
    )
    run.claim(
        "Sentences read separately: all weight on another sentence keeps the answer if that sentence "
        "names the same place.",
        value=alone["same"][0],
        interval=alone["same"][1],
        holds=alone["same"][1][0] > MOST_SHARE,
        against=alone["different"][0],
        control="where it names another place",
    )
    run.claim(
        "Sentences read separately: if it names another place, the answer is lost.",
        value=alone["different"][0],
        interval=alone["different"][1],
        holds=alone["different"][1][1] < RARE_SHARE,
    )
    run.say(
        "So there is very different attention with the same answer, but only on a sentence with the same "
        "place. This shows that the answer can be read from more than one sentence. It does not show that "
        "weights mean nothing."
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
            f"Removal, {named(kind)}: in most stories, the sentence whose removal lowers the answer most "
            "is the supporting fact.",
            value=value,
            interval=span,
            holds=span[0] > 0.7,
            against=float((1 / test.real.sum(1)).mean()),
            control="a random sentence",
        )
    columns = ("reader", "largest fall is the fact's", "at least", "at most", "fall without the fact")
    run.table("Does removal point to the supporting fact?", (*columns, "largest fall without another"), rows)
    run.say(
        "Removal finds the fact in all readers that answer correctly, even if attention is uniform. It "
        "misses the fact if an older sentence about the person names the same place: without the fact "
        "this sentence decides, and the answer correctly stays the same."
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
            groups, ["attention", "removal"], "share of stories", "The supporting fact found", better="high"
        ),
        "Share of test stories in which the largest weight, or the largest fall by removal, is the fact's.",
    )
    chosen = telling(test)
    row = test.pick(slice(chosen, chosen + 1))
    many, fact = int(row.real.sum()), int(row.fact[0])
    values: list[list[float]] = []
    for kind in READ:
        with torch.no_grad():
            values.append(models[kind][0].attend(row)[0][0, :many].tolist())
        values.append(np.clip(removed(models[kind][0], row)[0, :many], 0, 1).tolist())
    names = [f"{kind[0]}{', uniform' * kind[1]}: {by}" for kind in READ for by in ("attention", "removal")]
    *lines, question = test.text(chosen)
    marked = [(fact, column) for column in range(len(names))]
    table = Matrix(f"{question}?", list(zip(*values, strict=True)), lines, names, marked)
    run.figure(
        "story",
        Matrices([table], "One story: attention and fall by removal, sentence by sentence", across=1),
        "One story, sentence by sentence: attention, and the fall of the answer's probability without the"
        " sentence, in three readers. The outline is the supporting fact.",
    )


def telling(some: Stories) -> int:
    """A long story whose fact is not its last sentence and follows another move of the same person."""
    older = (some.person == some.asked[:, None]) & (some.place != some.answer[:, None])
    good = older.any(1) & (some.fact < some.real.sum(1) - 1)
    return int((some.real.sum(1) + some.words.shape[1] * good).argmax())
