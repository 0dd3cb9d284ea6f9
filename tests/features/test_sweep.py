"""A sweep over strength: its numbers by hand, fair baselines, the breaking point, the page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from heedful.core.errors import HeedfulError
from heedful.core.evidence import MeasuredValue
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.features.steering.compare import before_after
from heedful.features.steering.directions import difference
from heedful.features.steering.results import (
    Continuation,
    Sides,
    SteeredText,
    Sweep,
    SweepPoint,
    TextChange,
    change_of,
    mean_of,
    paired,
)
from heedful.features.steering.steer import steer
from heedful.features.steering.sweep import (
    Baselines,
    Intervention,
    Presence,
    Writing,
    perplexity,
    read_written,
    repetition,
    sweep,
)
from heedful.models.backend import Inputs
from heedful.models.sites.access import reading

WIDTH, SITE = 24, "blocks.0.resid"
TEXT = "the cat sat on the mat"
PROMPTS = [TEXT, "hello world", "a dog ran"]
FEW = Writing(max_new_tokens=6)


def random_sae(d: int = 32) -> SAE:
    draw = torch.Generator().manual_seed(0)
    shapes = ((d, WIDTH), (WIDTH,), (WIDTH, d), (d,))
    weights = (torch.randn(*shape, generator=draw) * 0.3 for shape in shapes)
    return SAE(Config("relu", d, WIDTH, source={"site": SITE}), *weights)


@pytest.fixture(scope="module")
def swept(shared: Callable[[str], Any]) -> Sweep:
    model = shared("gpt2").model
    vector = difference(model, SITE, ["the cat", "cat"], ["hello world", "a dog"])
    strengths = [0.5, "4", "1000x own", 80]
    return sweep(
        model,
        Intervention(random_sae(), feature=3, strengths=strengths),
        PROMPTS,
        presence=Presence(threshold=0.2),
        baselines=Baselines(difference=vector),
        writing=FEW,
    )


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart"])
def test_perplexity_is_that_of_the_unsteered_model(name: str, shared: Callable[[str], Any]) -> None:
    """Token by token, from whole passes."""
    model = shared(name).model
    x, ids = model.encode("hello world"), [7, 9, 30, 9]
    total, start = 0.0, model.backend.special_id("decoder_start") or 0
    for k, token in enumerate(ids):
        row = [*x.ids, *ids[:k]] if model.kind == "causal-lm" else list(x.ids)
        answer = None if model.kind == "causal-lm" else torch.tensor([[start, *ids[:k]]])
        tokens = torch.tensor([row])
        with torch.inference_mode():
            logits = model.backend.forward(Inputs(tokens, torch.ones_like(tokens), answer=answer))
        total += float(logits[0, -1].log_softmax(-1)[token])
    assert perplexity(model, x, ids) == pytest.approx(math.exp(-total / 4), rel=1e-4)


def test_repetition_by_hand() -> None:
    assert repetition([1, 2, 3, 4, 5]) == 0
    assert repetition([1, 1, 1, 1, 1]) == pytest.approx(2 / 3)  # three runs, one distinct
    assert repetition([1, 2, 3, 1, 2, 3]) == pytest.approx(1 / 4)  # 123 231 312 123
    assert repetition([1, 2]) == 0


def test_the_numbers_of_a_point(swept: Sweep, shared: Callable[[str], Any]) -> None:
    """Written again by hand: steered while it writes, unsteered while it is judged."""
    model, sae = shared("gpt2").model, random_sae()
    point = swept.of("feature 3")[1]
    assert point.strength == "4"
    for number, prompt in enumerate(PROMPTS):
        x = model.encode(prompt)
        with steer(model, sae, {3: 4.0}):
            ids = model.answer(x, 6)
        told = point.texts[number]
        assert told.text == model.tokenizer.decode(ids)
        assert told.perplexity == pytest.approx(perplexity(model, x, ids), rel=1e-5)
        whole = torch.tensor([[*x.ids, *ids]])
        with reading(model, [SITE]) as seen, torch.inference_mode():
            model.backend.forward(Inputs(whole, torch.ones_like(whole)))
        codes = sae.encode(seen[SITE])[0, len(x) :, 3]
        assert told.presence == pytest.approx(float((codes > 0.2).float().mean()))
    assert swept.base.method == "unsteered"
    assert swept.base.texts[0].text == model.generate(PROMPTS[0], max_new_tokens=6)


def test_baselines_have_the_same_size(swept: Sweep) -> None:
    assert swept.methods == ("feature 3", "difference of means", "random direction")
    for one, mean, noise in zip(*(swept.of(method) for method in swept.methods), strict=True):
        assert one.size > 0
        assert one.strength == mean.strength == noise.strength
        assert mean.size == pytest.approx(one.size, rel=1e-4)
        assert noise.size == pytest.approx(one.size, rel=1e-4)


def test_means_and_intervals_by_student(swept: Sweep) -> None:
    point = swept.of("feature 3")[1]
    logs = np.log([w.perplexity for w in point.texts])
    low, high = stats.t.interval(0.95, 2, logs.mean(), logs.std(ddof=1) / math.sqrt(3))
    found = point.perplexity
    assert (found.value, found.low, found.high) == pytest.approx(tuple(np.exp([logs.mean(), low, high])))
    apart = logs - np.log([w.perplexity for w in swept.base.texts])
    assert point.ratio.value == pytest.approx(float(np.exp(apart.mean())))
    assert swept.base.ratio.value == pytest.approx(1.0)


def made(
    ppl: list[float], repeats: float = 0.0, strength: str = "1x", method: str = "feature 1"
) -> SweepPoint:
    texts = tuple(SteeredText(i, 0, "a", value, 0.5, repeats) for i, value in enumerate(ppl))
    return SweepPoint(method, strength, 1.0, texts)


def test_the_breaking_point() -> None:
    base = made([10.0, 20.0], method="unsteered", strength="–")
    points = [made([18.0, 39.0]), made([21.0, 44.0], strength="2x"), made([11.0, 20.0], 0.9, "5x")]
    told = Sweep(
        tuple(replace(p, ratio=paired(base, p)) for p in (base, *points)), ("a", "b"), {"name": "m"}, {}
    )
    assert told.breaks() == "2x"
    assert told.loops() == "5x"
    assert told.sentences()[0] == (
        "feature 1 breaks at 2x (perplexity over 2 × unsteered), repeats itself from 5x on."
    )
    mild = Sweep(told.points[:2], ("a", "b"), {"name": "m"}, {})
    assert mild.breaks() is None
    assert "does not break" in mild.sentences()[0]


def test_draws_of_a_prompt_are_averaged_first() -> None:
    texts = tuple(SteeredText(p, s, "a", 1.0, float(4 * p + s), 0.0) for p in (0, 1) for s in (0, 1))
    point = SweepPoint("m", "1", 1.0, texts)
    assert point.presence.value == pytest.approx(2.5)
    assert point.presence.high - 2.5 == pytest.approx(
        stats.t.ppf(0.975, 1) * 2
    )  # of 0.5 and 4.5, not of four
    assert math.isnan(mean_of([3.0]).low), "one prompt has no interval"


def test_written_tokens_are_read_where_the_site_is(shared: Callable[[str], Any]) -> None:
    ids = [7, 9, 30]
    for name, site, count in (("gpt2", SITE, 3), ("bart", "decoder.blocks.0.resid", 3)):
        model = shared(name).model
        assert read_written(model, model.encode(TEXT), ids, "hello", site).shape == (count, 32)
    model = shared("bart").model
    inside = read_written(model, model.encode(TEXT), ids, "hello world", SITE)
    assert len(inside) == len(model.encode("hello world"))


def test_a_direction_with_a_score_of_ones_own(shared: Callable[[str], Any]) -> None:
    model = shared("llama").model
    vector = difference(model, SITE, ["the cat"], ["a dog"])
    found = sweep(
        model,
        Intervention(vector, strengths=[1, 8.0]),
        PROMPTS[:2],
        presence=Presence(lambda text: float(len(text))),
        writing=Writing(5, "sample", (0, 1)),
    )
    assert found.methods == ("direction", "random direction")
    assert found.of("direction")[1].size == pytest.approx(8 * vector.length, rel=1e-4)
    texts = found.of("direction")[0].texts
    assert [w.presence for w in texts] == [len(w.text) for w in texts]
    assert [(w.prompt, w.seed) for w in texts] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    again = sweep(
        model,
        Intervention(vector, strengths=[1, 8.0]),
        PROMPTS[:2],
        presence=Presence(lambda text: float(len(text))),
        writing=Writing(5, "sample", (0, 1)),
    )
    assert again.to_dict() == found.to_dict()


def test_what_is_missing_is_told(shared: Callable[[str], Any]) -> None:
    model, sae = shared("gpt2").model, random_sae()
    vector = difference(model, SITE, ["the cat"], ["a dog"])
    for by, prompts, feature, said in (
        (sae, PROMPTS, None, "which feature"),
        (sae, [], 1, "needs prompts"),
        (vector, PROMPTS, None, "what the texts should show"),
    ):
        with pytest.raises(HeedfulError, match=said):
            sweep(model, Intervention(by, feature), prompts)
    with pytest.raises(HeedfulError, match="cannot write text"):
        sweep(shared("bert").model, Intervention(sae, feature=1), PROMPTS)


def test_page_terminal_and_json(swept: Sweep, tmp_path: Path) -> None:
    json.loads(swept.to_json())
    told = replace(swept, prompts=("<script>alert(1)</script>", *swept.prompts[1:]))
    html = told.page()
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<svg") == 2
    assert "how far can it be steered?" in swept.to_html(tmp_path / "it.html").read_text()
    assert "random direction" in swept._repr_html_()


def test_the_answer_says_where_the_text_breaks(swept: Sweep) -> None:
    base, first = swept.base, swept.of(swept.methods[0])
    calm = [replace(point, ratio=MeasuredValue(1.1)) for point in first]
    whole = replace(swept, points=(base, *calm))
    assert str(whole).startswith(f"The text does not break up to {first[-1].strength}")
    torn = replace(swept, points=(base, *calm[:-1], replace(calm[-1], ratio=MeasuredValue(9.0))))
    assert f"The text breaks at {first[-1].strength}; up to {first[-2].strength} it does not" in torn.page()
    row = next(line for line in str(torn).splitlines() if line.startswith(first[-1].strength))
    assert row.rstrip().endswith("broken")


def test_a_single_text_is_judged_by_the_same_limits() -> None:
    good, bad = Continuation("a b c", 10.0, 0.0), Continuation("a a a", 21.0, 0.0)
    loops = replace(good, repetition=0.9)
    for after, same, said in (
        (bad, False, "The steered text breaks"),
        (loops, False, "The steered text repeats itself (90 % of trigrams, 0 % before)"),
        (
            replace(good, repetition=0.42),
            False,
            "The text changed. It repeats itself more (42 % of trigrams, ",
        ),
        (replace(good, repetition=0.05), False, "The text changed and did not break"),
        (good, False, "The text changed and did not break"),
        (good, True, "The steer changed no token"),
    ):
        sides = Sides("p", good, after, 1.0, same, {"name": "m"}, {"how": {"268": "5x"}})
        assert str(sides).startswith(said)
        assert "feature 268 set to 5x" in sides.page()


@pytest.mark.parametrize(
    ("ratio", "before", "after", "change"),
    [
        (1.0, 0.08, 0.42, TextChange.REPEATS_MORE),
        (1.0, 0.08, 0.17, TextChange.CHANGED),
        (1.0, 0.42, 0.08, TextChange.CHANGED),
        (1.0, 0.45, 0.51, TextChange.REPEATS),
        (1.0, 0.6, 0.9, TextChange.REPEATS_MORE),  # both repeat themselves: the steer did not start it
        (1.0, 0.6, 0.6, TextChange.CHANGED),
        (2.1, 0.08, 0.42, TextChange.BROKEN),
        (math.nan, 0.0, 0.0, TextChange.CHANGED),
    ],
)
def test_repetition_is_compared_with_the_unsteered_text(
    ratio: float, before: float, after: float, change: TextChange
) -> None:
    assert change_of(ratio, before, after) is change


def test_a_sweep_says_from_where_on_texts_repeat_more() -> None:
    base = made([10.0, 20.0], 0.08, method="unsteered", strength="–")
    points = [made([10.0, 20.0], 0.1), made([10.0, 20.0], 0.42, "2x")]
    found = Sweep((base, *points), ("a", "b"), {"name": "m"}, {})
    assert found.repeats_more() == "2x"
    assert str(found).startswith("The text does not break up to 2x, but repeats itself more from 2x on")
    assert "repeats itself more than unsteered from 2x on" in found.sentences()[0]
    loops = Sweep((base, made([10.0, 20.0], 0.9)), ("a", "b"), {"name": "m"}, {})
    assert str(loops).startswith("The text does not break up to 1x, but repeats itself from 1x on")


def test_one_prompt_has_no_intervals_and_none_are_promised() -> None:
    one = Sweep((made([10.0], method="unsteered", strength="–"), made([10.0])), ("a",), {"name": "m"}, {})
    assert "95 % intervals" not in str(one)
    two = Sweep(
        (made([10.0, 9.0], method="unsteered", strength="–"), made([10.0, 9.0])),
        ("a", "b"),
        {"name": "m"},
        {},
    )
    assert "95 % intervals" in str(two)


def test_before_and_after(shared: Callable[[str], Any], tmp_path: Path) -> None:
    model, sae = shared("gpt2").model, random_sae()
    same = before_after(model, sae, {3: "1x own"}, TEXT, max_new_tokens=5)
    assert same.same
    assert same.before == same.after
    assert same.size == 0
    other = before_after(model, sae, {3: 4.0}, TEXT, max_new_tokens=5, steering={"positions": "last"})
    with steer(model, sae, {3: 4.0}, positions="last"):
        assert other.after.text == model.generate(TEXT, max_new_tokens=5)
    assert other.before == same.before
    assert not other.same
    json.dumps(other.to_dict(), allow_nan=False)
    assert ": before and after</title>" in other.to_html(tmp_path / "it.html").read_text()
