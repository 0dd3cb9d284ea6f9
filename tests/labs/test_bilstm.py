"""The recurrent classifier of the debate: against a recurrence written out, and behind heedful's door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.labs.models.bilstm import BiLSTM, BiLSTMConfig, new, trained
from heedful.models.attention_hooks import uniform
from heedful.nn.train import TrainConfig
from heedful.trials import training
from heedful.trials.batches import rows

CONFIG = BiLSTMConfig(vocab_size=220, width=6, hidden=5)
GOOD, BAD = "a lovely film", "a terrible bore of a film"


@pytest.fixture
def tokenizer(tokenizer_of: Callable[[str], Any]) -> Any:
    return tokenizer_of("wordpiece")


@pytest.fixture
def model(tokenizer: Any) -> Any:
    return new(CONFIG, tokenizer, seed=3)


def read(module: BiLSTM, e: Tensor, end: str) -> Tensor:
    """(T, hidden): one direction of an LSTM, gate by gate, in the order the text is read."""
    lstm: Any = module.lstm
    w, u = getattr(lstm, f"weight_ih_l0{end}"), getattr(lstm, f"weight_hh_l0{end}")
    b = getattr(lstm, f"bias_ih_l0{end}") + getattr(lstm, f"bias_hh_l0{end}")
    h = c = torch.zeros(CONFIG.hidden)
    states = []
    for x in e.flip(0) if end else e:
        i, f, g, o = (w @ x + u @ h + b).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return torch.stack(states[::-1] if end else states)


def by_hand(module: BiLSTM, ids: Tensor) -> tuple[Tensor, Tensor]:
    """(logits, alpha, states) of one text."""
    e = module.token.weight[ids]
    h = torch.cat([read(module, e, ""), read(module, e, "_reverse")], 1)
    alpha = (module.query.weight[0] @ (module.keys.weight @ h.T + module.keys.bias[:, None]).tanh()).softmax(
        0
    )
    return module.out.weight @ (alpha @ h) + module.out.bias, alpha


def test_a_padded_text_is_read_as_the_recurrence_written_out_reads_it(model: Any) -> None:
    ids = torch.tensor([[5, 9, 30, 7], [8, 6, 0, 0]])
    out = model.module.attend(ids, torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]))
    for row, length in enumerate((4, 2)):
        logits, alpha = by_hand(model.module, ids[row, :length])
        torch.testing.assert_close(out.logits[row], logits)
        torch.testing.assert_close(out.attention[row, 0, :length], alpha)
    assert out.attention[1, 0, 2:].eq(0).all()


def test_the_average_reads_each_token_alone(tokenizer: Any) -> None:
    module = new(BiLSTMConfig(220, "average", 6, 5), tokenizer, 0).module
    e, mask = torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(0)), torch.ones(1, 4)
    other = e.clone()
    other[0, 0] += 1
    changed = (module.states(e, mask) - module.states(other, mask)).abs().sum(-1)[0]
    assert changed[0] > 0
    assert changed[1:].eq(0).all()
    recurrent = new(CONFIG, tokenizer, 0).module
    assert (recurrent.states(e, mask) - recurrent.states(other, mask)).abs().sum(-1).gt(0).all()


def test_its_attention_can_be_changed_through_the_door(model: Any) -> None:
    assert {"edits", "attentions", "gradients"} <= model.capabilities
    x = model.encode(GOOD)
    with model.attending(lambda seen: seen.reweighed(uniform(seen))):
        flat = model.logits(x)
    module, e = model.module, model.module.token.weight[list(x.ids)]
    h = torch.cat([read(module, e, ""), read(module, e, "_reverse")], 1)
    torch.testing.assert_close(flat, module.out.weight @ h.mean(0) + module.out.bias)
    assert not torch.allclose(flat, model.logits(x))
    assert not module.mix._forward_hooks


def test_it_trains_frozen_and_free_and_copies_stand_alone(model: Any) -> None:
    data = rows(model, [GOOD, BAD] * 8, [1, 0] * 8)
    flat = training.run(model, data.pick(torch.tensor([0, 1])), frozen=True)
    assert flat.maps[0][0, 0, 0, : int(data.mask[0].sum())].unique().numel() == 1
    copy, other = training.copied(model), training.fresh(model, 1)
    assert torch.equal(copy.module.out.weight, model.module.out.weight)
    assert not torch.equal(other.module.out.weight, model.module.out.weight)
    before = model.module.out.weight.clone()
    training.fit(copy, data, TrainConfig(steps=2, batch=4, warmup=1, progress=False), 0)
    assert torch.equal(model.module.out.weight, before)
    assert training.place_of(model, data) == "first"


def test_training_learns_and_draws_from_its_seed_alone(tokenizer: Any) -> None:
    config = TrainConfig(steps=40, batch=8, lr=2e-2, warmup=4, progress=False)
    data = rows(new(CONFIG, tokenizer, 0), [GOOD, BAD] * 8, [1, 0] * 8)
    state = torch.random.get_rng_state()
    model, same, other = (trained(CONFIG, tokenizer, data, seed, config) for seed in (0, 0, 1))
    assert torch.equal(state, torch.random.get_rng_state())
    assert (training.answers(model, data).argmax(1) == data.labels.numpy()).all()
    assert torch.equal(model.module.out.weight, same.module.out.weight)
    assert not torch.equal(model.module.out.weight, other.module.out.weight)


def test_another_encoder_is_refused() -> None:
    with pytest.raises(HeedfulError, match="lstm or average"):
        BiLSTM(BiLSTMConfig(10, "cnn"))
