"""`load`: what comes in through the one door, and what is turned away with which sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.models.load import load


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, shared: Any) -> Path:
    """A tiny BERT classifier as model.save_pretrained and tokenizer.save_pretrained leave it."""
    folder = tmp_path_factory.mktemp("model") / "bert"
    shared("bert").hf.save_pretrained(folder)
    shared("bert").tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copytree(saved, tmp_path / "bert"))


def refusal(source: Any, **options: Any) -> str:
    with pytest.raises(HeedfulError) as caught:
        load(source, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_saved_model_is_the_same_model(saved: Path, shared: Any) -> None:
    family = shared("bert")
    for source in (saved, str(saved)):
        model = load(source)
        x = model.encode("the cat sat")
        assert x == family.x("the cat sat")
        torch.testing.assert_close(model.logits(x), family.model.logits(x))
        assert model.labels == ("negative", "positive")
        assert not model.backend.model.training
    assert model.facts()["fingerprint"] == family.model.facts()["fingerprint"]


@pytest.mark.parametrize("name", ["gpt2", "t5", "bart-classifier", "mean-pool"])
def test_the_head_is_known_from_the_config(shared: Any, tmp_path: Path, name: str) -> None:
    family = shared(name)
    family.hf.save_pretrained(tmp_path)
    family.tokenizer.save_pretrained(tmp_path)
    model = load(tmp_path)
    assert model.kind == family.model.kind
    x = model.encode("the cat sat")
    torch.testing.assert_close(model.logits(x), family.model.logits(x))


@pytest.mark.parametrize("source", ["", "   "])
def test_no_name(source: str) -> None:
    assert "no model was named" in refusal(source)


@pytest.mark.parametrize("source", ["no-such-model", "./nowhere", "/nowhere/at/all", "a b", "x/y/z", "../up"])
def test_unknown_names(source: str) -> None:
    assert f"there is no model {source!r}" in refusal(source)


def test_a_hub_id_while_offline_is_one_line() -> None:
    message = refusal("someone/some-model")
    assert message.startswith("cannot load someone/some-model")
    assert "connection" in message


def test_a_file_is_not_a_folder(saved: Path) -> None:
    assert "is a file, not a model folder" in refusal(saved / "config.json")


def test_a_folder_without_config(folder: Path) -> None:
    (folder / "config.json").unlink()
    assert "it has no config.json" in refusal(folder)


def test_a_folder_without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "contains no weights" in refusal(folder)


@pytest.mark.parametrize("content", ["{", "", "\x00\x01", "nonsense"])
def test_a_corrupt_config(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    assert "is not valid JSON" in refusal(folder)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '"bert"',
        "3",
        "{}",
        '{"model_type": "no-such-type"}',
        '{"model_type": "bert", "hidden_size": "many"}',
    ],
)
def test_a_config_of_nonsense(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    assert str(folder) in refusal(folder)


def test_a_config_that_is_not_utf8(folder: Path) -> None:
    (folder / "config.json").write_bytes(b"\xff\xfe{}")
    assert "is not valid JSON" in refusal(folder)


@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage"])
def test_damaged_weights(folder: Path, damage: str) -> None:
    weights = folder / "model.safetensors"
    content = {"empty": b"", "truncated": weights.read_bytes()[:-100], "garbage": b"\x00" * 100}[damage]
    weights.write_bytes(content)
    assert f"{weights} cannot be read" in refusal(folder)


def test_weights_of_another_shape(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 64}))
    assert str(folder) in refusal(folder)


def test_weights_that_lack_the_head_are_not_made_up(shared: Any, folder: Path) -> None:
    """transformers would fill a missing classifier with random numbers, and only log it."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    save_file(
        {k: v for k, v in weights.items() if "classifier" not in k},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    message = refusal(folder)
    assert "classifier.bias and 1 more" in message
    assert "random" in message


def test_pickle_weights_are_refused_unless_allowed(folder: Path, shared: Any) -> None:
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    message = refusal(folder)
    assert "pickle weights (pytorch_model.bin)" in message
    assert "allow_pickle=True" in message
    model = load(folder, allow_pickle=True)
    x = model.encode("the cat sat")
    torch.testing.assert_close(model.logits(x), shared("bert").model.logits(x))


