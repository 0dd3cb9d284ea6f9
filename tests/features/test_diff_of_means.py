"""The difference of means beside every steer: its definition, its chance, its sign, and where it is shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.features.planted import TEXTS, random_sae

from heedful.core.errors import HeedfulError
from heedful.features.steering.compare import before_after
from heedful.features.steering.diff_of_means import NONE, beside, contrast
from heedful.features.steering.steer import steer
from heedful.features.steering.strength import parse
from heedful.features.steering.sweep import Baselines, Intervention, Writing, sweep
from heedful.models.backend import Inputs
from heedful.models.sites.access import reading

SITE = "blocks.0.resid"
FEW = Writing(max_new_tokens=5)


def rows(model: Any, texts: list[str]) -> torch.Tensor:
    """(n, d) of the texts' own tokens, read one text at a time."""
    found = []
    for text in texts:
        x = model.encode(text)
        ids = torch.tensor([x.ids])
        with reading(model, [SITE]) as seen, torch.inference_mode():
            model.backend.forward(Inputs(ids, torch.ones_like(ids)))
        found.append(seen[SITE][0][~torch.tensor(x.special)])
    return torch.cat(found).double()


@pytest.fixture(scope="module")
def bert(shared: Callable[[str], Any]) -> Any:
    return shared("bert").model  # it reads texts one by one, so that rows are known


def test_the_definition(bert: Any) -> None:
    sae, x = random_sae(32, 12, SITE), rows(bert, TEXTS[:4])
    on = (sae.encode(x.float()) > 0).numpy()
    one = int(np.argmin(np.abs(on.mean(0) - 0.3)))
    assert 0.05 < on[:, one].mean() < 0.95
    found = contrast(bert, sae, {one: 3.0}, TEXTS[:4])
    apart = x.numpy()[on[:, one]].mean(0) - x.numpy()[~on[:, one]].mean(0)
    np.testing.assert_allclose(found.vector.numpy(), apart / np.linalg.norm(apart), atol=1e-5)
    assert found.texts == (on[:, one].sum(), (~on[:, one]).sum())
    assert found.site == SITE
    rng = np.random.default_rng(0)
    drawn = [rng.permutation(on[:, one]) for _ in range(400)]
    lengths = [np.linalg.norm(x.numpy()[some].mean(0) - x.numpy()[~some].mean(0)) for some in drawn]
    assert found.chance == pytest.approx(np.sqrt(np.mean(np.square(lengths))), rel=0.1)


def test_what_is_taken_out_is_turned_round_and_features_add_up(bert: Any) -> None:
    sae = random_sae(32, 12, SITE)
    on = (sae.encode(rows(bert, TEXTS[:4]).float()) > 0).float().mean(0)
    a, b = [i for i in range(12) if 0 < on[i] < 1][:2]
    plus, other = (contrast(bert, sae, {i: 1.0}, TEXTS[:4]).vector for i in (a, b))
    for out in (0, "0x", "-2", "0.5x own"):
        assert torch.allclose(contrast(bert, sae, {a: out}, TEXTS[:4]).vector, -plus, atol=1e-6), out
    both = contrast(bert, sae, {a: "+2", b: 0}, TEXTS[:4])
    assert torch.allclose(both.vector, plus - other, atol=1e-6)


@pytest.mark.parametrize(
    ("value", "out"),
    [
        (0, True),
        (3, False),
        ("0x", True),
        ("5x", False),
        ("+2", False),
        ("-2", True),
        ("2x own", False),
        ("0.5x own", True),
        ("1x own", False),
        ("+0", False),
    ],
)
def test_what_takes_a_feature_out(value: Any, out: bool) -> None:
    assert parse(1, value).takes_out is out


def test_where_there_is_none_it_is_said(bert: Any) -> None:
    sae = random_sae(32, 12, SITE)
    sae.b_enc[3], sae.b_enc[4] = -1e4, 1e4
    with pytest.raises(HeedfulError, match="feature 3 is active on no token"):
        contrast(bert, sae, {3: 1.0}, TEXTS[:2])
    with pytest.raises(HeedfulError, match="feature 4 is active on every token"):
        contrast(bert, sae, {4: 1.0}, TEXTS[:2])
    assert beside(bert, sae, {3: 1.0}, None, SITE) == (None, NONE)
    found, said = beside(bert, sae, {3: 1.0}, TEXTS[:2], SITE)
    assert found is None
    assert said.startswith("There is no difference of means to compare with: feature 3 is active on no token")


def firing(model: Any, sae: Any) -> int:
    """A feature that fires on some tokens of the texts."""
    on = (sae.encode(rows(model, TEXTS[:4]).float()) > 0).float().mean(0)
    return int((on - 0.3).abs().argmin())


def test_before_and_after_stand_beside_it(shared: Callable[[str], Any]) -> None:
    model, sae = shared("gpt2").model, random_sae(32, 12, SITE)
    one, prompt = firing(model, sae), "the cat sat"
    found = before_after(model, sae, {one: 30.0}, prompt, texts=TEXTS, max_new_tokens=6)
    assert list(found.columns) == ["before", "after", "difference of means"]
    vector = contrast(model, sae, {one: 30.0}, TEXTS)
    with steer(model, vector.scaled(found.size), 1.0) as applied:
        assert found.beside["difference of means"].text == model.generate(prompt, max_new_tokens=6)
    assert applied.size == pytest.approx(found.size, rel=1e-4)
    assert found.notes[0].startswith("Difference of means: ")
    assert found.to_dict()["beside"]["difference of means"]["perplexity"] > 0
    assert "Difference of means</h2>" in found.page()
    without = before_after(model, sae, {one: 30.0}, prompt, max_new_tokens=6)
    assert (list(without.beside), without.notes) == ([], (NONE,))
    nothing = before_after(model, sae, {}, prompt, max_new_tokens=6)
    assert (nothing.same, nothing.notes, list(nothing.beside)) == (True, (), [])


def test_a_sweep_makes_its_own_from_texts(shared: Callable[[str], Any], tmp_path: Path) -> None:
    model, sae = shared("gpt2").model, random_sae(32, 12, SITE)
    one, prompts = firing(model, sae), ["the cat sat", "a dog ran"]
    by_texts = Intervention(sae, feature=one, strengths=["2x", 0], maxima=TEXTS)
    found = sweep(model, by_texts, prompts, writing=FEW)
    assert found.methods == (f"feature {one}", "difference of means", "random direction")
    vector = contrast(model, sae, {one: 1.0}, TEXTS)
    for own, point, way in zip(found.of(found.methods[0]), found.of(found.methods[1]), (1, -1), strict=True):
        assert point.size == pytest.approx(own.size, rel=1e-4)
        with steer(model, vector.scaled(own.size), way):
            assert point.texts[0].text == model.generate(prompts[0], max_new_tokens=5)
    path = tmp_path / "t.txt"
    path.write_text("\n".join(TEXTS))
    thrice = Intervention(sae, feature=one, strengths=[3.0])
    again = sweep(model, thrice, prompts, baselines=Baselines(texts=path), writing=FEW)
    assert "difference of means" in again.methods
    none = sweep(model, thrice, prompts, writing=FEW)
    assert none.methods == (f"feature {one}", "random direction")
    assert none.notes[-1] == NONE
