"""transformers models of every family against their own raw forward: rows, operators, traces, targets."""

from __future__ import annotations

import copy
from functools import partial
from types import MethodType
from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.core.target import Target
from heedful.modalities import operators
from heedful.modalities.swap_words import swap_words
from heedful.models import passes
from heedful.models.load import load

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 through two layers: sdpa against eager, padded against not
NO_EMBEDS = ("bart-classifier", "t5-classifier")  # transformers refuses inputs_embeds there
DECODERS = ["gpt2", "llama", "t5", "bart"]


def raw(family: Any, target: Target, ids: list[int], *, hf: Any = None, **inputs: Any) -> float:
    """The target's number from a plain call of the transformers model: none of heedful's code but Target."""
    hf = hf or family.hf
    kind, given = family.model.kind, dict(inputs)
    tail = list(target.sequence[:-1])
    if kind == "encoder-decoder":
        given["decoder_input_ids"] = torch.tensor([[hf.config.decoder_start_token_id, *tail]])
    elif "token_type_ids" not in given and kind == "causal-lm":
        ids = [*ids, *tail]
        for name in ("attention_mask",):
            if name in given:
                given[name] = torch.cat([given[name], torch.ones(1, len(tail), dtype=torch.long)], 1)
    given.setdefault("attention_mask", torch.ones(1, len(ids), dtype=torch.long))
    if "inputs_embeds" not in given:
        given["input_ids"] = torch.tensor([ids])
    with torch.no_grad():
        logits = hf(**given).logits[0]
    if kind == "causal-lm":
        logits = logits[len(ids) - 1 - len(tail) :]
    if target.kind == "sequence":
        logp = logits.log_softmax(-1)
        return sum(float(logp[i, token]) for i, token in enumerate(target.sequence))
    if kind in ("causal-lm", "encoder-decoder"):
        logits = logits[0]
    value = logits[target.index]
    return float(value if target.contrast is None else value - logits[target.contrast])


def ones(x: Any, rows: int = 1, unit: str = "word") -> np.ndarray:
    return np.ones((rows, len(x.units(unit))), dtype=bool)


def leave_one_out(x: Any) -> np.ndarray:
    keep = ones(x, len(x.units("word")) + 1)
    np.fill_diagonal(keep, False)
    return keep


def word_positions(x: Any, word: int) -> list[int]:
    return [t for t, w in enumerate(x.words) if w == word]


def table(hf: Any) -> Any:
    return (hf.get_encoder() if hf.config.is_encoder_decoder else hf).get_input_embeddings()


# --- the whole text -----------------------------------------------------------------------------------


def test_rows_trace_and_the_raw_model_agree(family: Any) -> None:
    x = family.x()
    target = family.model.target(x)
    expected = raw(family, target, list(x.ids))
    assert family.model.trace(x, target).output == pytest.approx(expected, **_approx())
    for operator in family.model.operators:
        assert family.model.values(x, target, ones(x), operator)[0] == pytest.approx(expected, **_approx())


def _approx() -> dict[str, float]:
    return {"rel": CLOSE["rtol"], "abs": CLOSE["atol"]}


def test_logits_and_prediction(family: Any) -> None:
    x = family.x()
    ids = torch.tensor([x.ids])
    start = {}
    if family.model.kind == "encoder-decoder":
        start = {"decoder_input_ids": torch.tensor([[family.hf.config.decoder_start_token_id]])}
    with torch.no_grad():
        logits = family.hf(ids, **start).logits[0]
    logits = logits[-1] if family.name in DECODERS else logits
    torch.testing.assert_close(family.model.logits(x), logits, **CLOSE)
    torch.testing.assert_close(family.model.logits(list(x.ids)), logits, **CLOSE)
    shares = {"bert-multi": logits.sigmoid(), "bert-regression": logits}.get(family.name, logits.softmax(-1))
    label, share = family.model.predict(x)[0]
    assert share == pytest.approx(float(shares.max()), **_approx())
    best = int(shares.argmax())
    assert label == (
        family.tokenizer.decode([best]) if family.name in DECODERS else family.model.labels[best]
    )