def test_a_pickle_beside_safetensors_is_not_opened(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "opened"

    class Bomb:
        def __reduce__(self) -> Any:
            return (marker.touch, ())

    torch.save({"x": Bomb()}, folder / "pytorch_model.bin")
    load(folder)
    assert not marker.exists()


def test_a_folder_without_tokenizer(folder: Path, shared: Any) -> None:
    for path in folder.glob("token*"):
        path.unlink()
    assert "no tokenizer that loads" in refusal(folder)
    assert load(folder, tokenizer=shared("bert").tokenizer).encode("the cat").ids


def test_a_model_without_tokenizer(shared: Any) -> None:
    assert "came without a tokenizer" in refusal(shared("bert").hf)
    model = load(shared("bert").hf, tokenizer=shared("bert").tokenizer)
    assert model.kind == "classifier"


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("BertForMaskedLM", "is a masked language model"),
        ("BertForTokenClassification", "neither a sequence classifier nor a language model"),
        ("BertForQuestionAnswering", "neither a sequence classifier nor a language model"),
        ("BertForMultipleChoice", "neither a sequence classifier nor a language model"),
    ],
)
def test_other_heads_are_refused_with_a_sentence(shared: Any, kind: str, sentence: str) -> None:
    import transformers

    model = getattr(transformers, kind)(shared("bert").hf.config)
    assert sentence in refusal((model, shared("bert").tokenizer))


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "BertForTokenClassification"])
def test_other_heads_in_a_folder_are_refused_too(shared: Any, tmp_path: Path, kind: str) -> None:
    import transformers

    getattr(transformers, kind)(shared("bert").hf.config).save_pretrained(tmp_path)
    shared("bert").tokenizer.save_pretrained(tmp_path)
    model = load(tmp_path)
    with pytest.raises(HeedfulError, match="makes no prediction"):
        model.target(model.encode("the cat"))


def test_an_encoder_without_head_makes_no_prediction(shared: Any) -> None:
    import heedful

    model = load((shared("bert").hf.bert, shared("bert").tokenizer))
    assert model.kind == "encoder"
    assert "values" not in model.capabilities
    with pytest.raises(HeedfulError, match="makes no prediction"):
        model.target(model.encode("the cat"))
    with pytest.raises(HeedfulError):
        heedful.explain(model, "the cat")


def test_a_slow_tokenizer_is_refused(shared: Any) -> None:
    class Slow:
        is_fast = False
        model_max_length = 64

        def __call__(self, *_: Any, **__: Any) -> dict[str, list[int]]:
            return {"input_ids": [5, 6]}

    assert "fast tokenizer" in refusal((shared("bert").hf, Slow()))


@pytest.mark.parametrize("source", [None, 3, 2.5, {}, ["a"], ("a", "b", "c"), b"bytes"])
def test_things_that_are_no_models(source: Any) -> None:
    assert "cannot load a" in refusal(source)


def test_unknown_tasks(folder: Path) -> None:
    assert "unknown task 'translation'" in refusal(folder, task="translation")


def test_a_model_already_behind_the_door_is_itself(shared: Any) -> None:
    assert load(shared("bert").model) is shared("bert").model


def test_remote_code_is_never_run_by_default(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    assert str(folder) in refusal(folder)
    assert not marker.exists()


def test_loading_leaves_no_settings_behind(saved: Path) -> None:
    import os

    from transformers.utils import logging as hf_logging

    before = (hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled(), dict(os.environ))
    state = torch.get_rng_state()
    load(saved)
    assert (hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled(), dict(os.environ)) == before
    assert torch.equal(torch.get_rng_state(), state)


def test_the_fingerprint_sees_a_change_and_an_exchange(fresh: Any) -> None:
    family = fresh("bert")
    before = family.model.facts()["fingerprint"]
    weight = family.hf.classifier.weight
    with torch.no_grad():
        weight[0, :2] = weight[0, :2].flip(0).clone()
    after = family.model.facts()["fingerprint"]
    assert before != after
    with torch.no_grad():
        weight[0, :2] = weight[0, :2].flip(0).clone()
    assert family.model.facts()["fingerprint"] == before
