"""Input dependence: models that ignore the text, or what they wrote, have none and all of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import heedful
from heedful.comparisons.explanation_codec import comparison_from_dict, comparison_to_dict
from heedful.comparisons.input_share import input_share
from heedful.comparisons.result import Comparison, share_by_count
from heedful.core.attribution import Attribution, Written
from heedful.core.errors import HeedfulError
from heedful.core.target import Target
from heedful.models.written_text import written_text
from heedful.reports import terminal
from heedful.reports.html_parts import esc
from heedful.reports.visible import visible

TEXT, GIVEN, WANTED = "the cat sat on the mat", (12, 25, 9, 30), 14
METHODS = ("grad-x-input", "grad-l2", "integrated-gradients", "occlusion", "kernel-shap")


def bart(fresh: Any, change: Callable[[str, torch.Tensor], None]) -> Any:
    family = fresh("bart")
    family.hf.double()
    for name, weight in family.hf.named_parameters():
        change(name, weight.data)
    return heedful.load((family.hf, family.tokenizer))


def deaf_to_the_text(name: str, weight: torch.Tensor) -> None:
    """Cross-attention adds nothing but a constant."""
    if "encoder_attn.out_proj.weight" in name:
        weight.zero_()


def deaf_to_itself(name: str, weight: torch.Tensor) -> None:
    """Every decoder position begins as the same constant, whatever stands there."""
    if name == "model.decoder.layernorm_embedding.weight":
        weight.zero_()
    if name == "model.decoder.layernorm_embedding.bias":
        weight.copy_(torch.linspace(-1, 1, len(weight)))


@pytest.mark.parametrize(("change", "share"), [(deaf_to_the_text, 0.0), (deaf_to_itself, 1.0)])
@pytest.mark.parametrize("given", [GIVEN, (40, 7)])
def test_a_model_that_ignores_a_part_does_not_depend_on_it(
    fresh: Any, change: Any, share: float, given: tuple[int, ...]
) -> None:
    model = bart(fresh, change)
    x = model.encode(TEXT)
    found = heedful.explain(
        model, x, METHODS, Target("token", WANTED, given=given), params={"kernel-shap": {"samples": 64}}
    )
    for method in METHODS:
        # float64: what is ignored moves nothing but the last digits of rows in batches of other shapes
        assert found.input_shares()[method] == pytest.approx(share, abs=1e-9), method
    tokens = sum(not special for special in x.special)
    assert share_by_count(found) == pytest.approx(tokens / (tokens + len(given)))


def test_by_hand(shared: Any) -> None:
    """3 of 4 on the text; special tokens on neither side count."""
    model = shared("bart").model
    x, start = model.encode("the cat"), model.tokenizer.bos_token_id
    written = written_text(model.tokenizer, (start, 12, 25))
    scores = np.where(x.special, 100.0, -3.0 / sum(not s for s in x.special))
    item = Attribution(x, Target("token", WANTED, given=written.ids), scores, "m")
    assert input_share(item) is None, "the method cannot"
    item = replace(item, written=Written(written, np.array([50.0, 0.25, -0.75])))
    assert input_share(item) == pytest.approx(0.75)
    assert input_share(replace(item, scores=1e-9 * item.scores)) == pytest.approx(3e-9)
    assert input_share(replace(item, written=replace(item.written, same_scale=False))) is None
    nothing = replace(item, scores=0 * scores, written=Written(written, np.zeros(3)))
    assert input_share(nothing) is None, "no share of nothing"
    assert input_share(replace(item, target=Target("token", WANTED), written=None)) is None
    assert share_by_count(Comparison((item,))) == pytest.approx(
        (len(x) - sum(x.special)) / (len(x) - sum(x.special) + 2)
    )
    assert share_by_count(Comparison((replace(item, written=None),))) is None


def test_scores_and_tokens_must_fit(shared: Any) -> None:
    written = written_text(shared("t5").tokenizer, GIVEN)
    with pytest.raises(ValueError, match="written tokens"):
        Written(written, np.zeros(len(written) + 1))


@pytest.mark.parametrize("kind", ["t5", "bart", "gpt2"])
def test_every_written_token_has_its_shares(shared: Any, kind: str) -> None:
    model = shared(kind).model
    methods = ("grad-x-input", "chefer", "occlusion", "attention-avg")
    answer = [11, 12, 13, 24]
    steps = heedful.explain_each(model, TEXT, methods, continuation=answer, unit="token")
    x = model.encode(TEXT)
    tokens = len(x) - sum(x.special)
    assert steps[0].input_shares() == {}, "nothing was written yet"
    for k, step in enumerate(steps[1:], 1):
        assert share_by_count(step) == pytest.approx(tokens / (tokens + k))
        shares = step.input_shares()
        assert set(shares) == {*methods, "random"}
        if kind == "gpt2":
            scores = np.abs(step["occlusion"].scores)
            assert shares["occlusion"] == pytest.approx(scores[: len(x)].sum() / scores.sum())
            assert step["occlusion"].written is None
        else:
            assert step["occlusion"].written.x.ids == tuple(answer[:k])
            assert shares.pop("attention-avg") is None, "two distributions have no common scale"
        assert all(0 < share < 1 for share in shares.values())


def test_a_shared_pass_scores_what_was_written_as_a_pass_alone(shared: Any) -> None:
    model = shared("t5").model
    methods = ("grad-x-input", "attention-rollout", "chefer", "occlusion")
    for step in heedful.explain_each(model, TEXT, methods, continuation=[11, 12, 13]):
        alone = heedful.explain(model, step.x, methods, step.target)
        for method in methods:
            one, other = step[method].written, alone[method].written
            assert (one is None) == (other is None) == (not step.target.given)
            if one is not None:
                np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4, atol=1e-6)


# --- run folders -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(shared: Any) -> Comparison:
    methods = ("grad-x-input", "lime", "attention-avg", "search")
    target = Target("token", WANTED, given=GIVEN)
    return heedful.explain(shared("t5").model, TEXT, methods, target, params={"search": {"depth": 1}})


def test_a_run_folder_keeps_it(run: Comparison, tmp_path: Path) -> None:
    again = Comparison.load(run.save(tmp_path / "run"))
    assert json.loads(again.to_json()) == json.loads(run.to_json()) | {"verified": False}
    assert again.input_shares() == run.input_shares()
    assert again["lime"].written.scores.tolist() == run["lime"].written.scores.tolist()
    assert again["lime"].written.stderr.tolist() == run["lime"].written.stderr.tolist()
    assert not again["attention-avg"].written.same_scale
    assert again["search"].written is None
    data = json.loads((tmp_path / "run" / "result.json").read_text())
    assert data["input_shares"]["lime"] == run.input_shares()["lime"]
    assert data["input_share_by_count"] == share_by_count(run)
    assert (
        data["attributions"][0]["written"]["words"][0]["text"]
        == run["grad-x-input"].of_written().words()[0].text
    )


def test_a_run_of_before_has_none(run: Comparison) -> None:
    data = comparison_to_dict(run)
    for name in ("written_x", "input_shares", "input_share_by_count"):
        del data[name]
    for item in data["attributions"]:
        del item["written"]
    old = comparison_from_dict(data)
    assert [item.written for item in old.attributions] == [None] * len(run)
    assert old["lime"].scores.tolist() == run["lime"].scores.tolist()


@pytest.mark.parametrize("spoil", ["text", "scores", "errors"])
def test_a_damaged_run_is_refused(run: Comparison, spoil: str) -> None:
    data = json.loads(run.to_json())
    lime = next(item for item in data["attributions"] if item["method"] == "lime")
    if spoil == "text":
        data["written_x"] = None
    elif spoil == "scores":
        lime["written"]["scores"].append(1.0)
    else:
        lime["written"]["stderr"].pop()
    with pytest.raises(HeedfulError, match="this explanation is damaged"):
        comparison_from_dict(data)


def test_one_attribution_tells_what_was_written(run: Comparison) -> None:
    data = run["lime"].to_dict()
    assert tuple(data["written_x"]["ids"]) == GIVEN
    assert data["written"]["scores"] == run["lime"].written.scores.tolist()


@pytest.mark.parametrize("given", [(12, 25), (7,)])
@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_the_prediction_shown_is_taken_after_what_was_given(
    shared: Any, name: str, given: tuple[int, ...]
) -> None:
    """The module itself says what comes next; the probability of the explained token stands first."""
    family = shared(name)
    model = family.model
    x = model.encode(TEXT)
    found = heedful.explain(model, TEXT, "occlusion", {"given": given})
    with torch.no_grad():
        if name == "bart":
            start = family.hf.config.decoder_start_token_id
            out = family.hf(torch.tensor([x.ids]), decoder_input_ids=torch.tensor([(start, *given)]))
        else:
            out = family.hf(torch.tensor([(*x.ids, *given)]))
    expected = out.logits[0, -1].double().softmax(-1)
    (label, share), *_ = found.model["prediction"]
    assert (label, found.target.index) == (found.target.label, int(expected.argmax()))
    assert share == pytest.approx(float(expected.max()), rel=1e-4)
    written = written_text(model.tokenizer, given).text
    assert comparison_to_dict(found)["model"]["prediction_after"] == written
    after = f"after the text and “{visible(written.strip())}”"
    console = Console(width=200, record=True, file=StringIO())
    terminal.show(found.document(), console, verbose=True)
    first = console.export_text().splitlines()[0]
    assert first.startswith(visible(label).strip())
    assert first.endswith(f", {after}")
    assert esc(after) in found.page()


def test_nothing_written_is_nothing_said(shared: Any) -> None:
    found = heedful.explain(shared("gpt2").model, TEXT, "occlusion")
    assert "prediction_after" not in found.model