def test_text_pairs_reach_the_model_with_their_types(shared: Any) -> None:
    family = shared("bert")
    x = family.x(("the cat", "sat on the mat"))
    target = family.model.target(x, 0)
    batch = family.tokenizer("the cat", "sat on the mat", return_tensors="pt")
    with torch.no_grad():
        logits = family.hf(**batch).logits[0]
        one_type = family.hf(batch["input_ids"]).logits[0]
    assert not torch.allclose(logits, one_type, atol=1e-3)  # the types matter, so forgetting them shows
    assert family.model.values(x, target, ones(x))[0] == pytest.approx(float(logits[0]), **_approx())
    assert family.model.trace(x, target).output == pytest.approx(float(logits[0]), **_approx())
    gone = word_positions(x, 1)
    keep = ones(x)
    keep[0, 1] = False
    left = [t for t in range(len(x)) if t not in gone]
    with torch.no_grad():
        without = family.hf(
            batch["input_ids"][:, left], token_type_ids=batch["token_type_ids"][:, left]
        ).logits
    assert family.model.values(x, target, keep, "delete")[0] == pytest.approx(
        float(without[0, 0]), **_approx()
    )


# --- removal, operator by operator --------------------------------------------------------------------


@pytest.mark.parametrize("operator", list(operators.OPERATORS))
def test_each_operator_against_a_hand_built_input(family: Any, operator: str) -> None:
    if operator not in family.model.operators:
        pytest.skip("this tokenizer has no such token")
    x, hf = family.x(), family.hf
    target = family.model.target(x)
    for word in (0, 2):
        gone = word_positions(x, word)
        keep = ones(x)
        keep[0, word] = False
        ids, inputs = list(x.ids), {}
        if operator == "delete":
            ids = [token for t, token in enumerate(x.ids) if t not in gone]
        elif operator in ("mask", "unk"):
            filler = getattr(family.tokenizer, f"{operator}_token_id")
            ids = [filler if t in gone else token for t, token in enumerate(x.ids)]
        elif operator == "pad":
            inputs["attention_mask"] = torch.tensor([[int(t not in gone) for t in range(len(x))]])
        elif operator == "swap":  # the text with "dog" there, read afresh
            start, end = x.word_spans[word]
            ids = list(family.x(f"{x.text[:start]}dog{x.text[end:]}").ids)
            if family.name.startswith("llama"):  # tokens of this one reach from a word into the next
                dog = family.tokenizer("dog", add_special_tokens=False)["input_ids"]
                ids = [*x.ids[: gone[0]], *dog, *x.ids[gone[-1] + 1 :]]
        else:
            if family.name in NO_EMBEDS:
                pytest.skip("this classifier takes no inputs_embeds: no second way to build it")
            look_up = table(hf)
            tail = list(target.sequence[:-1]) if family.model.kind == "causal-lm" else []
            embeds = look_up(torch.tensor([[*ids, *tail]])).detach().clone()
            embeds[0, gone] = look_up(torch.arange(look_up.num_embeddings)).detach().mean(0)
            inputs["inputs_embeds"] = embeds
        with swap_words(["dog"]):
            found = family.model.values(x, target, keep, operator)[0]
        assert found == pytest.approx(raw(family, target, ids, **inputs), rel=1e-4, abs=2e-5)
        assert found != pytest.approx(raw(family, target, list(x.ids)), rel=1e-6, abs=1e-6)


def test_hiding_the_last_words_of_a_causal_model_reads_the_last_visible_token(shared: Any) -> None:
    """A hidden token that was still read from would leak itself into the answer."""
    for name in ("gpt2", "gpt2-classifier", "llama", "llama-classifier"):
        family = shared(name)
        x = family.x()
        target = family.model.target(x, 5 if name in DECODERS else 0)
        keep = ones(x)
        keep[0, -2:] = False
        gone = {t for word in x.units("word")[-2:] for t in word}
        expected = raw(family, target, [token for t, token in enumerate(x.ids) if t not in gone])
        assert family.model.values(x, target, keep, "pad")[0] == pytest.approx(expected, **_approx())


def test_nothing_left_is_still_a_row(family: Any) -> None:
    x = family.x()
    target = family.model.target(x)
    for operator in family.model.operators:
        assert np.isfinite(family.model.values(x, target, ~ones(x), operator)).all()


