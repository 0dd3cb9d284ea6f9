"""Figures by hand, exact ends of the scale, and controls beside everything."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import heedful
from heedful.core.errors import HeedfulError
from heedful.features.activations.eval_windows import corpus, rows_at
from heedful.features.activations.windows import Batch
from heedful.features.measures.loss_recovered import next_token_loss, replacing
from heedful.features.measures.quality import measure, measure_seeds, noise
from heedful.features.measures.sparsity import WindowSums
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.models.backend import Inputs
from heedful.models.sites.access import reading

SITE = "blocks.0.resid"
TEXTS = [
    "the cat sat on the mat.",
    "hello world! don't stop",
    "a dog ran to the low house",
    "not bad at all",
] * 2


def identity(d: int = 32) -> SAE:
    """x = ReLU(x) - ReLU(-x): a perfect autoencoder of 2 d latents."""
    eye = torch.eye(d)
    both = torch.cat([eye, -eye])
    return SAE(Config("relu", d, 2 * d), both.T.contiguous(), torch.zeros(2 * d), both, torch.zeros(d))


def constant(value: Tensor) -> SAE:
    """Nothing ever fires: the bias is all it says."""
    d = len(value)
    return SAE(Config("relu", d, 4), torch.zeros(d, 4), -torch.ones(4), torch.ones(4, d), value)


def some(d: int = 32, width: int = 48, seed: int = 0, k: int = 6) -> SAE:
    dec = torch.randn(width, d, generator=torch.Generator().manual_seed(seed))
    return SAE(Config("topk", d, width, k), dec.T.contiguous() / d, torch.zeros(width), dec, torch.zeros(d))


@pytest.fixture(params=["gpt2", "bert"])
def model(request: pytest.FixtureRequest, shared: Callable[[str], Any]) -> Any:
    return shared(request.param).model


def test_a_perfect_autoencoder_recovers_everything(model: Any):
    found = measure(identity(), model, TEXTS, site=SITE, pack=False)
    # ReLU(x) - ReLU(-x) is x bit for bit: no tolerance
    assert found["recovered (zero)"] == 1.0
    assert found["recovered (mean)"] == 1.0
    assert found["explained"] == pytest.approx(1.0, abs=1e-12)
    assert found["l0"] == 32.0
    assert found.loss["sae"] == found.loss["clean"] == found.loss["identity"]


def test_zero_output_recovers_nothing(model: Any):
    found = measure(constant(torch.zeros(32)), model, TEXTS, site=SITE, pack=False)
    assert found["recovered (zero)"] == 0.0
    assert found.figures["recovered (zero)"].low == found.figures["recovered (zero)"].high == 0.0
    assert found.loss["sae"] == found.loss["zero"]
    assert (found["l0"], found["dead"], found["dense"], found["size"]) == (0.0, 1.0, 0.0, 0.0)
    assert math.isnan(found["activation"])
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_mean_recovers_nothing_against_the_mean(model: Any):
    every = torch.cat([x for (x,) in rows_at(model, corpus(model, TEXTS, pack=False), [SITE])])
    found = measure(constant(every.mean(0)), model, TEXTS, site=SITE, pack=False)
    assert found["recovered (mean)"] == pytest.approx(0.0, abs=1e-4)  # the mean is rounded to float32
    assert found["explained"] == pytest.approx(0.0, abs=1e-6)
    assert found.controls["mean"]["recovered (mean)"] == 0.0
    assert found["recovered (zero)"] == pytest.approx(found.controls["mean"]["recovered (zero)"], abs=1e-4)
    assert found.controls["identity"] == {"recovered (zero)": 1.0, "recovered (mean)": 1.0}


def _by_hand(family: Any, sae: Any, text: str, edit: str) -> float:
    """-log p summed over the text's tokens, from the transformers model itself and a hook of our own."""
    ids = torch.tensor([family.tokenizer(text)["input_ids"]])
    before = [] if family.tokenizer.bos_token_id is None else [family.tokenizer.bos_token_id]
    ids = torch.cat([torch.tensor([before], dtype=torch.long), ids], dim=1)

    def hook(_module: Any, _args: Any, out: Any) -> Any:
        x = out[0] if isinstance(out, tuple) else out
        new = x.clone()
        new[:, 1:] = {"sae": sae, "zero": torch.zeros_like}[edit](x[:, 1:])
        return (new, *out[1:]) if isinstance(out, tuple) else new

    handle = family.hf.transformer.h[0].register_forward_hook(hook) if edit != "clean" else None
    with torch.no_grad():
        logs = family.hf(ids).logits.double().log_softmax(-1)
    if handle is not None:
        handle.remove()
    return -sum(float(logs[0, t, ids[0, t + 1]]) for t in range(ids.shape[1] - 1))


