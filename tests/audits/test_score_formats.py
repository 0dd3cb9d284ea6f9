"""Scores made elsewhere: read as they come, laid on our units, refused where their place is not certain."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import tracemalloc
import warnings
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given as examples
from hypothesis import strategies as st

import heedful
from heedful import HeedfulError
from heedful.audits import scores_file
from heedful.audits.score_alignment import align_scores
from heedful.audits.score_formats import Given, read_given
from heedful.audits.scores_file import read_scores_file
from heedful.modalities.text import TextInput
from heedful.modalities.text_windows import select

DATA = Path(__file__).parents[1] / "data"
PROMPT = "The café 😀 was not bad"  # what the files in DATA explain


@cache
def model(name: str) -> Any:
    return heedful.load(f"zoo:{name}")


def encoded(text: str, name: str = "sentiment") -> TextInput:
    x: TextInput = model(name).encode(text)
    return x


def laid(value: Any, text: str, unit: str = "word", name: str = "sentiment", **more: Any) -> list[float]:
    return [round(float(v), 9) for v in align_scores(read_given(value), encoded(text, name), unit, **more)]


def column(*values: float) -> tuple[tuple[float, ...], ...]:
    return tuple((float(value),) for value in values)


# ---- what is read ----


def test_numbers_in_every_container() -> None:
    expected = Given(column(1.0, -2.0, 3.0))
    for value in (
        [1, -2.0, np.float32(3)],
        (1.0, -2, 3),
        [[1.0, -2.0, 3.0]],
        np.array([1, -2, 3]),
        np.array([[1.0, -2.0, 3.0]], dtype=np.float32),
        torch.tensor([1.0, -2.0, 3.0], requires_grad=True),
        torch.tensor([[1.0, -2.0, 3.0]], dtype=torch.bfloat16),
        torch.tensor([[0.5, 0.5], [-3.0, 1.0], [1.0, 2.0]]),
        torch.tensor([[[0.5, 0.5], [-3.0, 1.0], [1.0, 2.0]]]),
        (torch.tensor([[1.0, -2.0, 3.0]]),),
    ):
        assert read_given(value) == expected


def test_words_and_spans_in_lists() -> None:
    assert read_given([("a", 1), ["b", 0.5]]) == Given(column(1, 0.5), pieces=("a", "b"))
    assert read_given([(0, 1, 1), [2, 3, 0.5]]) == Given(column(1, 0.5), spans=((0, 1), (2, 3)))
    assert read_given([(0, 5, 1.5)]) == Given(column(1.5), spans=((0, 5),))


def test_equal_scores_are_taken() -> None:
    assert laid([0.0, 0.0], "good film") == [0, 0]


def test_what_was_given_is_kept_unless_something_is_said() -> None:
    first = read_given([1.0], fitted_by="mask", target="positive")
    assert read_given(first) == first
    assert read_given(first, fitted_by="unknown", target=0) == Given(column(1.0), target=0)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (None, None),
        ("unknown", None),
        ("nothing", ()),
        ("mask", ("mask",)),
        (" mask, delete", ("mask", "delete")),
        (["mask", "delete"], ("mask", "delete")),
        (("nothing",), ()),
        ((), ()),
    ],
)
def test_fitted_by(said: Any, kept: Any) -> None:
    assert read_given([1.0], fitted_by=said).fitted_by == kept


@pytest.mark.parametrize("said", ["", "mask,", "mask,nothing", ["unknown", "a"], [""]])
def test_fitted_by_that_says_nothing_clear(said: Any) -> None:
    with pytest.raises(HeedfulError, match="fitted_by cannot be"):
        read_given([1.0], fitted_by=said)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_scores_that_are_not_finite(bad: float) -> None:
    for value in ([0.0, bad], np.array([0.0, bad]), torch.tensor([0.0, bad]), [("a", 0.0), ("b", bad)]):
        with pytest.raises(HeedfulError, match=r"^score 1 \(from 0\) is not a finite number\."):
            read_given(value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (3.0, "scores cannot be a float"),
        (None, "scores cannot be a NoneType"),
        ({1.0, 2.0}, "scores cannot be a set"),
        (b"[1, 2]", "scores cannot be a bytes"),
        (torch.float32, "contains no real numbers"),
        (torch.tensor([True]), "contains no real numbers"),
        (torch.tensor([1j]), "contains no real numbers"),
        (torch.zeros(2, 3, 4), r"tensor of shape \(2, 3, 4\) does not contain one text"),
        (torch.tensor(1.0), r"tensor of shape \(\) does not contain one text"),
        (np.zeros((3, 2)), r"array of shape \(3, 2\) is not one number per token.*scores\.sum"),
        (np.zeros((1, 3, 2)), r"array of shape \(1, 3, 2\)"),
        (np.array(["a"]), "contains no scores"),
        (np.array([True]), "an array of bool contains no scores"),
        ([], "there are no scores"),
        (np.zeros(0), "there are no scores"),
        ([1.0, "a"], "'a' does not fit in a list of scores"),
        ([("a", 1.0), 2.0], "2.0 does not fit"),
        ([2.0, ("a", 1.0)], r"\('a', 1.0\) does not fit"),
        ([("a", 1.0), (0, 1, 2.0)], "does not fit"),
        ([(0.5, 1, 2.0), (1, 2, 2.0)], "does not fit"),
        ([True, False], "a score cannot be True"),
        ([("a", "b")], "a score cannot be 'b'"),
        ([10**400], "a score is too large"),
    ],
)
def test_what_is_no_scores(value: Any, why: str) -> None:
    with pytest.raises(HeedfulError, match=why):
        read_given(value)


def test_the_refusal_lists_what_is_taken() -> None:
    with pytest.raises(HeedfulError, match=r"\(word, score\).*numpy.*torch.*shap\.Explanation.*inseq"):
        read_given(object())


# ---- shap ----


def counts(texts: Any) -> Any:
    return np.array([[len(text), 2 * text.count("good") + text.count("film")] for text in texts], float)


def explained(function: Any, texts: list[str], **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import shap

        return shap.Explainer(function, shap.maskers.Text(r"\W+"), **more)(texts, silent=True)


def test_shap_of_a_function_with_two_outputs() -> None:
    text = "A good film, good"
    explanation = explained(counts, [text], output_names=["length", "good"])
    for value in (explanation, explanation[0]):
        given = read_given(value)
        assert given.outputs == ("length", "good")
        assert given.pieces == ("A ", "good ", "film, ", "good")
        assert laid(value, text, column="good") == laid(value, text, column=1) == [0, 2, 0.8, 0.2, 2]
    assert laid(explanation[0, :, "good"], text) == [0, 2, 0.8, 0.2, 2]
    with pytest.raises(
        HeedfulError, match=r"2 columns \(length\|good\) and none is chosen.*Give only the column"
    ):
        laid(explanation, text)


def test_shap_of_a_function_with_one_output() -> None:
    text = "A good film, good"
    given = read_given(explained(lambda texts: counts(texts)[:, 1], [text]))
    assert given.outputs == ()
    assert list(align_scores(given, encoded(text), "word")) == pytest.approx([0, 2, 0.8, 0.2, 2])


def test_shap_of_two_texts_is_refused() -> None:
    both = explained(counts, ["A good film, good", "a bad one"])
    with pytest.raises(HeedfulError, match=r"contains 2 texts\. Give one: explanation\[0\]"):
        read_given(both)
    assert len(read_given(both[1]).scores) == 3


def test_shap_made_by_hand() -> None:
    from shap import Explanation

    values = np.array([0.0, 1.0, -1.0, 0.0])
    tokens = np.array(["", "good ", "film", ""], dtype=object)
    assert laid(Explanation(values, data=tokens), "good film") == [1, -1]
    assert laid(Explanation(values, feature_names=list(tokens)), "good film") == [1, -1]
    assert laid(Explanation(values[None], data=np.array([tokens])), "good film") == [1, -1]
    one = Explanation(np.array([[1.0, 2.0]]), data=np.array(["good"]))  # a token, two outputs
    assert read_given(one).scores == ((1.0, 2.0),)
    with pytest.raises(HeedfulError, match="4 scores for 3 tokens"):
        read_given(Explanation(values, data=tokens[:3]))
    with pytest.raises(HeedfulError, match="no scores of one text"):
        read_given(Explanation(np.array(["a", "b"]), data=tokens[:2]))


def test_shap_without_tokens_is_laid_by_count() -> None:
    from shap import Explanation

    assert read_given(Explanation(np.array([1.0, -1.0]), data=np.array([7, 8]))).pieces == ()
    assert laid(Explanation(np.array([1.0, -1.0])), "good film") == [1, -1]


# ---- captum ----


def test_captum_of_the_embeddings_of_a_model() -> None:
    from captum.attr import LayerIntegratedGradients

    loaded, text = model("sentiment"), "not a good film"
    x = encoded(text)

    def forward(ids: torch.Tensor) -> torch.Tensor:
        return loaded.module(input_ids=ids).logits[:, 1]

    ids = torch.tensor([x.ids])
    layer = loaded.module.get_input_embeddings()
    found = LayerIntegratedGradients(forward, layer).attribute(ids, torch.zeros_like(ids), n_steps=4)
    assert found.shape[:2] == ids.shape
    assert found.ndim == 3
    per_token = found[0].sum(-1).detach().double().numpy()
    content = [t for t, special in enumerate(x.special) if not special]
    result = align_scores(read_given(found), x, "word")
    assert len(content) == len(result) < len(x)
    assert result == pytest.approx(per_token[content])
    assert np.abs(result).max() > 0


def test_captum_saliency_of_numbers() -> None:
    from captum.attr import Saliency

    found = Saliency(lambda row: (row * torch.tensor([1.0, -2.0])).sum(-1)).attribute(
        torch.tensor([[1.0, 1.0]], requires_grad=True)
    )
    assert laid(found, "good film") == [1, 2]


# ---- inseq ----

STEPS = (  # printed by inseq 0.7.1 beside the file: attributions of the prompt, summed over the embedding
    (-3.167614e-05, -2.301281e-05),
    (-2.027931e-04, -1.370966e-05),
    (-7.272246e-05, -1.677734e-05),
    (-4.146003e-05, 1.210414e-05),
    (-6.035123e-06, 9.148986e-06),
    (-5.328724e-05, -1.492928e-05),
    (-3.931723e-05, 6.628468e-06),
    (-8.711826e-05, -2.614320e-05),
    (-9.672340e-06, 2.496853e-05),
    (6.728170e-06, -4.186321e-05),
    (3.217781e-04, 8.539697e-06),
)
TOKENS = ("T", "he", "ĠcafÃ©", "Ġ", "ð", "Ł", "ĺ", "Ģ", "Ġwas", "Ġnot", "Ġbad")


def test_inseq_of_a_decoder() -> None:
    path = DATA / "inseq_decoder.json"
    given = read_given(path)
    assert given.outputs == ("Ġthe", "Ġcat")
    assert given.pieces == TOKENS
    assert np.array(given.scores) == pytest.approx(np.array(STEPS), rel=1e-5)
    assert read_given(str(path)) == given == read_given(json.loads(path.read_text()))


@pytest.mark.parametrize("name", ["sentiment", "lm"])
def test_inseq_is_laid_on_the_words_of_any_tokenizer(name: str) -> None:
    x, given = encoded(PROMPT, name), read_given(DATA / "inseq_decoder.json")
    for step, scores in enumerate(zip(*STEPS, strict=True)):
        words = [scores[0] + scores[1], scores[2], sum(scores[4:8]), *scores[8:]]  # a lone space has no place
        for chosen in (step, given.outputs[step], given.outputs[step][1:]):
            assert align_scores(given, x, "word", chosen) == pytest.approx(words, rel=1e-4)
        named = read_given(given, target=["the", "cat"][step])
        assert align_scores(named, x, "word") == pytest.approx(words, rel=1e-4)


@pytest.mark.parametrize("chosen", [None, 2, -1, True, "dog"])
def test_inseq_with_several_steps_asks_for_one(chosen: Any) -> None:
    given = read_given(DATA / "inseq_decoder.json")
    with pytest.raises(
        HeedfulError, match=r"2 columns \(Ġthe\|Ġcat\).*Give only the column of what is explained"
    ):
        align_scores(given, encoded(PROMPT), "word", chosen)


def test_a_name_that_two_columns_have_is_refused() -> None:
    given = Given(((1.0, 2.0),), ("good",), outputs=("a", "a"))
    with pytest.raises(HeedfulError, match="'a' is several of them"):
        align_scores(given, encoded("good"), "word", "a")
    assert list(align_scores(given, encoded("good"), "word", 1)) == [2]


def test_inseq_of_primitives_with_one_step_needs_no_choice() -> None:
    given = read_given(DATA / "inseq_primitives.json")
    assert given.outputs == ("Ġcat",)
    expected = [
        6.464683e-05 + 3.958959e-05,
        1.395307e-05,
        4.914372e-04,
        4.391279e-05,
        5.786773e-06,
        6.982684e-05,
    ]
    assert align_scores(given, encoded(PROMPT), "word") == pytest.approx(expected, rel=1e-4)


def test_inseq_of_an_encoder_decoder_in_half_precision() -> None:
    given = read_given(DATA / "inseq_encoder_decoder.json")
    assert given.pieces == ("▁the", "▁cat", "▁sat", "▁not", "</s>")
    assert given.outputs == ("▁bad", "</s>")
    expected = [1.357314e-04, 1.810247e-04, 2.602454e-04, 3.868996e-04]
    assert align_scores(given, encoded("the cat sat not"), "word", "bad") == pytest.approx(expected, rel=1e-3)


def old_inseq(packed: Any, tokens: str = "ab") -> dict[str, Any]:
    token = [{"__instance_type__": ["m", "TokenWithId"], "attributes": {"token": t, "id": 0}} for t in tokens]
    one = {"source": token, "target": token, "source_attributions": packed, "target_attributions": None}
    one |= {"attr_pos_start": 1, "attr_pos_end": 2}
    return {"sequence_attributions": [one]}


def test_arrays_of_earlier_inseq() -> None:
    table = np.arange(2, dtype=np.float32).reshape(2, 1)
    head = {"dtype": "float32", "shape": [2, 1], "Corder": True}
    for content in (
        table.tolist(),
        "b64:" + base64.b64encode(table.tobytes()).decode(),
        "b64.gz:" + base64.b64encode(gzip.compress(table.tobytes())).decode(),
    ):
        given = read_given(old_inseq(head | {"__ndarray__": content}))
        assert given == Given(column(0, 1), ("a", "b"), outputs=("b",))


@pytest.mark.parametrize(
    "shape", [[2, 1], [0], [0, 1], [1 << 32, 1 << 32], [1 << 40, 1], [-1, 1], [1 << 62, 4]]
)
def test_a_packed_array_never_grows_beyond_its_shape(shape: list[int]) -> None:
    """[0], and [2^32, 2^32] in 64 bits, have no bytes, and zlib takes 0 for no limit."""
    bomb = "b64.gz:" + base64.b64encode(gzip.compress(bytes(64 << 20))).decode()
    tracemalloc.start()
    try:
        with pytest.raises(HeedfulError, match="not what inseq saves"):
            read_given(old_inseq({"__ndarray__": bomb, "dtype": "<f4", "shape": shape}))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"sequence_attributions": 3},
        {"sequence_attributions": [3]},
        {"sequence_attributions": [{}]},
        {"__instance_type__": ["a", "b"], "attributes": 4},
        {"__instance_type__": ["a", "b"]},
        old_inseq("not base64!"),
        old_inseq(base64.b64encode(b"no safetensors").decode()),
        old_inseq(7),
        old_inseq({"__ndarray__": [[1.0]], "dtype": "object", "shape": [1, 1]}),
        old_inseq({"__ndarray__": [1.0, 2.0], "dtype": "float32", "shape": [2]}),
        old_inseq({"__ndarray__": [[1.0]], "dtype": "float32", "shape": [3, 1]}),
        old_inseq({"__ndarray__": "b64.gz:AAAA", "dtype": "float32", "shape": [3, 1]}),
    ],
)
def test_mappings_that_are_not_of_inseq(data: Any) -> None:
    with pytest.raises(HeedfulError, match="this is not what inseq saves"):
        read_given(data)


def test_inseq_that_cannot_be_taken_says_what_to_change(tmp_path: Path) -> None:
    from safetensors.torch import save

    small = save({"attribution": torch.ones(2, 1).to(torch.float8_e4m3fn)})
    with pytest.raises(HeedfulError, match="scores_precision='float32'"):
        read_given(old_inseq(base64.b64encode(small).decode()))
    data = json.loads((DATA / "inseq_primitives.json").read_text())
    with pytest.raises(HeedfulError, match=r"inseq saved 2 texts.*split_sequences=True"):
        read_given({"sequence_attributions": data["sequence_attributions"] * 2})
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b"{}"))
    with pytest.raises(HeedfulError, match="compress=False"):
        read_given(path)
    with pytest.raises(HeedfulError, match="1 scores for 2 tokens"):
        read_given(old_inseq({"__ndarray__": [[1.0]], "dtype": "float32", "shape": [1, 1]}))


def test_files_that_are_not_of_inseq(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content, why in ((b"{", "not JSON"), (b"[1]", "contains no object"), (b"[" * 100_000, "JSON")):
        path.write_bytes(content)
        with pytest.raises(HeedfulError, match=why):
            read_given(path)
    for missing in (tmp_path, "no such file", "a\0b", "long " * 5000):
        with pytest.raises(HeedfulError, match="cannot read"):
            read_given(missing)


# ---- spans ----


def test_a_span_is_shared_by_visible_characters() -> None:
    assert laid([(0, 9, 8.0)], "good film") == [4, 4]
    assert laid([(2, 7, 4.0), (0, 1, 1.0)], "good film") == [3, 2]  # "od fi", "g"
    assert laid([(0, 10, 9.0)], "good film.", "token") == [4, 4, 1]
    assert laid([(2, 8, 4.0)], "film.   film.", "sentence") == [4, 0]
    assert encoded("a good", "lm").offsets == (
        (0, 1),
        (1, 6),
    )  # the space is part of a token, but is not seen
    assert laid([(0, 6, 5.0)], "a good", "token", "lm") == [1, 4]


def test_white_space_without_a_score_is_fine() -> None:
    assert laid([(0, 4, 1.0), (4, 5, 0.0), (5, 9, 2.0)], "good film") == [1, 2]
    with pytest.raises(HeedfulError, match=r"\(4, 5\) ' ' contains no word that the model reads"):
        laid([(0, 4, 1.0), (4, 5, 0.5)], "good film")


@pytest.mark.parametrize("span", [(-1, 3), (3, 2), (0, 10), (20, 30)])
def test_a_span_outside_the_text(span: tuple[int, int]) -> None:
    with pytest.raises(HeedfulError, match=r"lies outside the text: it has 9 characters"):
        laid([(*span, 1.0)], "good film")


def test_a_sign_that_no_token_holds_belongs_to_its_word() -> None:
    x = encoded("good\u2060 film")
    assert (x.offsets[1], x.word_spans[0]) == ((0, 4), (0, 5))
    assert laid([(4, 5, 1.0)], x.text) == [1, 0]


def test_an_empty_span_may_hold_no_score() -> None:
    assert laid([(0, 0, 0.0), (0, 4, 1.0)], "good film") == [1, 0]
    with pytest.raises(HeedfulError, match="Leave special tokens"):
        laid([(0, 0, 0.1), (0, 4, 1.0)], "good film")


def test_a_byte_of_a_character_gets_its_part() -> None:
    x = encoded("a 😀", "lm")
    scores = align_scores(read_given([(2, 3, 1.0)]), x, "token")
    on = [t for t, span in enumerate(x.offsets) if span == (2, 3)]
    assert len(on) == 4
    assert [scores[t] for t in on] == [0.25] * 4


TEXTS = [
    "Not a good film, isn't it? good",
    "naïve café 😀👨‍👩‍👧 good",
    "שלום עולם good",
    "a  b\n\nc",
]


@examples(
    st.sampled_from(TEXTS),
    st.sampled_from(["sentiment", "lm"]),
    st.sampled_from(["token", "word", "sentence"]),
    st.data(),
)
def test_random_cuts_conserve_the_total(text: str, name: str, unit: str, data: st.DataObject) -> None:
    x = encoded(text, name)
    inner = data.draw(st.sets(st.integers(1, len(text) - 1)))
    edges = [0, *sorted(inner), len(text)]
    spans = [(a, b) for a, b in pairwise(edges) if text[a:b].strip()]
    held = [any(a < end and start < b for start, end in x.offsets) for a, b in spans]
    spans = [span for span, is_held in zip(spans, held, strict=True) if is_held]
    scores = data.draw(st.lists(st.floats(-100, 100), min_size=len(spans), max_size=len(spans)))
    result = align_scores(Given(column(*scores), spans=tuple(spans)), x, unit)
    assert result.dtype == np.float64
    assert result.shape == (len(x.units(unit)),)
    assert result.sum() == pytest.approx(sum(scores), abs=1e-9)
    positive = align_scores(Given(column(*map(abs, scores)), spans=tuple(spans)), x, unit)
    assert (positive >= 0).all()


# ---- pieces ----


def test_words_with_punctuation_glued_to_them() -> None:
    pieces = [("Not", 1), ("good,", 5), ("really.", 7)]
    assert laid(pieces, "Not good, really.") == [1, 4, 1, 6, 1]


def test_a_piece_of_two_words() -> None:
    assert laid([("Not good", 7), ("film", 1)], "Not good film") == [3, 4, 1]


def test_repeated_words_are_taken_from_left_to_right() -> None:
    pieces = [("good", 1), ("good", 2), ("bad", 3), ("good", 4)]
    assert laid(pieces, "good good bad good") == [1, 2, 3, 4]


def test_wordpiece_tokens_of_another_tokenizer() -> None:
    pieces = [
        ("[CLS]", 100),
        ("un", 1),
        ("##believ", 2),
        ("##ably", 3),
        ("cafe", 4),
        ("!", 5),
        ("[SEP]", 100),
    ]
    assert laid(pieces, "Unbelievably Café!") == [6, 4, 5]
    assert laid(pieces, "Unbelievably Cafe\u0301!") == [6, 4, 5]
    inside = [("na", 1), ("##ive", 2), ("eleve", 3)]
    assert laid(inside, "Naïve élève") == laid(inside, "Nai\u0308ve e\u0301le\u0300ve") == [3, 3]


def test_our_own_tokens_keep_their_places() -> None:
    text = "Café 😀 good"
    x = encoded(text)
    assert "[UNK]" in x.tokens
    scores = [float(t + 1) for t in range(len(x))]
    given = read_given(list(zip(x.tokens, scores, strict=True)))
    assert list(align_scores(given, x, "token")) == scores[1:-1]
    assert list(align_scores(given, x, "word")) == scores[1:-1]


def test_byte_level_tokens_of_the_same_model() -> None:
    x = encoded("Café 😀 good", "lm")
    given = read_given([(token, float(t)) for t, token in enumerate(x.tokens)])
    assert list(align_scores(given, x, "token")) == list(range(len(x)))
    sums = [sum(positions) for positions in x.units("word")]
    assert list(align_scores(given, x, "word")) == sums


@pytest.mark.parametrize(
    "text", ["Café 😀 good", "forêt, être 你好", "שלום עולם", "a\tb\u00a0c é", "I'm ok 👨‍👩‍👧!"]
)
def test_byte_level_tokens_on_a_model_of_another_kind(text: str) -> None:
    theirs, ours = encoded(text, "lm"), encoded(text)
    assert [text[slice(*span)] for span in ours.word_spans] == [
        text[slice(*span)] for span in theirs.word_spans
    ]
    scores = [float(t + 1) for t in range(len(theirs))]
    pieces = [("<|endoftext|>", 50.0), *zip(theirs.tokens, scores, strict=True)]
    expected = np.zeros(len(ours.word_spans))
    for score, word, span in zip(scores, theirs.words, theirs.offsets, strict=True):
        expected[word] += score if text[slice(*span)].strip() else 0  # white space has no place of its own
    assert align_scores(read_given(pieces), ours, "word") == pytest.approx(expected)


def test_sentencepiece_tokens_with_bytes() -> None:
    pieces = [
        ("<s>", 9),
        ("▁Caf", 1),
        ("é", 2),
        ("▁", 9),
        ("<0xF0>", 1),
        ("<0x9F>", 1),
        ("<0x98>", 1),
        ("<0x80>", 1),
    ]
    assert laid([*pieces, ("▁good", 5), ("</s>", 9)], "Café 😀 good") == [3, 4, 5]
    assert laid([("Caf", 1), ("é</w>", 2), ("good</w>", 5)], "Café good") == [3, 5]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("שלום עולם טוב", ["שלום", "עולם", "טוב"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("good 👨‍👩‍👧 film ❤️", ["good", "👨‍👩‍👧", "film", "❤️"]),
        ("Straße ÉCOLE", ["straße", "école"]),
        ("E\u0301cole naïve", ["École", "nai\u0308ve"]),
        ("Ġorġ Ċar", ["Ġorġ", "Ċar"]),
    ],
)
@pytest.mark.parametrize("name", ["sentiment", "lm"])
def test_words_of_many_scripts(text: str, words: list[str], name: str) -> None:
    scores = [float(i + 1) for i in range(len(words))]
    assert laid(list(zip(words, scores, strict=True)), text, name=name) == scores


def test_signs_that_look_like_marks_are_found_as_they_are() -> None:
    assert laid([("##", 1), ("good", 2)], "## good", "token") == [0.5, 0.5, 2]
    assert sum(laid([("<s>", 3), ("is", 1), ("good", 1)], "<s> is good")) == 5


def test_words_left_out_are_passed_over_whole() -> None:
    text = "Cats has and a long list of wonderful, remarkable, extraordinary toys"
    words = ["Cats", "a", "long", "list", "wonderful", "remarkable", "extraordinary", "toys"]
    result = align_scores(read_given([(word, 1.0) for word in words]), encoded(text), "word")
    by_word = {encoded(text).word_text(i): score for i, score in enumerate(result)}
    assert by_word["has"] == by_word["and"] == by_word["of"] == 0  # neither holds the "a" that is meant
    assert by_word["a"] == 1


def test_a_start_of_a_word_is_passed_to_if_no_whole_word_is_there() -> None:
    text = "of wonderful remarkable playing"
    assert laid([("wonderful", 1), ("remarkable", 2), ("play", 3), ("##ing", 4)], text) == [0, 1, 2, 7]


def test_a_piece_that_is_not_there() -> None:
    with pytest.raises(HeedfulError, match=r"'film' cannot be found in the text: number 1 \(from 0\)"):
        laid([("good", 1), ("film", 2)], "good book")
    with pytest.raises(HeedfulError, match="'good' cannot be found"):  # out of order
        laid([("film", 1), ("good", 2)], "good film")
    with pytest.raises(HeedfulError, match="cannot be found"):  # the end of a word only
        laid([("ood", 1), ("film", 2)], "good film")


def test_pieces_that_hold_too_little_of_the_text() -> None:
    assert laid([("abc", 1.0)], "abc d") == [1, 0]
    with pytest.raises(HeedfulError, match="the pieces contain only 4 of 8 visible characters"):
        laid([("good", 1.0)], "good film")
    with pytest.raises(HeedfulError, match="contain only 0 of 4"):
        laid([("[CLS]", 1.0), ("", 2.0), (" ", 0.0)], "good")


# ---- plain numbers ----


def test_numbers_are_laid_by_their_count() -> None:
    text = "Isn't this café good?"
    x = encoded(text)
    assert x.tokens == ("[CLS]", "isn", "'", "t", "this", "cafe", "good", "?", "[SEP]")
    for every in (np.arange(9.0), torch.arange(9.0)):
        assert laid(every, text, "token") == [1, 2, 3, 4, 5, 6, 7]
        assert laid(every, text) == [6, 4, 5, 6, 7]
    assert laid([1.0, 2, 3, 4, 5, 6, 7], text) == [6, 4, 5, 6, 7]
    assert laid([5.0, 2, 3, 4, 5], text) == [5, 2, 3, 4, 5]
    assert laid([5.0, 2, 3, 4, 5], text, "token") == [3, 1, 1, 2, 3, 4, 5]
    assert laid([5.0, 2, 3, 5], text) == [5, 2, 3, 4, 1]  # between spaces: "good?" is two words of ours
    assert laid([5.0, 2, 3, 5], text, "sentence") == [15]


def test_words_are_shared_by_their_tokens() -> None:
    x = encoded("isn't good", "sentiment")
    assert x.tokens[1:-1] == ("isn", "'", "t", "good")
    assert laid([10.0, 1.0], "isn't good", "token") == [6, 2, 2, 1]


def test_numbers_for_sentences() -> None:
    assert laid([2.0, 3.0], "Good film. Bad end.", "sentence") == [2, 3]


def test_cuts_with_the_same_count_are_refused_and_shown() -> None:
    text = "not good, film is"
    whole = encoded(text)
    assert whole.tokens == ("[CLS]", "not", "good", ",", "film", "is", "[SEP]")
    cut = select(whole, [0, 1, 2, 3, 4, 6])  # "is" is cut off: four words of ours, four between spaces
    with pytest.raises(HeedfulError) as caught:
        align_scores(read_given([1.0, 2.0, 3.0, 4.0]), cut, "word")
    assert str(caught.value) == (
        "4 scores fit 4 words (not|good|,|film) as well as 4 words between spaces (not|good,|film|is)."
        " Give (start, end, score) for each piece."
    )
    shorter = select(whole, [0, 1, 2, 6])
    with pytest.raises(
        HeedfulError, match=re.escape("special ones ([CLS]|not|good|[SEP]) as well as 4 words")
    ):
        align_scores(read_given([1.0, 2.0, 3.0, 4.0]), shorter, "word")
    assert list(align_scores(read_given([(0, 3, 1.0), (4, 8, 2.0)]), shorter, "word")) == [1, 2]


def test_scores_for_what_is_cut_off_are_refused() -> None:
    cut = select(encoded("not good film"), [0, 1, 4])
    with pytest.raises(HeedfulError, match=r"\(4, 8\) 'good' contains no word that the model reads"):
        align_scores(read_given([("not", 1.0), ("good", 2.0)]), cut, "word")


def test_names_for_one_cut_are_no_ambiguity() -> None:
    assert laid([1.0, 2.0], "good film") == [1, 2]  # words, tokens and words between spaces at once


def test_a_count_that_nothing_has_is_refused_and_shown() -> None:
    with pytest.raises(HeedfulError) as caught:
        laid([1.0] * 9, "Isn't it good?")
    message = str(caught.value)
    assert message.startswith(
        "there are 9 scores, but the text has 4 words (Isn't|it|good|?), 6 tokens (Isn|'|t|it|"
    )
    assert "8 tokens with the special ones ([CLS]|Isn|'|t|it|good|…)" in message
    assert "3 words between spaces (Isn't|it|good?)" in message


def test_a_column_is_ignored_where_there_is_one() -> None:
    assert laid([1.0, 2.0], "good film", column=7) == laid([1.0, 2.0], "good film", column="x") == [1, 2]


# ---- files of scores ----


def write(path: Path, *lines: Any) -> Path:
    content = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(content) + b"\n")
    return path


def test_a_file_of_scores(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        b'\xef\xbb\xbf{"row": 0, "method": "b", "scores": [1, 2.5]}',
        {"text": "good film", "method": "a", "scores": [["good", 1], ["film", 2]], "fitted_by": "nothing"},
        b"",
        {"row": 1, "method": "a", "scores": [[0, 4, 1], [5, 9, 2]], "target": {"label": 1}},
        {"row": 1, "method": "b", "scores": [1, 2], "tokens": ["good", "film"], "fitted_by": ["mask", "pad"]},
        {"row": 2, "method": "b", "scores": [1, 2], "spans": [[0, 4], [5, 9]], "fitted_by": None},
        {"text": "", "method": "Méthode 1", "scores": [0]},
    )
    file = read_scores_file(path)
    assert file.methods == ("b", "a", "Méthode 1")
    assert file.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    first, named = Given(column(1, 2.5)), Given(column(1, 2), pieces=("good", "film"))
    assert file.of(0, "x") == {"b": first}
    assert file.of(0, "good film") == {"a": read_given(named, fitted_by="nothing"), "b": first}
    assert file.of(1, "x") == {
        "a": Given(column(1, 2), spans=((0, 4), (5, 9)), target={"label": 1}),
        "b": read_given(named, fitted_by="mask,pad"),
    }
    assert file.of(2, "x")["b"] == Given(column(1, 2), spans=((0, 4), (5, 9)))
    assert file.of(7, "x") == {}
    assert (set(file.by_row), set(file.by_text)) == ({0, 1, 2}, {"good film", ""})
    with pytest.raises(HeedfulError, match="row 1 has two sets of scores of 'a'"):
        file.of(1, "good film")
    assert list(align_scores(file.of(1, "")["b"], encoded("good film"), "word")) == [1, 2]


GOOD = {"row": 0, "method": "a", "scores": [1.0]}
DEEP = b'{"row": 1, "method": "a", "scores": ' + b"[" * 100_000


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (DEEP, "not JSON"),
        (b'{"text": "\xff"}', "not UTF-8: at byte 10"),
        (b'{"row": 1, "method": "a", "scores": [NaN]}', "not JSON: NaN is no number"),
        (b'{"row": 1, "method": "a", "scores": [-Infinity]}', "not JSON: -Infinity is no number"),
        (b'{"row": 1, "method": "a", "scores": [1], "target": NaN}', "not JSON: NaN"),
        (b'{"row": 1, "method": "a", "scores": [1e999]}', r"score 0 \(from 0\) is not a finite number"),
        (b'{"row": 1, "method": "a", "scores": [1' + b"0" * 400 + b"]}", "a score is too large"),
        (b'{"row": 1, "method": "a", "scores": [1' + b"0" * 5000 + b"]}", "not JSON"),
        ({"method": "a", "scores": [1]}, "no text is named"),
        ({"row": 1, "text": "a", "method": "a", "scores": [1]}, "no text is named.*either"),
        (GOOD | {"row": "1"}, "no text is named"),
        (GOOD | {"row": 1.0}, "no text is named"),
        (GOOD | {"row": None}, "no text is named"),
        (GOOD | {"row": True}, "row cannot be True"),
        (GOOD | {"row": -1}, "row cannot be -1"),
        ({"text": 5, "method": "a", "scores": [1]}, "no text is named"),
        ({"row": 1, "scores": [1]}, "method cannot be None"),
        (GOOD | {"row": 1, "method": 5}, "method cannot be 5"),
        (GOOD | {"row": 1, "method": ""}, "method cannot be ''"),
        (GOOD | {"row": 1, "method": "  "}, "method cannot be ' '"),
        (GOOD | {"row": 1, "method": "a\nb"}, "method cannot be"),
        (GOOD | {"row": 1, "method": "\x1b[31m"}, "method cannot be"),
        (GOOD | {"row": 1, "method": "\ud800"}, "method cannot be"),
        (GOOD | {"row": 1, "method": "a" * 101}, "a name of 1 to 100 visible"),
        ({"row": 1, "method": "a"}, "scores cannot be None"),
        (GOOD | {"row": 1, "scores": {"a": 1}}, "scores cannot be {'a': 1}"),
        (GOOD | {"row": 1, "scores": "inseq.json"}, "scores cannot be 'inseq.json'"),
        (GOOD | {"row": 1, "scores": []}, "there are no scores"),
        (GOOD | {"row": 1, "scores": [True]}, "a score cannot be True"),
        (GOOD | {"row": 1, "scores": ["1"]}, "'1' does not fit"),
        (GOOD | {"row": 1, "scores": [None]}, "None does not fit"),
        (GOOD | {"row": 1, "scores": [["a", None]]}, "a score cannot be None"),
        (GOOD | {"row": 1, "scores": [["a", 1], 2]}, "2 does not fit"),
        (GOOD | {"row": 1, "scores": [[0, 1, True]]}, "a score cannot be True"),
        (GOOD | {"row": 1, "scores": [[True, 1, 2], [1, 2, 2]]}, "does not fit"),
        (GOOD | {"row": 1, "tokens": "a"}, "tokens cannot be 'a'"),
        (GOOD | {"row": 1, "tokens": [1]}, "tokens cannot be"),
        (GOOD | {"row": 1, "tokens": ["a", "b"]}, "1 scores for 2 tokens"),
        (GOOD | {"row": 1, "tokens": ["a"], "scores": [["a", 1]]}, "a score cannot be"),
        (GOOD | {"row": 1, "spans": [0, 1]}, "spans cannot be"),
        (GOOD | {"row": 1, "spans": [[0, 1.5]]}, "spans cannot be"),
        (GOOD | {"row": 1, "spans": [[0, 1, 2]]}, "spans cannot be"),
        (GOOD | {"row": 1, "spans": [[0, 1], [1, 2]]}, "1 scores for 2 spans"),
        (GOOD | {"row": 1, "fitted_by": 3}, "fitted_by cannot be 3"),
        (GOOD | {"row": 1, "fitted_by": [3]}, "fitted_by cannot be"),
        (GOOD | {"row": 1, "fitted_by": {"mask": 1}}, "fitted_by cannot be"),
        (GOOD | {"row": 1, "fitted_by": "maks"}, "fitted_by cannot be 'maks'.*Known: mask, delete, swap"),
        (GOOD | {"row": 1, "method": "random"}, "method cannot be 'random': this is the name of a control"),
        (
            GOOD | {"row": 1, "fited_by": "mask"},
            "'fited_by' is not a known key: known are text, row, method, scores, tokens, spans, target, fit",
        ),
        (GOOD, "'a' has scores for this text already"),
    ],
)
def test_every_bad_line_is_named(tmp_path: Path, line: Any, why: str) -> None:
    assert len(read_scores_file(write(tmp_path / "good.jsonl", GOOD)).by_row) == 1
    path = write(tmp_path / "bad.jsonl", GOOD, b"", line, GOOD | {"row": 9})
    with pytest.raises(HeedfulError, match=rf"^line 3 of bad\.jsonl: .*{why}"):
        read_scores_file(path)


def test_the_same_text_twice_by_one_method(tmp_path: Path) -> None:
    entry = {"text": "a", "method": "m", "scores": [1]}
    assert read_scores_file(write(tmp_path / "a", entry, entry | {"method": "n"})).methods == ("m", "n")
    with pytest.raises(HeedfulError, match="line 2 of a: 'm' has scores for this text already"):
        read_scores_file(write(tmp_path / "a", entry, entry))


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.jsonl", GOOD, GOOD | {"row": 1, "target": "a" * 200})
    assert len(read_scores_file(path).by_row) == 2
    monkeypatch.setattr(scores_file, "MAX_LINE_BYTES", 100)
    with pytest.raises(
        HeedfulError, match=r"line 2 of a\.jsonl: the line is too long: it has more than 100 bytes"
    ):
        read_scores_file(path)


def test_files_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="cannot read"):
        read_scores_file(tmp_path)
    with pytest.raises(HeedfulError, match="cannot read"):
        read_scores_file(tmp_path / "missing.jsonl")
    for content in (b"", b"\n  \n"):
        (tmp_path / "empty.jsonl").write_bytes(content)
        with pytest.raises(HeedfulError, match="it has no scores"):
            read_scores_file(tmp_path / "empty.jsonl")
