"""Induction heads: planted maps with known stripes, an exact induction circuit, and a model that has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from heedful.core.errors import HeedfulError
from heedful.heads.roles import induction as module
from heedful.heads.roles.induction import induction, judge, stripes, uniform_share
from heedful.models.adapter import TokenModel
from heedful.models.backend import Backend

PERIOD, START = 5, 1
LENGTH = START + 2 * PERIOD


def planted(offset: int, weight: float = 1.0) -> np.ndarray[Any, Any]:
    """(T, T) a causal map: `weight` at i - offset where that is visible, the rest on position 0."""
    maps = np.zeros((LENGTH, LENGTH), dtype=np.float32)
    for i in range(LENGTH):
        maps[i, 0] = 1
        if i - offset > 0:
            maps[i, 0], maps[i, i - offset] = 1 - weight, weight
    return maps


def test_stripes_of_planted_maps() -> None:
    heads = [planted(PERIOD - 1, 0.75), planted(PERIOD, 0.5), planted(1)]
    even = np.tril(np.ones((LENGTH, LENGTH), dtype=np.float32))
    even /= even.sum(1, keepdims=True)
    found = stripes(np.stack([*heads, even])[None, None], START, PERIOD)  # (1, 1, 4, 3)
    expected = np.array([[0.75, 0, 0], [0, 0.5, 0], [0, 0, 1]])
    assert found[0, 0, :3] == pytest.approx(expected)
    assert found[0, 0, 3] == pytest.approx(np.full(3, uniform_share(START, PERIOD)))


def test_only_the_second_copy_is_read() -> None:
    maps = np.zeros((1, 1, 1, LENGTH, LENGTH), dtype=np.float32)
    for i in range(START + PERIOD):  # the first copy: must not matter
        maps[..., i, :] = 1
    assert stripes(maps, START, PERIOD).max() == 0


def test_uniform_share_by_hand() -> None:
    assert uniform_share(0, 3) == pytest.approx((1 / 4 + 1 / 5 + 1 / 6) / 3)
    assert uniform_share(1, 3) == pytest.approx((1 / 5 + 1 / 6 + 1 / 7) / 3)


def judged(scores: float, control: float, spread: float, margin: float = 0.1) -> Any:
    """One head of two, 8 draws."""
    noise = spread * np.linspace(-1, 1, 8)
    repeated, fresh = np.zeros((8, 1, 2, 3)), np.zeros((8, 1, 2, 3))
    repeated[:, 0, 1, 0] = scores + noise
    fresh[:, 0, 1, 0] = control
    return judge(repeated, fresh, 0.01, margin)


def test_a_head_is_named_above_its_control_and_margin_only() -> None:
    assert [head.roles for head in judged(0.5, 0.05, 0.02)] == [(), ("induction",)]
    assert judged(0.5, 0.45, 0.02)[1].roles == ()  # looks there without any repetition
    assert judged(0.12, 0.0, 0.05)[1].roles == ()  # above the margin, but not for sure
    assert judged(0.12, 0.0, 0.05, margin=0.01)[1].roles == ("induction",)
    share = judged(0.5, 0.05, 0.02)[1].induction
    assert (share.value, share.control) == pytest.approx((0.5, 0.05))
    assert share.interval[0] < 0.45 < share.interval[1]


def test_intervals_are_for_all_heads_and_both_roles_together() -> None:
    """Two heads, two roles: four claims."""
    values = 0.5 + 0.02 * np.linspace(-1, 1, 8)
    error = values.std(ddof=1) / np.sqrt(8)
    expected = stats.t.interval(1 - 0.05 / 4, 7, 0.45, error)
    assert judged(0.5, 0.05, 0.02)[1].induction.interval == pytest.approx(expected)


def test_previous_is_measured_against_even_attention() -> None:
    scores = np.zeros((8, 1, 1, 3))
    scores[..., 2] = 0.8
    (head,) = judge(scores, scores, 0.02)
    assert head.previous.control == 0.02
    assert head.previous.interval == pytest.approx((0.78, 0.78))
    assert head.roles == ()


class Circuit(Backend):
    """An exact two-layer induction circuit behind the backend's door.

    Head (0, 0) looks at the previous token, (1, 0) at the token after the last earlier occurrence of its own,
    (1, 1) at that occurrence; the logits copy what (1, 0) looks at. Without one, position 0 is looked at.
    """

    name, kind, window = "toy", "causal-lm", 64
    vocabulary = 60

    def offers(self) -> frozenset[str]:
        return frozenset({"attentions"})

    def traced(self, inputs: Any, hidden: bool = False) -> Any:
        ids = inputs.ids
        batch, length = ids.shape
        maps = torch.zeros(2, batch, 2, length, length)
        logits = torch.zeros(batch, length, self.vocabulary)
        maps[0, :, 1, :, 0] = 1
        for b in range(batch):
            for i in range(length):
                maps[0, b, 0, i, max(i - 1, 0)] = 1
                same = [j for j in range(i) if ids[b, j] == ids[b, i]]
                maps[1, b, 0, i, same[-1] + 1 if same else 0] = 1
                maps[1, b, 1, i, same[-1] if same else 0] = 1
                if same:
                    logits[b, i, ids[b, same[-1] + 1]] = 20
        from heedful.models.backend import TraceOutput

        return TraceOutput(logits, logits, attentions=tuple(maps))


class Toy(TokenModel):
    """Just enough of a model; its tokenizer adds id 0 in front."""

    name, kind, window = "toy", "causal-lm", 64

    def __init__(self) -> None:
        from heedful.core.cost import Meter

        self.backend, self.meter, self.tokenizer = Circuit(), Meter(), self
        self.all_special_ids = [0]

    def __len__(self) -> int:
        return 60

    def encode(self, raw: Any, long: str = "error") -> Any:
        from heedful.modalities.text import TextInput

        spans = ((0, 0), (0, 1))
        return TextInput("a", (0, 5), ("s", "a"), spans, (True, False), (-1, 0), ((0, 1),), (-1, 0))


def test_an_exact_circuit_is_found() -> None:
    found = induction(Toy(), period=8, draws=4)
    roles = {(head.layer, head.head): head.roles for head in found.heads}
    assert roles == {(0, 0): (), (0, 1): (), (1, 0): ("induction",), (1, 1): ("duplicate",)}
    (copier,) = found.named("induction")
    assert (copier.induction.value, copier.induction.control) == (1.0, 0.0)
    assert found.heads[0].previous.value == 1.0
    # the first copy is guessed evenly, the second known: log 60 nats are gained, save rounding
    assert found.loss.first == pytest.approx(np.log(60), abs=1e-5)
    assert found.loss.change == pytest.approx(-np.log(60), abs=1e-5)
    assert found.loss.control == pytest.approx(0, abs=1e-6)


def test_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Any] = []
    toy = Toy()
    seen = toy.backend.traced
    monkeypatch.setattr(
        toy.backend, "traced", lambda inputs, **_: rows.extend(inputs.ids.tolist()) or seen(inputs)
    )
    induction(toy, period=8, draws=3, seed=5)
    assert len(rows) == 6
    assert toy.meter.read().forwards == 6
    for repeated, fresh in zip(rows[:3], rows[3:], strict=True):
        assert repeated[0] == fresh[0] == 0  # the tokenizer's own first token
        assert repeated[1:9] == repeated[9:] == fresh[1:9]
        assert len(set(fresh)) == 17  # nothing twice, nothing special
    assert rows[0] != rows[1]


def test_seeds(shared: Callable[[str], Any]) -> None:
    model = shared("gpt2").model
    first, same, other = (induction(model, period=8, draws=3, seed=seed) for seed in (0, 0, 1))
    assert first.to_dict() == same.to_dict()
    assert first.heads != other.heads


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_random_weights_have_none_and_stay_as_they_were(shared: Callable[[str], Any], name: str) -> None:
    family = shared(name)
    before = {key: value.clone() for key, value in family.hf.state_dict().items()}
    setting = family.hf.config._attn_implementation
    found = induction(family.model, period=20, draws=6)
    assert len(found.heads) == 8
    assert not found.named("induction")
    assert not any(head.duplicate.interval[0] > 0.5 for head in found.heads)
    assert abs(found.loss.change) < 1
    assert family.hf.config._attn_implementation == setting
    assert all(torch.equal(value, before[key]) for key, value in family.hf.state_dict().items())


def test_scores_and_losses_are_those_of_the_model(shared: Callable[[str], Any]) -> None:
    """One text by hand: attentions from the model itself, cross entropy from torch."""
    family, period = shared("llama"), 10
    found = induction(family.model, period=period, draws=2, seed=1)
    vocabulary = module._vocabulary(family.model)
    repeated, _ = module._texts(vocabulary, period, 2, 1)
    ids = torch.tensor(np.concatenate([np.full((2, 1), 1), repeated], 1))  # llama's <s> is 1
    with torch.no_grad():
        family.hf.set_attn_implementation("eager")
        out = family.hf(ids, output_attentions=True)
        family.hf.set_attn_implementation("sdpa")
    mine = [out.attentions[1][:, 2, i, i - period + 1].mean().item() for i in range(11, 21)]
    assert found.heads[6].induction.value == pytest.approx(np.mean(mine), rel=1e-5)
    loss = torch.nn.functional.cross_entropy
    first = loss(out.logits[:, 1:10].flatten(0, 1), ids[:, 2:11].flatten())
    second = loss(out.logits[:, 11:20].flatten(0, 1), ids[:, 12:21].flatten())
    assert (found.loss.first, found.loss.second) == pytest.approx((first.item(), second.item()), rel=1e-5)


def test_table_has_a_row_a_head(shared: Callable[[str], Any]) -> None:
    found = induction(shared("gpt2").model, period=8, draws=2)
    rows = found.table()
    assert [(row["layer"], row["head"]) for row in rows] == [(i, j) for i in range(2) for j in range(4)]
    assert rows[3]["duplicate_control"] == found.heads[3].duplicate.control
    assert found.to_dict()["heads"][3]["duplicate"]["value"] == rows[3]["duplicate"]


def test_mistakes_are_told(shared: Callable[[str], Any]) -> None:
    gpt2 = shared("gpt2").model
    with pytest.raises(HeedfulError, match="period of at most 32"):
        induction(gpt2, period=33)
    with pytest.raises(HeedfulError, match="at least 2 draws"):
        induction(gpt2, period=8, draws=1)
    with pytest.raises(HeedfulError, match="causal language model"):
        induction(shared("bert").model)
    with pytest.raises(HeedfulError, match="30 different tokens"):
        module._texts(np.arange(20), 15, 2, 0)


def test_the_embedded_language_model_has_none_and_does_not_copy() -> None:
    """The numbers of docs/heads.md: neither a head nor the loss shows induction."""
    import heedful

    found = induction(heedful.load("zoo:lm"))
    assert not found.named("induction") + found.named("duplicate")
    assert max(head.induction.value - head.induction.control for head in found.heads) < 0.004
    assert (found.loss.first, found.loss.second) == pytest.approx((13.24, 13.23), abs=0.01)
