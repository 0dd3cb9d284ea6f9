"""Why this continuation rather than that: the difference of two sequence targets, and nothing else.

Oracles: the two sequences explained one by one (float64, so that 1e-10 is far above rounding), and
transformers' own log-probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core import registry
from heedful.core.target import Target
from heedful.engine.question import Question
from heedful.engine.session import Session

TEXT = "the cat sat on the mat. hello world!"
LONG = " ".join([TEXT] * 3)  # long enough for rows to share their beginning
KINDS = ["gpt2", "llama", "t5", "bart"]
PAIRS = [([11, 12, 13], [14, 15, 16, 17, 18]), ([11, 12, 13, 14], [15]), ([11, 12], [11, 13])]
CLOSE = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(scope="module")
def double(fresh: Any) -> Any:
    """Name -> a model in float64."""
    made: dict[str, Any] = {}

    def model(kind: str) -> Any:
        if kind not in made:
            made[kind] = fresh(kind)
            made[kind].hf.double()
        return made[kind].model

    return model


def three(model: Any, text: str, pair: tuple[list[int], list[int]] = PAIRS[0]) -> tuple[Any, ...]:
    """(text, A rather than B, A, B)"""
    x = model.encode(text)
    this, that = pair
    both = model.target(x, {"sequence": this, "contrast": that})
    return x, both, model.target(x, {"sequence": this}), model.target(x, {"sequence": that})


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_output_and_gradient_are_differences(kind: str, pair: Any, double: Any) -> None:
    model = double(kind)
    x, *wanted = three(model, TEXT, pair)
    both, this, that = (model.trace(x, target) for target in wanted)
    assert both.output == pytest.approx(this.output - that.output, abs=1e-10)
    torch.testing.assert_close(both.grad_embeds, this.grad_embeds - that.grad_embeds, **CLOSE)
    assert both.grad_embeds.abs().max() > 1e-4
    points = torch.stack([model.lookup(x, wanted[0]) * share for share in (0.3, 0.8, 1.0)])
    found, one, other = (model.gradients(x, target, points) for target in wanted)
    torch.testing.assert_close(found[0], one[0] - other[0], **CLOSE)
    torch.testing.assert_close(found[1], one[1] - other[1], **CLOSE)


@pytest.mark.parametrize("text", [TEXT, LONG])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_differences(kind: str, text: str, double: Any) -> None:
    model = double(kind)
    x, *wanted = three(model, text[:100])
    size = len(x.units("word"))
    keep = np.concatenate([np.ones((1, size), dtype=bool), ~np.eye(size, dtype=bool)])
    for operator in ("delete", "pad", "mean"):
        both, this, that = (model.values(x, target, keep, operator) for target in wanted)
        np.testing.assert_allclose(both, this - that, **CLOSE)
        assert np.ptp(both) > 1e-4


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_the_number_is_that_of_transformers(kind: str, double: Any) -> None:
    model = double(kind)
    x, both, _, _ = three(model, TEXT)
    hf = model.module

    def log_probability(answer: list[int]) -> float:
        with torch.inference_mode():
            if kind == "t5":
                out = hf(input_ids=torch.tensor([x.ids]), labels=torch.tensor([answer])).logits[0]
            else:
                out = hf(input_ids=torch.tensor([[*x.ids, *answer]])).logits[0, len(x) - 1 : -1]
        return float(out.log_softmax(-1)[range(len(answer)), answer].sum())

    expected = log_probability(PAIRS[0][0]) - log_probability(PAIRS[0][1])
    assert model.trace(x, both).output == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_is_that_of_the_two_passes(kind: str, double: Any) -> None:
    """The beginning, whose gradients add up; then each end, as it was alone and blind to the other."""
    model = double(kind)
    x, *wanted = three(model, TEXT)
    both, this, that = (model.trace(x, target) for target in wanted)
    name, shared = ("decoder_attentions", 1) if both.cross else ("attentions", len(x))
    size = shared + len(PAIRS[0][0]) - 1
    for i, whole in enumerate(getattr(both, name)):
        assert whole.shape[-1] == size + len(PAIRS[0][1]) - 1 == len(both.readout)
        sums = whole.sum(-1)  # 1e-6: Llama takes its softmax in float32 whatever the weights are
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-6)
        assert not whole[:, size:, shared:size].any()
        torch.testing.assert_close(whole[:, :size, :size], getattr(this, name)[i], **CLOSE)
        torch.testing.assert_close(
            whole[:, size:, size:], getattr(that, name)[i][:, shared:, shared:], **CLOSE
        )
        grad, one, other = (getattr(trace, f"grad_{name}")[i] for trace in (both, this, that))
        begun = one[:, :shared, :shared] - other[:, :shared, :shared]
        torch.testing.assert_close(grad[:, :shared, :shared], begun, **CLOSE)
        torch.testing.assert_close(grad[:, shared:size, :size], one[:, shared:], **CLOSE)
        torch.testing.assert_close(grad[:, size:, :shared], -other[:, shared:, :shared], **CLOSE)
    for i, whole in enumerate(both.cross):
        ends = torch.cat([this.cross[i], that.cross[i][:, shared:]], 1)
        torch.testing.assert_close(whole, ends, **CLOSE)
        gained = both.grad_attentions[i] - (this.grad_attentions[i] - that.grad_attentions[i])
        assert gained.abs().max() < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_linear_methods_subtract(kind: str, double: Any) -> None:
    model = double(kind)
    x, *wanted = three(model, TEXT)
    for name in ("grad-x-input", "occlusion"):
        both, this, that = (heedful.explain(model, x, name, target)[name] for target in wanted)
        np.testing.assert_allclose(both.scores, this.scores - that.scores, **CLOSE)
        assert np.abs(both.scores).max() > 1e-4


@pytest.mark.parametrize("name", registry.explainers())
@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_every_method_that_suits_the_model_answers(kind: str, name: str, shared: Any) -> None:
    model = shared(kind).model
    if why := model.lacks(registry.get(name).needs):
        pytest.skip(why)
    x, target, this, that = three(model, "the cat sat on a mat")
    if name == "anchors" and model.trace(x, target).output < 0:  # it holds the likelier one in place
        target = model.target(x, {"sequence": that.sequence, "contrast": this.sequence})
    found = heedful.explain(model, x, name, target)[name]
    assert np.isfinite(found.scores).all()
    if name not in ("anchors", "grad-avg"):  # nothing need be kept; LayerNorm makes mean gradients zero
        assert np.abs(found.scores).max() > 0
    least, most = registry.get(name).rows(x, target, {})
    assert least <= found.cost.forwards <= most


def test_value_zeroing_reads_each_end_by_itself(double: Any) -> None:
    """Ends that are the same but for the last token, which is not read: the tree is two equal passes."""
    model = double("gpt2")
    x, both, this, _ = three(model, TEXT, ([11, 12, 13], [11, 12, 14]))
    from heedful.explainers.value_zeroing import mixing

    layers = len(model.trace(x, both).attentions)
    alone = mixing(Question(Session(model), x, this), this, layers)
    found = heedful.explain(model, x, "value-zeroing", both)["value-zeroing"]
    readout = np.array(model.trace(x, both).readout)
    size = len(x) + 2
    folded = readout[:size].copy()
    folded[len(x) :] += readout[size:]
    for layer in reversed(alone):
        folded = folded @ layer.numpy()
    np.testing.assert_allclose(found.scores, folded[: len(x)], **CLOSE)


def test_tokens_of_both_readings_are_counted(double: Any) -> None:
    model = double("gpt2")
    x, *wanted = three(model, TEXT)
    counts = []
    for target in wanted:
        before = model.spent
        model.trace(x, target)
        counts.append(model.spent - before)
    assert counts[0].tokens == counts[1].tokens + counts[2].tokens
    assert [cost.unique for cost in counts] == [1, 1, 1]  # one question, put to both


def test_names_and_files(double: Any, tmp_path: Any) -> None:
    model = double("gpt2")
    spec = {"sequence": " the cat", "contrast": " a dog ran"}
    found = heedful.explain(model, TEXT, "occlusion", spec)
    assert found.target.name == " the cat rather than  a dog ran"
    found.save(tmp_path / "run")
    again = heedful.Comparison.load(tmp_path / "run")
    assert again.target == found.target
    assert "'contrast': ' a dog ran'" in found._repr_html_().replace("&#x27;", "'")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"sequence": [3, 4], "contrast": [3, 4]}, "cannot be contrasted with itself"),
        ({"sequence": [3, 4], "contrast": ""}, "contrast with is empty"),
        ({"sequence": [3, 4], "contrast": [10**6]}, "not in the vocabulary"),
        ({"sequence": [3, 4], "contrast": 5}, "not a continuation"),
        ({"sequence": [3, 4], "contrast": [5] * 99}, "reads at most"),
    ],
)
def test_mistakes_are_told(spec: Any, why: str, double: Any) -> None:
    model = double("gpt2")
    with pytest.raises(heedful.HeedfulError, match=why):
        model.target(model.encode(TEXT), spec)


def test_sides() -> None:
    target = Target("sequence", sequence=(1, 2), label="A", contrast_sequence=(3,), contrast_label="B")
    assert target.sides == (
        Target("sequence", sequence=(1, 2), label="A"),
        Target("sequence", sequence=(3,), label="B"),
    )
    assert Target("class", 1, contrast=0).sides == (Target("class", 1, contrast=0),)