def test_nothing_left_of_a_language_model_is_its_first_token(shared: Any) -> None:
    family = shared("gpt2")
    x = family.x()
    target = family.model.target(x)
    for operator in ("delete", "pad"):
        found = family.model.values(x, target, ~ones(x), operator)[0]
        assert found == pytest.approx(raw(family, target, [family.tokenizer.bos_token_id]), **_approx())


def test_rows_do_not_depend_on_their_batch(family: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = family.x()
    target = family.model.target(x)
    rng = np.random.default_rng(0)
    keep = np.concatenate([leave_one_out(x), rng.random((6, len(x.units("word")))) < 0.5])
    for operator in family.model.operators:
        together = family.model.values(x, target, keep, operator)
        one_by_one = np.concatenate(
            [family.model.values(x, target, keep[i : i + 1], operator) for i in range(len(keep))]
        )
        np.testing.assert_allclose(together, one_by_one, rtol=1e-4, atol=2e-5)
        with monkeypatch.context() as patch:
            patch.setattr(passes, "evaluate", partial(passes.evaluate, tokens=40))
            np.testing.assert_allclose(
                family.model.values(x, target, keep, operator), together, rtol=1e-4, atol=2e-5
            )
        assert np.ptp(together) > 1e-4


def test_padding_follows_the_models_idea_of_padding_not_the_tokenizers(fresh: Any) -> None:
    """A decoder classifier finds its last token by config.pad_token_id, whatever the tokenizer pads with."""
    family = fresh("llama-classifier")
    tokenizer = copy.deepcopy(family.tokenizer)
    tokenizer.pad_token = "<|im_end|>"
    model = load((family.hf, tokenizer))
    x = model.encode("the cat sat on the mat")
    target = model.target(x, 0)
    keep = leave_one_out(x)
    one_by_one = [model.values(x, target, keep[i : i + 1], "delete")[0] for i in range(len(keep))]
    np.testing.assert_allclose(model.values(x, target, keep, "delete"), one_by_one, **CLOSE)


def test_a_model_that_ignores_the_mask_is_run_row_by_row(fresh: Any) -> None:
    family = fresh("bert")
    forward = family.hf.forward

    def blind(input_ids: Any = None, **kwargs: Any) -> Any:
        kwargs.pop("attention_mask", None)
        return forward(input_ids=input_ids, **kwargs)

    family.hf.forward = blind
    model = load((family.hf, family.tokenizer))
    assert model.backend.one_row_at_a_time
    x = model.encode("the cat sat on the mat")
    target = model.target(x, 0)
    keep = leave_one_out(x)
    one_by_one = [model.values(x, target, keep[i : i + 1], "delete")[0] for i in range(len(keep))]
    np.testing.assert_allclose(model.values(x, target, keep, "delete"), one_by_one, **CLOSE)


def test_a_classifier_without_padding_token_is_run_row_by_row(shared: Any) -> None:
    assert shared("gpt2-classifier").model.backend.one_row_at_a_time
    assert not shared("bert").model.backend.one_row_at_a_time


def test_rows_refuse_wrong_masks_and_operators(shared: Any) -> None:
    family = shared("gpt2")
    x = family.x()
    target = family.model.target(x)
    with pytest.raises(HeedfulError, match=r"keep has shape \(1, 2\), but the text has \d+ words"):
        family.model.values(x, target, np.ones((1, 2), dtype=bool))
    with pytest.raises(HeedfulError, match="cannot be removed by 'blur': there is no such operator"):
        family.model.values(x, target, ones(x), "blur")
    with pytest.raises(HeedfulError, match=r"removed by .mask.: this model does not offer it"):
        family.model.values(x, target, ones(x), "mask")
    assert (
        "unk" not in family.model.operators
    )  # GPT-2 calls its end-of-text token unknown: a control, not a word


# --- traces -------------------------------------------------------------------------------------------


def test_gradients_against_finite_differences_in_float64(fresh: Any, family: Any) -> None:
    if family.name in NO_EMBEDS:
        pytest.skip("this classifier takes no inputs_embeds: no independent path")
    mine = fresh(family.name)
    mine.hf.double()
    exact_norms(mine.hf)
    model = load((mine.hf, mine.tokenizer))
    x = model.encode("the cat sat on the mat")
    spec = {"sequence": model.token_ids(" the cat")} if family.name in DECODERS else 0
    target = model.target(x, spec)
    trace = model.trace(x, target)
    assert trace.grad_embeds.dtype == torch.float64
    tail = list(target.sequence[:-1]) if model.kind == "causal-lm" else []
    embeds = table(mine.hf)(torch.tensor([[*x.ids, *tail]])).detach()
    torch.testing.assert_close(trace.embeds, embeds[0, : len(x)])
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        direction = torch.zeros_like(embeds)
        direction[0, : len(x)] = torch.randn(
            len(x), embeds.shape[-1], generator=generator, dtype=torch.float64
        )
        h = 1e-5  # short, so that ReLU kinks are rarely crossed
        up, down = (raw(mine, target, list(x.ids), inputs_embeds=embeds + s * h * direction) for s in (1, -1))
        slope = float((trace.grad_embeds * direction[0, : len(x)]).sum())
        # eager attention takes Llama's softmax in float32: gradients good to about 1e-6 of their size
        near = 1e-5 * float(trace.grad_embeds.norm() * direction.norm())
        assert slope == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=near)
        assert abs(slope) > 10 * near


