"""Try it: claims and what the model does, held to the model run by hand."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

import heedful

TEXT = "the service is not bad"
ASK = {"model": "zoo:sentiment", "text": TEXT}


def test_what_is_deleted_is_really_deleted(client: httpx.Client, model: Any) -> None:
    """By hand: the ids without those of the word, and the logit of the class."""
    found = client.post("/api/try", json=ASK | {"edits": [{"word": 3}], "target": "positive"}).json()
    x = model.encode(TEXT)
    ids = [i for i, word in zip(x.ids, x.words, strict=True) if word != 3]
    whole, less = (model.logits(list(given)) for given in (x.ids, ids))
    index = list(model.labels).index("positive")
    assert found["before"] == pytest.approx(float(whole[index]), abs=1e-5)
    assert found["after"] == pytest.approx(float(less[index]), abs=1e-5)
    assert found["text"] == "the service is bad"
    shares = {one["label"]: one["share"] for one in found["prediction"]}
    assert shares["positive"] == pytest.approx(float(less.softmax(-1)[index]), abs=1e-5)


def test_claims_are_what_the_methods_said(client: httpx.Client, model: Any) -> None:
    """Occlusion by deletion claims exactly what deletion does; others claim their own scores."""
    ask = ASK | {"methods": ["occlusion", "grad-x-input", "grad-l2"]}
    found = client.post("/api/try", json=ask | {"edits": [{"word": 3}], "operator": "mask"}).json()
    own = heedful.explain(model, TEXT, ["occlusion", "grad-x-input", "grad-l2"])
    claims = {claim["method"]: claim for claim in found["claims"]}
    for method in ("occlusion", "grad-x-input", "grad-l2"):
        assert claims[method]["claimed"] == pytest.approx(-own[method].words()[3].score, abs=1e-9)
    assert claims["grad-l2"]["signed"] is False
    assert found["after"] - found["before"] == pytest.approx(claims["occlusion"]["claimed"], abs=1e-5)


def test_a_replaced_word(client: httpx.Client, model: Any) -> None:
    edits = [{"word": 4, "by": "wonderful"}, {"word": 0}]
    found = client.post("/api/try", json=ASK | {"edits": edits, "target": "positive"}).json()
    assert found["text"] == "service is not wonderful"
    x = model.encode("the service is not wonderful")
    ids = [i for i, word in zip(x.ids, x.words, strict=True) if word != 0]
    index = list(model.labels).index("positive")
    assert found["after"] == pytest.approx(float(model.logits(ids)[index]), abs=1e-5)
    assert any("not of those that came" in note for note in found["notes"])


@pytest.mark.parametrize("operator", ["delete", "mask", "unk", "pad", "mean"])
def test_shares_agree_with_the_explained_number(client: httpx.Client, operator: str) -> None:
    """Under every operator the two-class softmax of what is told is the share that is told."""
    tried = {}
    for label in ("positive", "negative"):
        ask = ASK | {"edits": [{"word": 4}], "operator": operator, "target": label}
        tried[label] = client.post("/api/try", json=ask).json()
    apart = tried["positive"]["after"] - tried["negative"]["after"]
    shares = {one["label"]: one["share"] for one in tried["positive"]["prediction"]}
    assert shares["positive"] == pytest.approx(1 / (1 + np.exp(-apart)), abs=1e-5)


def test_a_word_that_is_not_there(client: httpx.Client) -> None:
    answer = client.post("/api/try", json=ASK | {"edits": [{"word": 99}]})
    assert answer.status_code == 400
    assert "no word 99" in answer.json()["error"]


def test_nothing_changed_changes_nothing(client: httpx.Client) -> None:
    found = client.post("/api/try", json=ASK | {"edits": []}).json()
    assert found["before"] == found["after"]
    assert found["text"] == TEXT
