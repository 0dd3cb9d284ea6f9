"""The training loop: the schedule's numbers, who is decayed, and that it learns and repeats."""

import math

import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.nn import GPT2, GPT2Config, TrainConfig, decay_groups, fit, learning_rate, train, windows

TINY = GPT2Config(vocab_size=20, context=8, layers=1, heads=2, width=16, dropout=0.1)
ROW = torch.arange(400, dtype=torch.int16) % 13  # kept small, as a corpus would be
QUIET = TrainConfig(steps=60, batch=8, lr=1e-2, warmup=5, progress=False)


def test_schedule_by_hand() -> None:
    c = TrainConfig(steps=101, lr=1.0, warmup=10, floor=0.2)
    assert learning_rate(0, c) == pytest.approx(0.1)
    assert learning_rate(9, c) == pytest.approx(1.0)
    assert learning_rate(10, c) == pytest.approx(1.0)
    assert learning_rate(55, c) == pytest.approx(0.6)  # half way: (1 + .2) / 2
    assert learning_rate(100, c) == pytest.approx(0.2)
    assert learning_rate(10**6, c) == pytest.approx(0.2)
    down = [learning_rate(s, c) for s in range(10, 101)]
    assert down == sorted(down, reverse=True)


def test_gains_and_biases_are_not_decayed() -> None:
    model = GPT2(TINY)
    names = {id(p): name for name, p in model.named_parameters()}
    decayed, free = decay_groups(model, 0.1)
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    free_names = {names[id(p)] for p in free["params"]}  # type: ignore[attr-defined]
    assert free_names == {n for n in names.values() if n.endswith("bias") or "norm" in n}
    assert len(decayed["params"]) + len(free["params"]) == len(names)  # type: ignore[arg-type]


def test_it_learns_a_cycle_and_repeats_bit_for_bit() -> None:
    before = torch.get_rng_state()
    first, second, other = GPT2(TINY), GPT2(TINY), GPT2(TINY)
    losses = train(first, ROW, QUIET)
    assert losses[0] == pytest.approx(math.log(20), abs=0.2)  # an untrained model is nearly uniform
    assert losses[-1] < 0.5 * losses[0]
    assert train(second, ROW, QUIET) == losses
    assert train(other, ROW, TrainConfig(**{**vars(QUIET), "seed": 1})) != losses
    assert torch.equal(torch.get_rng_state(), before)
    assert not first.training
    after = first(torch.tensor([[3, 4, 5, 6, 7]])).argmax(-1)
    assert after[0, -1].item() == 8


def test_one_step_is_adamw_by_hand() -> None:
    """theta <- theta (1 - lr wd) - lr g / (|g| + eps): Adam's first step has length lr whatever g is."""
    layer = torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -2.0]]))
    config = TrainConfig(steps=1, lr=0.1, warmup=1, weight_decay=0.5, clip=1e9, progress=False)
    fit(layer, lambda _: (layer.weight * torch.tensor([3.0, -4.0])).sum(), config)
    want = torch.tensor([[1.0 * 0.95 - 0.1, -2.0 * 0.95 + 0.1]])
    torch.testing.assert_close(layer.weight.detach(), want, atol=1e-6, rtol=0)


def test_gradients_are_clipped_to_the_norm() -> None:
    layer = torch.nn.Linear(2, 1, bias=False)

    def loss(step: int) -> torch.Tensor:
        return (layer.weight * torch.tensor([30.0, -40.0])).sum()

    norms = []
    original = torch.optim.AdamW.step

    def spy(self: torch.optim.AdamW, closure: None = None) -> None:
        norms.append(layer.weight.grad.norm().item())  # type: ignore[union-attr]
        original(self, closure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", spy)
        fit(layer, loss, TrainConfig(steps=2, clip=2.0, progress=False))
    assert norms == pytest.approx([2.0, 2.0], abs=1e-4)


def test_windows_are_stretches_of_the_row() -> None:
    rng = torch.Generator().manual_seed(0)
    rows = windows(torch.arange(50), 500, 9, rng)
    assert (rows.diff(dim=1) == 1).all()
    assert rows.min() == 0
    assert rows.max() == 49, "the last token is reached"
    assert windows(ROW, 2, 5, rng).dtype == torch.int64


def test_the_callback_may_evaluate_and_training_goes_on() -> None:
    model, seen = GPT2(TINY), []

    def evaluate(step: int, loss: float) -> None:
        model.eval()
        seen.append((step, loss))

    losses = train(model, ROW, TrainConfig(**{**vars(QUIET), "steps": 3}), evaluate)
    assert seen == list(enumerate(losses))
    assert losses == train(GPT2(TINY), ROW, TrainConfig(**{**vars(QUIET), "steps": 3}))


def test_the_bar_is_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    train(GPT2(TINY), ROW, TrainConfig(steps=2, batch=2))
    out, err = capsys.readouterr()
    assert out == ""
    assert "training" in err
    train(GPT2(TINY), ROW, TrainConfig(steps=2, batch=2, progress=False))
    assert capsys.readouterr() == ("", "")


def test_a_loss_that_is_no_number_stops_with_a_word_of_advice() -> None:
    layer = torch.nn.Linear(1, 1)
    with pytest.raises(HeedfulError, match="nan at step 0"):
        fit(layer, lambda _: layer.weight.sum() * math.nan, TrainConfig(steps=2, progress=False))