def exact_norms(module: torch.nn.Module) -> None:
    """Llama's and T5's norms take the variance in float32 even in float64 models: too coarse here."""

    def normed(self: Any, hidden: torch.Tensor) -> torch.Tensor:
        return self.weight * hidden * (hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()

    for part in module.modules():
        if hasattr(part, "variance_epsilon"):
            part.forward = MethodType(normed, part)


def test_attention_maps_are_those_of_a_fresh_eager_copy(fresh: Any, family: Any) -> None:
    eager = fresh(family.name).hf
    eager.load_state_dict(family.hf.state_dict())
    eager.set_attn_implementation("eager")
    x = family.x()
    target = family.model.target(x, {"sequence": [7, 8, 9]} if family.name in DECODERS else 0)
    tail = [7, 8] if family.model.kind == "causal-lm" else []
    more = {}
    if family.model.kind == "encoder-decoder":
        more = {"decoder_input_ids": torch.tensor([[eager.config.decoder_start_token_id, 7, 8]])}
    with torch.no_grad():
        out = eager(torch.tensor([[*x.ids, *tail]]), output_attentions=True, **more)
    trace = family.model.trace(x, target)
    seq2seq = eager.config.is_encoder_decoder
    pairs = [(trace.attentions, out.encoder_attentions if seq2seq else out.attentions)]
    if seq2seq:
        pairs += [(trace.cross, out.cross_attentions), (trace.decoder_attentions, out.decoder_attentions)]
    for found, expected in pairs:
        assert len(found) == len(expected) == 2
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b[0], **CLOSE)
            torch.testing.assert_close(a.sum(-1), torch.ones(a.shape[:2]), **CLOSE)
    assert all(float(g.abs().max()) > 0 for g in (*trace.grad_cross, *trace.grad_attentions))


def test_attention_gradients_against_a_changed_map(fresh: Any) -> None:
    """d f / d A for one entry, by adding to the map inside the model's own attention function."""
    from transformers.models.bert import modeling_bert

    family = fresh("bert")
    family.hf.double()
    family.hf.set_attn_implementation("eager")
    model = load((family.hf, family.tokenizer))
    x = model.encode("the cat sat")
    target = model.target(x, 0)
    analytic = float(model.trace(x, target).grad_attentions[0][1, 2, 3])
    original, calls = modeling_bert.eager_attention_forward, [0]

    def nudged(step: float) -> float:
        calls[0] = 0

        def forward(module: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
            out, weights = original(module, query, key, value, *args, **kwargs)
            calls[0] += 1
            if calls[0] == 1:
                out = out.clone()
                out[0, 2, 1] += (
                    step * value[0, 1, 3]
                )  # (B, T, H, d): query 2, head 1 hears token 3 a little more
            return out, weights

        modeling_bert.eager_attention_forward = forward
        try:
            return raw(family, target, list(x.ids))
        finally:
            modeling_bert.eager_attention_forward = original

    assert analytic == pytest.approx((nudged(1e-6) - nudged(-1e-6)) / 2e-6, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        *((name, 0) for name in ("bert", "bert-regression", "roberta", "distilbert")),
        *((name, -1) for name in ("gpt2", "gpt2-classifier", "llama", "llama-classifier")),
        *((name, -1) for name in ("bart-classifier", "t5-classifier")),
    ],
)
def test_readout_is_where_the_answer_is_read(shared: Any, name: str, where: int) -> None:
    family = shared(name)
    x = family.x()
    readout = np.array(family.model.trace(x, family.model.target(x)).readout)
    expected = np.zeros(len(readout))
    expected[where] = 1
    np.testing.assert_allclose(readout, expected, atol=1e-6)


