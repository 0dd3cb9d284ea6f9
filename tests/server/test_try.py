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
    found = client.post(
        "/api/try", json=ASK | {"edits": [{"word": 3, "operator": "delete"}], "target": "positive"}
    ).json()
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
    """As a user gets it: occlusion claims exactly what its own operator does; others claim their scores."""
    ask = ASK | {"methods": ["occlusion", "grad-x-input", "grad-l2"]}
    found = client.post("/api/try", json=ask | {"edits": [{"word": 3}]}).json()
    own = heedful.explain(model, TEXT, ["occlusion", "grad-x-input", "grad-l2"])
    claims = {claim["method"]: claim for claim in found["claims"]}
    for method in ("occlusion", "grad-x-input", "grad-l2"):
        assert claims[method]["claimed"] == pytest.approx(-own[method].words()[3].score, abs=1e-9)
    assert claims["grad-l2"]["signed"] is False
    used = own["occlusion"].params["operator"]
    assert found["operators"] == [used]
    assert [claims[method]["operator"] for method in ("occlusion", "grad-x-input")] == [used, None]
    assert found["after"] - found["before"] == pytest.approx(claims["occlusion"]["claimed"], abs=1e-5)


def test_a_replaced_word(client: httpx.Client, model: Any) -> None:
    edits = [{"word": 4, "by": "wonderful"}, {"word": 0, "operator": "delete"}]
    found = client.post("/api/try", json=ASK | {"edits": edits, "target": "positive"}).json()
    assert found["text"] == "service is not wonderful"
    x = model.encode("the service is not wonderful")
    ids = [i for i, word in zip(x.ids, x.words, strict=True) if word != 0]
    index = list(model.labels).index("positive")
    assert found["after"] == pytest.approx(float(model.logits(ids)[index]), abs=1e-5)
    assert any("not about the new words" in note for note in found["notes"])


@pytest.mark.parametrize("operator", ["delete", "mask", "swap", "unk", "pad", "mean"])
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


def test_another_operator_than_the_methods_used_is_told(client: httpx.Client) -> None:
    ask = ASK | {"methods": ["occlusion"], "edits": [{"word": 3, "operator": "delete"}]}
    found = client.post("/api/try", json=ask).json()
    claim = next(claim for claim in found["claims"] if claim["method"] == "occlusion")
    assert (found["operators"], claim["operator"]) == (["delete"], "mask")
    assert abs(found["after"] - found["before"] - claim["claimed"]) > 1e-3  # another question, another answer


@pytest.mark.parametrize("other", ["mask", "swap", "unk", "pad", "mean"])
def test_every_word_goes_in_its_own_way(client: httpx.Client, model: Any, other: str) -> None:
    """One deleted and another removed: by hand, the ids without the first, and rows of what is left."""
    from heedful.modalities.text_windows import select

    edits = [{"word": 1, "operator": "delete"}, {"word": 3, "operator": other}]
    found = client.post("/api/try", json=ASK | {"edits": edits, "target": "positive"}).json()
    x = model.encode(TEXT)
    less = select(x, [t for t, word in enumerate(x.words) if word != 1])
    target = model.target(x, "positive")
    keep = np.array([[True, True, False, True]])  # "not" is the third that is left
    assert found["after"] == pytest.approx(float(model.values(less, target, keep, other)[0]), abs=1e-5)
    assert found["text"] == f"the is [{other}] bad"
    assert found["operators"] == sorted(["delete", other])


def test_stand_ins_and_hidden_words_together(client: httpx.Client, model: Any) -> None:
    from dataclasses import replace

    edits = [{"word": 3, "operator": "mask"}, {"word": 4, "operator": "pad"}]
    found = client.post("/api/try", json=ASK | {"edits": edits, "target": "positive"}).json()
    x = model.encode(TEXT)
    mask = model.tokenizer.mask_token_id
    filled = replace(
        x, ids=tuple(mask if word == 3 else own for own, word in zip(x.ids, x.words, strict=True))
    )
    keep = np.array([[True, True, True, True, False]])
    own = model.values(filled, model.target(x, "positive"), keep, "pad")
    assert found["after"] == pytest.approx(float(own[0]), abs=1e-5)
    edits[0]["operator"] = "mean"
    answer = client.post("/api/try", json=ASK | {"edits": edits})
    assert answer.status_code == 400
    assert "mean and pad" in answer.json()["error"]


def test_a_replaced_word_and_two_ways(client: httpx.Client) -> None:
    edits = [{"word": 0, "operator": "delete"}, {"word": 3, "operator": "mask"}, {"word": 4, "by": "good"}]
    found = client.post("/api/try", json=ASK | {"edits": edits}).json()
    assert found["text"] == "service is [mask] good"
    wrong = client.post("/api/try", json=ASK | {"edits": [{"word": 0, "by": "a", "operator": "mask"}]})
    assert wrong.status_code == 422


def test_the_last_word_takes_its_space_with_it(client: httpx.Client) -> None:
    ask = ASK | {"edits": [{"word": 4, "operator": "delete"}]}
    assert client.post("/api/try", json=ask).json()["text"] == "the service is not"
