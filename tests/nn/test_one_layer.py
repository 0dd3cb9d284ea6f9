"""The one-layer classifier against a loop by hand, its closed-form gradient and its own file."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.nn import OneLayerClassifier, OneLayerConfig, sinusoids

CONFIG = OneLayerConfig(vocab_size=30, heads=3, width=8, d_att=4, d_out=5, context=12, classes=3)
EXACT = 1e-12  # float64 against float64: rounding only
IDS = torch.tensor([[1, 7, 3, 7, 9, 2], [1, 4, 4, 0, 0, 0]])  # 0 pads


def model(**changes: object) -> OneLayerClassifier:
    config = OneLayerConfig(**{**vars(CONFIG), **changes})
    return OneLayerClassifier(config, seed=1).double()


@torch.no_grad()
def by_hand(m: OneLayerClassifier, e: Tensor, keep: list[bool]) -> tuple[Tensor, Tensor]:
    """The formula of the paper for one text, keys and values formed one by one."""
    logits, alphas = torch.zeros(m.config.classes, dtype=torch.float64), []
    for i in range(m.config.heads):
        q = m.query[i] @ e[0]
        scores = [float(q @ (m.key[i] @ e[t])) / math.sqrt(m.config.d_att) for t in range(len(e))]
        exps = [math.exp(s) if k else 0.0 for s, k in zip(scores, keep, strict=True)]
        alpha = [x / sum(exps) for x in exps]
        mixed = sum(a * (m.value[i] @ e[t]) for t, a in enumerate(alpha))
        logits = logits + m.readout[i] @ mixed / m.config.heads
        alphas.append(alpha)
    return logits, torch.tensor(alphas, dtype=torch.float64)


@pytest.mark.parametrize("pad_attends", [False, True])
def test_against_a_loop_by_hand(pad_attends: bool) -> None:
    m = model(pad_attends=pad_attends)
    logits, alpha = m(IDS, return_attention=True)
    for row, ids in enumerate(IDS):
        e = m.token.weight[ids] + sinusoids(12, 8).double()[: len(ids)]
        keep = [pad_attends or int(i) != 0 for i in ids]
        want_logits, want_alpha = by_hand(m, e, keep)
        torch.testing.assert_close(logits[row], want_logits, atol=EXACT, rtol=0)
        torch.testing.assert_close(alpha[row], want_alpha, atol=EXACT, rtol=0)


def test_attention_sums_to_one_and_padding_gets_none() -> None:
    logits, alpha = model()(IDS, return_attention=True)
    assert logits.shape == (2, 3)
    assert alpha.shape == (2, 3, 6)
    torch.testing.assert_close(alpha.sum(-1), torch.ones(2, 3, dtype=torch.float64), atol=EXACT, rtol=0)
    assert (alpha[1, :, 3:] == 0).all()
    torch.testing.assert_close(logits[1:], model()(IDS[1:, :3]), atol=EXACT, rtol=0)


def test_a_given_mask_beats_the_padding_rule() -> None:
    m, everything = model(), torch.ones_like(IDS)
    torch.testing.assert_close(m(IDS, everything), model(pad_attends=True)(IDS), atol=EXACT, rtol=0)
    torch.testing.assert_close(model(pad_attends=True)(IDS, IDS != 0), m(IDS), atol=EXACT, rtol=0)
    torch.testing.assert_close(model(pad_id=None)(IDS), m(IDS, everything), atol=EXACT, rtol=0)


def test_embeddings_in_place_of_ids() -> None:
    m = model()
    torch.testing.assert_close(m(inputs_embeds=m.embed(IDS), attention_mask=IDS != 0), m(IDS), atol=0, rtol=0)
    for bad in ({}, {"ids": IDS, "inputs_embeds": m.embed(IDS)}):
        with pytest.raises(HeedfulError, match="one of the two"):
            m(**bad)


def test_gradient_is_the_closed_form_of_methods_1_2() -> None:
    """Three terms: value path, key path, and the query path of CLS."""
    m = model()
    e = m.embed(IDS[:1]).detach().requires_grad_()
    out = m.attend(inputs_embeds=e)
    out.logits[0, 1].backward()  # type: ignore[no-untyped-call]
    x, want = e.detach()[0], torch.zeros(6, 8, dtype=torch.float64)
    for i in range(3):
        alpha, scale = out.attention[0, i].detach(), math.sqrt(m.config.d_att)
        q, keys = m.query[i] @ x[0], x @ m.key[i].T
        u = x @ m.value[i].T @ m.readout[i, 1]  # W_l v_t (T,)
        gap = u - alpha @ u
        want += alpha[:, None] * (m.value[i].T @ m.readout[i, 1])
        want += (alpha * gap)[:, None] / scale * (m.key[i].T @ q)
        want[0] += m.query[i].T @ (alpha * gap @ keys) / scale
    assert e.grad is not None
    torch.testing.assert_close(e.grad[0], (want / 3).detach(), atol=EXACT, rtol=0)


def test_shape_of_the_papers_model() -> None:
    """No biases, norms or MLP: only the table, Q, K, V and read-out; positions are fixed."""
    m = OneLayerClassifier(OneLayerConfig(vocab_size=100))
    shapes = {name: tuple(p.shape) for name, p in m.named_parameters()}
    assert shapes == {
        "token.weight": (100, 128),
        "query": (6, 64, 128),
        "key": (6, 64, 128),
        "value": (6, 64, 128),
        "readout": (6, 2, 64),
    }
    assert all(p.requires_grad for p in m.parameters())
    for p in (m.query, m.key, m.value, m.readout):
        assert 0.09 < p.abs().max() <= 0.1
    assert m.token.weight.std().item() == pytest.approx(1, abs=0.05)  # 12,800 draws: sd of the sd is 0.006


def test_saved_and_loaded(tmp_path: Path) -> None:
    m = OneLayerClassifier(CONFIG, seed=4)
    m.save(tmp_path / "new")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["config.json", "model.safetensors"]
    assert json.loads((tmp_path / "new" / "config.json").read_text())["heads"] == 3
    again = OneLayerClassifier.load(tmp_path / "new")
    assert again.config == CONFIG
    assert not again.training
    torch.testing.assert_close(again(IDS), m(IDS), atol=0, rtol=0)


def test_half_precision_on_disk_loads_as_float32(tmp_path: Path) -> None:
    m = OneLayerClassifier(CONFIG, seed=4)
    want = m(IDS)
    m.half().save(tmp_path)
    again = OneLayerClassifier.load(tmp_path)
    assert again.query.dtype == torch.float32
    torch.testing.assert_close(again(IDS), want, atol=5e-3, rtol=0)  # half precision keeps 3 digits


def test_the_seed_makes_the_weights_and_only_them() -> None:
    before = torch.get_rng_state()
    a, b, c = (OneLayerClassifier(CONFIG, seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(a.token.weight, b.token.weight)
    assert not torch.equal(a.query, c.query)


def test_too_long_says_both_lengths() -> None:
    with pytest.raises(HeedfulError, match=r"13 tokens.* at most 12"):
        model()(torch.ones(1, 13, dtype=torch.long))