def test_readout_of_a_mean_pool_is_everywhere_alike(shared: Any) -> None:
    family = shared("mean-pool")
    x = family.x()
    np.testing.assert_allclose(family.model.trace(x, family.model.target(x)).readout, 1 / len(x), rtol=1e-5)


def test_trace_says_that_it_switched_attention(fresh: Any) -> None:
    family = fresh("bert")
    x = family.x()
    assert "sdpa to eager" in family.model.trace(x, family.model.target(x)).notes[0]
    family.hf.set_attn_implementation("eager")
    assert family.model.trace(x, family.model.target(x)).notes == ()


def test_hidden_states_come_on_request(shared: Any) -> None:
    family = shared("bert")
    x = family.x()
    target = family.model.target(x)
    assert family.model.trace(x, target).hidden == ()
    with torch.no_grad():
        expected = family.hf(torch.tensor([x.ids]), output_hidden_states=True).hidden_states
    found = family.model.trace(x, target, hidden=True).hidden
    assert len(found) == len(expected) == 3
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b[0], **CLOSE)


# --- targets of generators ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", DECODERS)
def test_a_sequence_is_the_sum_of_its_log_probabilities(shared: Any, name: str) -> None:
    family = shared(name)
    x = family.x("the cat sat")
    sequence = [9, 30, 12]
    target = family.model.target(x, {"sequence": sequence})
    total = 0.0
    for k, token in enumerate(sequence):  # one call a step
        ids, given = list(x.ids), {}
        if family.model.kind == "encoder-decoder":
            given = {
                "decoder_input_ids": torch.tensor([[family.hf.config.decoder_start_token_id, *sequence[:k]]])
            }
        else:
            ids += sequence[:k]
        with torch.no_grad():
            total += float(family.hf(torch.tensor([ids]), **given).logits[0, -1].log_softmax(-1)[token])
    assert family.model.values(x, target, ones(x))[0] == pytest.approx(total, **_approx())
    assert family.model.trace(x, target).output == pytest.approx(total, **_approx())


def test_a_position_reads_only_what_stands_before_it(shared: Any) -> None:
    for name in ("gpt2", "llama"):
        family = shared(name)
        x = family.x("the cat sat on the mat")
        target = family.model.target(x, {"position": 3})
        assert target.index == x.ids[3]
        with torch.no_grad():
            expected = float(family.hf(torch.tensor([x.ids[:3]])).logits[0, -1, x.ids[3]])
        trace = family.model.trace(x, target)
        assert trace.output == pytest.approx(expected, **_approx())
        assert trace.grad_embeds.shape[0] == len(x)
        assert not trace.grad_embeds[3:].any()
        assert trace.grad_embeds[:3].any()
        units = x.units("token")
        values = family.model.values(x, target, ~np.eye(len(units), dtype=bool), "delete", "token")
        later = [value for unit, value in zip(units, values, strict=True) if unit[0] >= 3]
        np.testing.assert_allclose(later, expected, **CLOSE)


def test_contrast_is_a_difference(family: Any) -> None:
    if family.name == "bert-regression":
        pytest.skip("one output: nothing to contrast with")
    x = family.x()
    a, b = (family.model.target(x, i) for i in (0, 1))
    both = family.model.target(x, {"label": 0, "contrast": 1})
    difference = raw(family, a, list(x.ids)) - raw(family, b, list(x.ids))
    assert family.model.values(x, both, ones(x))[0] == pytest.approx(difference, **_approx())
    trace = family.model.trace(x, both)
    assert trace.output == pytest.approx(difference, **_approx())
    separate = family.model.trace(x, a).grad_embeds - family.model.trace(x, b).grad_embeds
    torch.testing.assert_close(trace.grad_embeds, separate, rtol=1e-4, atol=1e-5)