def test_loss_recovered_by_hand(shared: Callable[[str], Any]):
    family, sae, text = shared("gpt2"), some(), TEXTS[0]
    found = measure(sae, family.model, [text], site=SITE)
    clean, own, zero = (_by_hand(family, sae, text, edit) for edit in ("clean", "sae", "zero"))
    assert found["recovered (zero)"] == pytest.approx((zero - own) / (zero - clean), rel=1e-4)
    tokens = len(family.tokenizer(text)["input_ids"])
    assert found.about["tokens"] == tokens
    assert found.loss["clean"] == pytest.approx(clean / tokens, rel=1e-5)
    assert math.isnan(found.figures["l0"].low)  # one window: no interval


def test_labels_and_the_models_own_answers(shared: Callable[[str], Any]):
    family, sae = shared("bert"), some()
    found = measure(sae, family.model, TEXTS[:4], site=SITE)
    given = measure(sae, family.model, TEXTS[:4], site=SITE, labels=["positive", 0, "1", "negative"])
    logs = []
    for text in TEXTS[:4]:
        ids = torch.tensor([family.model.encode(text).ids])
        with torch.no_grad():
            out = family.model.backend.forward(Inputs(ids, torch.ones_like(ids)))
        logs.append(out.double().log_softmax(-1)[0])
    assert found.loss["clean"] == pytest.approx(
        -float(torch.stack([one.max() for one in logs]).mean()), rel=1e-5
    )
    by_label = -float(torch.stack([one[c] for one, c in zip(logs, (1, 0, 1, 0), strict=True)]).mean())
    assert given.loss["clean"] == pytest.approx(by_label, rel=1e-5)
    assert (found.about["loss of"], given.about["loss of"]) == ("the model's own answer", "the label")
    with pytest.raises(HeedfulError, match="unknown label 'sad'"):
        measure(sae, family.model, TEXTS[:1], site=SITE, labels=["sad"])


def test_figures_of_the_dictionary_by_hand(shared: Callable[[str], Any]):
    model, sae = shared("gpt2").model, some(k=5)
    found = measure(sae, model, TEXTS, site=SITE, pack=False)
    x = torch.cat([x for (x,) in rows_at(model, corpus(model, TEXTS, pack=False), [SITE])]).clone()
    codes, lengths = sae.encode(x), sae.W_dec.norm(dim=1)
    on, weighted = codes > 0, codes * lengths
    assert found.about["tokens"] == len(x)
    assert found["l0"] == pytest.approx(float(on.sum(1).float().mean()))
    left = (x - sae(x)).square().sum() / (x - x.mean(0)).square().sum()
    assert found["explained"] == pytest.approx(1 - float(left), rel=1e-4)
    assert found["dead"] == pytest.approx(float((~on.any(0)).float().mean()))
    assert found["dense"] == pytest.approx(float((on.float().mean(0) > 0.1).float().mean()))
    assert found["activation"] == pytest.approx(float(weighted.sum() / on.sum()), rel=1e-4)
    assert found["size"] == pytest.approx(float(weighted.sum() / x.norm(dim=1).sum()), rel=1e-4)
    assert 0 < found["dense"] < 1
    for name in ("l0", "explained", "activation", "size", "recovered (zero)", "recovered (mean)"):
        assert found.figures[name].low <= found[name] <= found.figures[name].high
        assert name == "l0" or found.figures[name].low < found.figures[name].high  # topk: k everywhere
    assert set(found.controls["random dictionary"]) == set(found.figures)


def test_longer_decoders_and_shorter_activations_are_the_same(shared: Callable[[str], Any]):
    sae = some()
    long = replace(sae, W_enc=sae.W_enc / 8, W_dec=8 * sae.W_dec)
    a, b = (measure(one, shared("gpt2").model, TEXTS[:2], site=SITE) for one in (sae, long))
    for name in a.figures:
        assert a[name] == pytest.approx(b[name], rel=1e-5)


def test_special_tokens_and_padding_are_left_alone(shared: Callable[[str], Any]):
    family = shared("bert")
    found = corpus(family.model, [TEXTS[0], "hello"])
    (batch,) = found.batches
    assert (batch.ids[:, 0] == 1).all()
    assert not batch.keep[:, 0].any()
    assert int(batch.keep[1].sum()) < int(batch.mask[1].sum()) < batch.ids.shape[1]
    x = torch.randn(*batch.ids.shape, 4, generator=torch.Generator().manual_seed(0))
    after = replacing(torch.zeros_like, batch.keep)(x)
    assert torch.equal(after[~batch.keep], x[~batch.keep])
    assert not after[batch.keep].any()


