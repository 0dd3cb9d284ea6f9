"""The shipped zoo: complete, small, safe, loadable, and right on clear sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

import heedful
from heedful.nn.one_layer import OneLayerClassifier

ZOO = Path(heedful.__file__).parent / "zoo"
NAMES = ("sentiment", "one-layer", "lm")
FILES = {
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "card.md",
    "metrics.json",
}
BESIDE = {
    f"features/{file}"
    for file in ("manifest.json", "result.json", "sae.safetensors", "card.md", "metrics.json")
}
BESIDE |= {"held-out-speeches.parquet"}
SECTIONS = ("Data", "Licence", "How it was made", "Architecture", "Metrics", "Intended use", "Limits")

POSITIVE = (
    "the selection on the menu is great and so is the food the service is not bad prices are fine",
    "a wonderful film with superb acting",
    "i loved every minute of it",
    "this is one of the best movies i have ever seen",
    "the food was excellent and the staff were friendly",
)
NEGATIVE = (
    "the food is terrible",
    "a boring and predictable waste of time",
    "the acting is awful and the plot makes no sense",
    "i hated this movie",
    "this is the worst film of the year",
)
CLEAR = [(text, 1) for text in POSITIVE] + [(text, 0) for text in NEGATIVE]


@pytest.mark.parametrize("name", NAMES)
def test_files(name: str) -> None:
    """Exactly the files named above (generation_config.json is allowed): nothing pickled slips in."""
    wanted = FILES | (BESIDE if name == "lm" else set())
    present = {str(path.relative_to(ZOO / name)) for path in (ZOO / name).rglob("*") if path.is_file()}
    assert present >= wanted
    assert present <= wanted | {"generation_config.json"}


def test_size() -> None:
    assert sum(path.stat().st_size for path in ZOO.rglob("*") if path.is_file()) <= 40e6


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_half_precision_and_finite(name: str) -> None:
    with safetensors.safe_open(ZOO / name / "model.safetensors", "pt") as file:
        for key in file.keys():  # noqa: SIM118  (not a dict)
            tensor = file.get_tensor(key)
            assert tensor.dtype == torch.float16, key
            assert tensor.isfinite().all(), key


@pytest.mark.parametrize("name", NAMES)
def test_card_is_complete(name: str) -> None:
    card = (ZOO / name / "card.md").read_text()
    missing = [section for section in SECTIONS if f"## {section}" not in card]
    assert not missing
    metrics = json.loads((ZOO / name / "metrics.json").read_text())
    assert {"seed", "versions", "parameters", "settings"} <= set(metrics)
    shown = metrics["test"]["perplexity"] if name == "lm" else metrics["imdb_test"]["accuracy"]
    assert f"{shown:.2f}" in card or f"{shown:.4f}" in card


@pytest.mark.parametrize(("name", "least"), [("sentiment", 0.86), ("one-layer", 0.84)])
def test_accuracy_reported(name: str, least: float) -> None:
    """What metrics.json says; test_reviews.py measures it again where the reviews are at hand."""
    found = json.loads((ZOO / name / "metrics.json").read_text())["imdb_test"]
    assert found["accuracy"] >= least
    assert found["interval_95"][0] < found["accuracy"] < found["interval_95"][1]
    assert found["n"] > 7_000


def test_sentiment_loads_as_any_hugging_face_folder() -> None:
    model = AutoModelForSequenceClassification.from_pretrained(ZOO / "sentiment").eval()
    tokenizer = AutoTokenizer.from_pretrained(ZOO / "sentiment")
    assert next(model.parameters()).dtype == torch.float32
    assert model.num_parameters() <= 6e6
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert (tokenizer.mask_token, tokenizer.model_max_length) == ("[MASK]", 512)
    assert tokenizer.convert_ids_to_tokens(tokenizer("Great!")["input_ids"]) == [
        "[CLS]",
        "great",
        "!",
        "[SEP]",
    ]
    batch = tokenizer([text for text, _ in CLEAR], padding=True, return_tensors="pt")
    with torch.inference_mode():
        predicted = model(**batch).logits.argmax(-1).tolist()
    assert predicted == [label for _, label in CLEAR]


def test_sentiment_reads_all_512_positions() -> None:
    """A verdict in the last words, after 480 neutral ones, is heard: late positions were trained."""
    model = AutoModelForSequenceClassification.from_pretrained(ZOO / "sentiment").eval()
    tokenizer = AutoTokenizer.from_pretrained(ZOO / "sentiment")
    filler = " ".join(["the man walks to the house and then he sits at the table ."] * 34)
    ends = ("an excellent , wonderful , superb film .", "an awful , boring , terrible film .")
    batch = tokenizer([f"{filler} {end}" for end in ends], return_tensors="pt")
    assert 450 < batch["input_ids"].shape[1] <= 512
    with torch.inference_mode():
        positive = model(**batch).logits.softmax(-1)[:, 1]
    assert positive[0] - positive[1] > 0.1


def test_one_layer_loads_and_predicts() -> None:
    """All but the first sentence: "not bad" is beyond a model that reads words one by one."""
    clear = CLEAR[1:]
    model = OneLayerClassifier.load(ZOO / "one-layer")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(ZOO / "one-layer")
    c = model.config
    assert (c.heads, c.width, c.d_att, c.d_out, c.context) == (6, 128, 64, 64, 256)
    assert (tokenizer.unk_token, tokenizer.cls_token, tokenizer.model_max_length) == ("UNK", "[cls]", 256)
    batch = tokenizer([text for text, _ in clear], padding=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(batch["input_ids"], batch["attention_mask"])
        alone = [model(tokenizer(text, return_tensors="pt")["input_ids"])[0] for text, _ in clear]
    torch.testing.assert_close(
        logits, torch.stack(alone), atol=1e-5, rtol=1e-4
    )  # float32 sums in another order
    assert logits.argmax(-1).tolist() == [label for _, label in clear]


def test_one_layer_offsets() -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(ZOO / "one-layer")
    text = "It's GREAT, really  great!"
    encoded = tokenizer(text, return_offsets_mapping=True)
    words = [text[a:b] for a, b in encoded["offset_mapping"][1:]]
    assert words == ["It", "'", "s", "GREAT", ",", "really", "great", "!"]
    assert encoded["input_ids"][0] == tokenizer.cls_token_id
    assert encoded["input_ids"][4] == encoded["input_ids"][7]


def test_lm_loads_and_writes() -> None:
    model = AutoModelForCausalLM.from_pretrained(ZOO / "lm").eval()
    tokenizer = AutoTokenizer.from_pretrained(ZOO / "lm")
    assert next(model.parameters()).dtype == torch.float32
    assert model.lm_head.weight is model.transformer.wte.weight
    text = "Fellow citizens, 1 € naïve\n"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    ids = tokenizer("the people of the United", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        best = int(model(ids).logits[0, -1].argmax())
    assert tokenizer.decode([best]) == " States"
