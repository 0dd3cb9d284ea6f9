"""The counting lab: its measures against hand-made cases, its proofs against models that break them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch

from heedful.core.lab_report import Claim
from heedful.labs import histogram as lab
from heedful.labs.base.registry import LabRun
from heedful.labs.measures import counting_explained as asking
from heedful.labs.models.counting import (
    CountConfig,
    Counter,
    Recipe,
    answers,
    counts,
    freed,
    further,
    sequences,
    train,
)

SMALL = CountConfig(length=5, letters=4, half=8, hidden=16)


def counter(reads: str) -> Counter:
    return Counter(CountConfig(**{**vars(SMALL), "reads": reads}), torch.Generator().manual_seed(1))


def test_counts_are_those_of_python() -> None:
    x = torch.randint(4, (20, 5), generator=torch.Generator().manual_seed(0))
    assert counts(x).tolist() == [[row.count(letter) for letter in row] for row in x.tolist()]


def test_train_and_test_share_no_sequence() -> None:
    x, test = sequences(SMALL, 600, torch.Generator().manual_seed(0))
    rows = [tuple(row) for part in (x, test) for row in part.tolist()]
    assert len(rows) == len(set(rows))
    assert abs(len(x) / len(rows) - 0.7) < 0.01


def test_training_learns_what_is_there_and_repeats_itself() -> None:
    x, test = sequences(SMALL, 2000, torch.Generator().manual_seed(0))
    config = CountConfig(**{**vars(SMALL), "reads": "positional"})
    runs = [train(config, x, Recipe(steps=60, batch=64, rate=1e-2), 3) for _ in range(2)]
    right = [answers(model, test)[0] for model in runs]
    assert torch.equal(*right)
    untrained = answers(Counter(config, torch.Generator().manual_seed(3)), test)[0]
    assert right[0].float().mean() > untrained.float().mean() + 0.2


@pytest.mark.parametrize("reads", ["semantic", "positional"])
def test_a_freed_model_is_the_same_function(reads: str) -> None:
    model, x = counter(reads), torch.randint(4, (9, 5), generator=torch.Generator().manual_seed(2))
    free = freed(model, 0.0, 0)
    assert free.config.reads == "both"
    torch.testing.assert_close(free(free.embed(x))[0], model(model.embed(x))[0])
    assert not torch.equal(freed(model, 1e-3, 0).place, model.place)


def test_positional_attention_never_changes_and_a_leak_is_seen() -> None:
    x = torch.randint(4, (50, 5), generator=torch.Generator().manual_seed(2))
    assert lab.spread(counter("positional"), x) == 0.0
    assert lab.spread(freed(counter("positional"), 1e-3, 0), x) > 0.0


def test_semantic_attention_follows_a_permutation_and_a_leak_is_seen() -> None:
    x = torch.randint(4, (50, 5), generator=torch.Generator().manual_seed(2))
    rng = torch.Generator().manual_seed(4)
    assert lab.moved(counter("semantic"), x, rng) < 1e-6
    assert lab.moved(freed(counter("semantic"), 1e-2, 0), x, rng) > 1e-5


def test_found_is_the_share_of_ordered_pairs() -> None:
    copy = np.array([True, False, True, False])
    assert asking.found(np.array([3.0, 1.0, 2.0, 0.0]), copy) == 1.0
    assert asking.found(np.array([0.0, 1.0, 2.0, 1.0]), copy) == 0.5
    assert asking.found(np.zeros(4), copy) == 0.5


def test_moves_tells_places_from_sequences() -> None:
    rng = np.random.default_rng(0)
    assert asking.moves(np.tile(rng.random(6) / 3, (7, 1))) == 0.0
    assert asking.moves(rng.normal(size=(4000, 6))) > 0.99
    both = rng.normal(size=(4000, 1, 6))[:, 0] + rng.normal(size=6)
    place = both.mean(0).var()
    assert asking.moves(both) == pytest.approx(1 / (1 + place), rel=0.05)


def test_questions_ask_for_two_to_four_copies_and_leave_the_last_letter_out() -> None:
    x = asking.questions(CountConfig(length=6, letters=6), 60, 0)
    assert set(counts(x)[:, 0].tolist()) == {2, 3, 4}
    assert int(x.max()) == 4


def test_the_explained_model_is_the_trained_one_at_its_first_place() -> None:
    model = counter("both")
    door = asking.asked(model)
    x = door.encode("b a b c a")
    assert list(x.ids) == [1, 0, 1, 2, 0]
    with torch.no_grad():
        logits, weights = model(model.embed(torch.tensor([list(x.ids)])))
        other = model(model.embed(torch.tensor([[1, 0, 3, 2, 0]])))[0][0, 0]  # the last letter stands in
    target = door.target(x, {"label": 2, "contrast": 1})
    trace = door.trace(x, target)
    assert trace.output == pytest.approx(float(logits[0, 0, 2] - logits[0, 0, 1]), abs=1e-5)
    torch.testing.assert_close(trace.attentions[0][0, 0], weights[0, 0])
    removed = door.values(x, target, np.array([[True, True, False, True, True]]))
    assert removed[0] == pytest.approx(float(other[2] - other[1]), abs=1e-5)


def test_attention_that_reads_letters_fails_the_positional_claims() -> None:
    """The claim of zero variance is about what was measured, not about the name."""
    x = torch.randint(4, (50, 5), generator=torch.Generator().manual_seed(2))
    one = lab.Trained(counter("semantic"), counter("semantic"), np.ones(3), [], 1)
    run = LabRun(fast=True)
    lab.looking(run, {"positional": [one], "semantic": [one]}, x, torch.Generator().manual_seed(0))
    first = next(
        part for part in run.parts if getattr(part, "sentence", "").startswith("Positional attention")
    )
    assert not first.holds  # type: ignore[union-attr]


def test_training_on_changes_the_freed_model_and_not_the_one_given() -> None:
    model, x = counter("semantic"), torch.randint(4, (64, 5), generator=torch.Generator().manual_seed(2))
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def sgd(params: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=0.1)

    still, gone = (further(model, x, 16, sgd, steps, 0.0, 0) for steps in (0, 5))
    torch.testing.assert_close(answers(still, x)[1], answers(model, x)[1])
    assert float((answers(gone, x)[1] - answers(model, x)[1]).abs().max()) > 1e-4
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(("solved", "early", "holds"), [(0.01, 0.2, True), (0.2, 0.2, False)])
def test_attention_that_moves_as_much_as_that_of_an_early_model_does_not_stay(
    solved: float, early: float, holds: bool
) -> None:
    rng = np.random.default_rng(0)
    moved = {
        (name, kind, when): size * rng.uniform(0.5, 1.5, 50)
        for name in lab.OPTIMISERS
        for kind in lab.KINDS
        for when, size in (("early", early), ("solved", solved))
    }
    run = LabRun()
    lab.stays(run, moved)
    (claim,) = (part for part in run.parts if isinstance(part, Claim))
    assert claim.holds is holds
    assert claim.value == pytest.approx(solved / early, rel=0.2)
    moved["Adam", "semantic", "solved"] = moved["Adam", "semantic", "early"]  # one kind leaves: not both stay
    lab.stays(run, moved)
    assert not run.parts[-2].holds  # type: ignore[union-attr]


def test_removal_that_misses_copies_fails_its_claim() -> None:
    names = [*asking.METHODS, "random"]
    rng, n = np.random.default_rng(0), 30
    scores = {kind: {name: rng.random((n, 4)) for name in names} for kind in lab.KINDS}
    for found, holds in ((1.0, True), (0.95, False)):  # each sequence misses a little
        aucs = {kind: np.full((n, len(names)), found) for kind in lab.KINDS}
        run = LabRun()
        asking.who_notices(run, names, aucs, scores)
        told = [p.holds for p in run.parts if isinstance(p, Claim) and "remove letters" in p.sentence]
        assert told == [holds, holds]