def test_the_loss_counts_each_token_of_the_text_once():
    """Uniform logits: log V a token, whatever stands in padding or special places."""
    keep = torch.tensor([[False, True, True, True], [False, True, False, False]])
    batch = Batch(torch.tensor([[0, 3, 4, 2], [0, 1, 9, 9]]), keep.long(), keep)
    loss, n = next_token_loss(torch.zeros(2, 4, 10), batch)
    assert n.tolist() == [3.0, 1.0]
    assert loss.tolist() == pytest.approx([3 * math.log(10), math.log(10)])
    logits = torch.zeros(2, 4, 10)
    logits[0, 0, 3] = 50.0  # the first position tells the second token
    assert next_token_loss(logits, batch)[0][0] == pytest.approx(2 * math.log(10))


def test_nothing_is_left_behind_and_runs_repeat(shared: Callable[[str], Any]):
    family = shared("gpt2")
    ids = torch.tensor([family.model.encode(TEXTS[0]).ids])
    inputs = Inputs(ids, torch.ones_like(ids))
    with torch.no_grad():
        before = family.model.backend.forward(inputs)
    first, again = (measure(some(), family.model, TEXTS, site=SITE).to_dict() for _ in range(2))
    assert first == again
    with torch.no_grad(), reading(family.model, [SITE]):
        assert torch.equal(family.model.backend.forward(inputs), before)


def test_seeds():
    found = noise([1.0, 2.0, 3.0])
    assert (found.mean, found.sd, found.cv) == (2.0, 1.0, 0.5)


def test_measure_seeds(shared: Callable[[str], Any]):
    saes, model = [some(seed=s) for s in range(3)], shared("gpt2").model
    over, every = measure_seeds(saes, model, TEXTS, site=SITE)
    assert set(over) == set(every[0].figures)
    values = [measure(sae, model, TEXTS, site=SITE)["explained"] for sae in saes]
    assert over["explained"].values == tuple(values)
    assert over["explained"].sd == pytest.approx(np.std(values, ddof=1))
    assert over["explained"].cv == pytest.approx(np.std(values, ddof=1) / abs(np.mean(values)))
    with pytest.raises(HeedfulError, match="cannot show differences between seeds"):
        measure_seeds(saes[:1], model, TEXTS, site=SITE)


def test_kinds_without_a_loss_say_so(shared: Callable[[str], Any]):
    found = measure(some(), shared("bart").model, TEXTS, site=SITE)
    assert "recovered (zero)" not in found.figures
    assert any("no loss recovered" in note for note in found.notes)
    assert found["l0"] == 6.0


def test_mistakes_are_told(shared: Callable[[str], Any]):
    model = shared("gpt2").model
    with pytest.raises(HeedfulError, match="does not say where"):
        measure(some(), model, TEXTS)
    with pytest.raises(HeedfulError, match="of width 16 for blocks"):
        measure(some(d=16), model, TEXTS, site=SITE)
    with pytest.raises(HeedfulError, match="no text"):
        measure(some(), model, [" "], site=SITE)


def test_long_texts_are_noted(shared: Callable[[str], Any]):
    found = corpus(shared("bert").model, [TEXTS[0] * 5, "hello"], context=8)
    assert "1 of 2 texts" in found.notes[0]
    assert found.units == 2
    few = corpus(shared("bert").model, TEXTS, rows=8)
    assert few.tokens >= 8
    assert few.units < len(TEXTS)


def test_the_order_of_labels_survives_sorting(shared: Callable[[str], Any]):
    model = shared("bert").model
    texts = ["hello", TEXTS[0], "a dog", TEXTS[1]]
    found = corpus(model, texts, labels=texts)
    (batch,) = found.batches
    for ids, keep, label in zip(batch.ids, batch.keep, found.labels or (), strict=True):
        assert model.tokenizer(label, add_special_tokens=False)["input_ids"] == ids[keep].tolist()


def test_counts_do_not_depend_on_how_tokens_are_grouped():
    sae, x = some(), torch.randn(40, 32, generator=torch.Generator().manual_seed(1))
    whole, parts = WindowSums(48), WindowSums(48)
    whole.add(sae, x)
    for part in torch.split(x, 10):
        parts.add(sae, part)
    for name, value in whole.values().items():
        assert parts.values()[name] == pytest.approx(value, rel=1e-6)
    assert heedful.SAE is SAE