def test_the_default_target_is_the_prediction(family: Any) -> None:
    x = family.x()
    target = family.model.target(x)
    if family.model.kind == "encoder-decoder":
        out = family.hf.generate(torch.tensor([x.ids]), do_sample=False, num_beams=1, max_new_tokens=32)
        assert list(target.sequence) == out[0, 1:].tolist()
    else:
        assert target.index == int(family.model.logits(x).argmax())


def test_tokens_outside_the_vocabulary_are_refused(shared: Any) -> None:
    for name in DECODERS:
        model = shared(name).model
        x = shared(name).x()
        for spec in (
            10**6,
            -1,
            {"label": 5, "contrast": 10**6},
            {"sequence": [5, 10**6]},
            {"sequence": [-1]},
        ):
            with pytest.raises(HeedfulError, match="vocabulary"):
                model.target(x, spec)


def test_a_position_makes_no_sense_for_an_encoder_decoder(shared: Any) -> None:
    with pytest.raises(HeedfulError, match="position"):
        shared("t5").model.target(shared("t5").x(), {"position": 2})


def test_a_continuation_that_does_not_fit_the_window_is_refused(shared: Any) -> None:
    family = shared("gpt2")
    x = family.x(" ".join(["cat"] * 40))
    room = family.model.window - len(x)
    family.model.target(x, {"sequence": [5] * (room + 1)})  # the last token is predicted, not read
    with pytest.raises(HeedfulError, match=rf"{len(x)} tokens.*{room + 2}.*at most {family.model.window}"):
        family.model.target(x, {"sequence": [5] * (room + 2)})


# --- kinds, labels, windows ---------------------------------------------------------------------------


def test_kinds(shared: Any) -> None:
    kinds = {
        name: shared(name).model.kind for name in ("bert", "bert-multi", "bert-regression", "gpt2", "bart")
    }
    assert list(kinds.values()) == ["classifier", "multi-label", "regression", "causal-lm", "encoder-decoder"]
    x = shared("bert-multi").x()
    assert shared("bert-multi").model.target(x).kind == "label"
    assert sum(share for _, share in shared("bert-multi").model.predict(x)) != pytest.approx(1)


def test_labels_by_name_case_and_index(shared: Any) -> None:
    family = shared("bert")
    x = family.x()
    assert [family.model.target(x, spec).index for spec in ("positive", "POSITIVE", 1, "1")] == [1, 1, 1, 1]
    with pytest.raises(
        HeedfulError, match=r"unknown label 'postive'.*Did you mean 'positive'.*negative, positive"
    ):
        family.model.target(x, "postive")


def test_windows(shared: Any) -> None:
    expected = {"bert": 64, "gpt2": 64, "bart": 64, "llama": 64}
    expected["roberta"] = 66 - 3  # positions start after the padding index, which is 2
    assert {name: shared(name).model.window for name in expected} == expected


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "bart", "distilbert"])
def test_the_window_is_exactly_what_the_model_can_read(shared: Any, name: str) -> None:
    family = shared(name)
    family.model.logits([5] * (family.model.window - 1) + [1])
    with pytest.raises(HeedfulError, match="cannot run on this text"):
        family.model.logits([5] * (family.model.window + 1) + [1])


def test_a_vocabulary_as_large_as_the_window_is_not_taken_for_positions(fresh: Any) -> None:
    import transformers

    tokenizer = fresh("bert").tokenizer
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=220, max_position_embeddings=220, pad_token_id=3, **sizes)
    assert load((transformers.BertForSequenceClassification(config), tokenizer)).window == 220


# --- other dtypes, NaN, generation --------------------------------------------------------------------


