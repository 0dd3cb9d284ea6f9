"""The dictionary of zoo:lm: what its card says is measured again on the first of the held-out speeches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors
import torch

import heedful
from heedful.core.errors import HeedfulError
from heedful.features.activations.eval_windows import corpus
from heedful.features.measures.quality import measure
from heedful.models.zoo import resolve

FOLDER = Path(heedful.__file__).parent / "zoo" / "lm" / "features"


def test_it_opens_by_name_in_float32_and_is_stored_in_half() -> None:
    sae = heedful.SAE.load("zoo:lm")
    assert (sae.config.d, sae.config.width) == tuple(sae.W_enc.shape) == (192, 1536)
    assert {sae.W_enc.dtype, sae.W_dec.dtype, sae.b_enc.dtype, sae.b_dec.dtype} == {torch.float32}
    with safetensors.safe_open(FOLDER / "sae.safetensors", "pt") as file:
        assert file.get_tensor("W_dec").dtype == torch.float16
        assert torch.equal(sae.W_dec, file.get_tensor("W_dec").float())
    assert torch.allclose(sae.W_dec.norm(dim=1), torch.ones(1536), atol=2e-3)  # half precision
    assert len(sae.config.source["maxima"]) == 1536  # "2x" needs no texts


def test_its_card_says_what_was_measured() -> None:
    metrics = json.loads((FOLDER / "metrics.json").read_text())
    card = (FOLDER / "card.md").read_text()
    for name in ("explained", "recovered (zero)", "recovered (mean)"):
        assert f"{metrics['test']['figures'][name]['value']:.3f}" in card


def test_it_explains_more_than_random_directions() -> None:
    model = heedful.load("zoo:lm")
    found = measure(heedful.SAE.load("zoo:lm"), model, corpus(model, resolve.held_out("lm"), rows=500))
    assert found["explained"] > found.controls["random dictionary"]["explained"] + 0.3


@pytest.mark.slow
def test_the_figures_of_its_card_hold() -> None:
    metrics = json.loads((FOLDER / "metrics.json").read_text())
    model, part = heedful.load("zoo:lm"), metrics["test_slice"]
    found = measure(
        heedful.SAE.load("zoo:lm"), model, corpus(model, resolve.held_out("lm"), rows=part["rows"])
    )
    for name in ("l0", "explained", "recovered (zero)", "recovered (mean)"):
        # sums of float32 in another order change the sixth digit
        assert found[name] == pytest.approx(part["figures"][name]["value"], abs=2e-4)
    assert found["explained"] > found.controls["random dictionary"]["explained"] + 0.3


def test_other_models_bring_none() -> None:
    with pytest.raises(HeedfulError, match=r"no SAE comes with zoo:sentiment.*zoo:lm"):
        heedful.SAE.load("zoo:sentiment")