def test_half_precision(fresh: Any, family: Any) -> None:
    mine = fresh(family.name)
    mine.hf.bfloat16()
    model = load((mine.hf, mine.tokenizer))
    x = model.encode("the cat sat on the mat")
    target = model.target(x, 5 if family.name in DECODERS else 0)
    trace = model.trace(x, target)
    values = model.values(x, target, leave_one_out(x))
    assert values.dtype == np.float64
    assert np.isfinite(values).all()
    # bfloat16 keeps 8 bits: 2 layers of rounding stay well within a tenth of the logit's scale
    scale = float(model.logits(x).abs().max())
    assert trace.output == pytest.approx(raw(mine, target, list(x.ids)), abs=0.1 * scale)
    assert values[-1] == pytest.approx(trace.output, abs=0.1 * scale)
    assert trace.grad_embeds.isfinite().all()


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("bert", "bert.encoder.layer.1.attention.self.value"),
        ("gpt2", "transformer.h.1.mlp.c_fc"),
        ("llama", "model.layers.0.self_attn.v_proj"),
        ("bart", "model.decoder.layers.1.fc1"),
    ],
)
def test_nan_names_the_first_layer_that_made_it(fresh: Any, name: str, layer: str) -> None:
    family = fresh(name)
    x = family.x()
    target = Target(kind="token" if name != "bert" else "class", index=1)
    with torch.no_grad():
        family.hf.get_submodule(layer).weight[0, 0] = float("nan")
    for call in (
        lambda: family.model.values(x, target, ones(x)),
        lambda: family.model.trace(x, target),
        lambda: family.model.values(x, target, ~ones(x), "mean"),
    ):
        with pytest.raises(
            HeedfulError, match=f"answers NaN.*first layer whose output contains a NaN is {layer}\\."
        ):
            call()


def greedy_by_hand(hf: Any, ids: list[int], steps: int) -> list[int]:
    """Argmax, one full forward a step."""
    seq2seq = hf.config.is_encoder_decoder
    written = [hf.config.decoder_start_token_id] if seq2seq else list(ids)
    for _ in range(steps):
        given = {"decoder_input_ids": torch.tensor([written])} if seq2seq else {}
        with torch.no_grad():
            logits = hf(torch.tensor([ids if seq2seq else written]), **given).logits[0, -1]
        written.append(int(logits.argmax()))
        if written[-1] == hf.config.eos_token_id:
            break
    return written[1 if seq2seq else len(ids) :]


@pytest.mark.parametrize("name", DECODERS)
def test_greedy_is_the_argmax_whatever_the_models_generation_config_says(fresh: Any, name: str) -> None:
    family = fresh(name)
    for setting, value in {
        "do_sample": True,
        "temperature": 3.0,
        "top_k": 3,
        "repetition_penalty": 4.0,
    }.items():
        setattr(family.hf.generation_config, setting, value)
    x = family.x("the cat sat")
    expected = greedy_by_hand(family.hf, list(x.ids), 6)
    assert family.model.generate("the cat sat", max_new_tokens=6) == family.tokenizer.decode(
        expected, skip_special_tokens=True
    )


@pytest.mark.parametrize("strategy", ["greedy", "sample", "temperature", "top-k", "top-p", "beam"])
def test_generation_is_seeded(shared: Any, strategy: str) -> None:
    model = shared("gpt2").model
    write = partial(model.generate, "the cat", strategy, max_new_tokens=8)
    assert write(seed=1) == write(seed=1)
    if strategy in ("greedy", "beam"):
        assert write(seed=1) == write(seed=2)
    else:
        assert len({write(seed=s) for s in range(4)}) > 1


def test_generation_options_are_checked(shared: Any) -> None:
    model = shared("gpt2").model
    with pytest.raises(HeedfulError, match="unknown strategy 'best'"):
        model.generate("the cat", "best")
    with pytest.raises(HeedfulError, match="unknown generation options: temprature"):
        model.generate("the cat", temprature=1)
    with pytest.raises(HeedfulError, match="max_new_tokens must be at least 1"):
        model.generate("the cat", max_new_tokens=0)
    with pytest.raises(HeedfulError, match="cannot write text"):
        shared("bert").model.generate("the cat")


def test_generation_beyond_the_window_is_refused_with_the_lengths(shared: Any) -> None:
    family = shared("gpt2")
    prompt = " ".join(["cat"] * 40)
    count = len(family.x(prompt))
    with pytest.raises(HeedfulError, match=rf"{count} tokens.*40 more.*at most {family.model.window}"):
        family.model.generate(prompt, max_new_tokens=40)
    family.model.generate(prompt, max_new_tokens=family.model.window - count)
