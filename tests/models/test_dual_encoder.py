"""Models that compare pictures with texts, against transformers' own similarity and a closed form."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.dual_models import LENGTH, SIDE, LinearPair, module, picture, processor
from torch.nn.functional import cosine_similarity

import heedful
from heedful.core.errors import HeedfulError
from heedful.engine.question import run_explainer
from heedful.models.dual_encoder import DualEncoder
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader

RAW = {"picture": picture(), "text": "a red circle"}
NAMES = ("clip", "siglip")
SAME = 2e-6  # colours are float32 (6e-8), which weights this large make ten times larger; as eager softmax


@pytest.fixture(scope="module")
def loaded() -> dict[str, tuple[Any, DualEncoder]]:
    made = {}
    for name in NAMES:
        own = module(name)
        model = heedful.load((own, processor()))
        assert isinstance(model, DualEncoder)
        made[name] = own, model
    return made


def own_similarity(own: Any, pixels: Any, text: str) -> float:
    """transformers' own logits_per_image, without scale and bias."""
    tools = processor()
    fixed = {"padding": "max_length", "max_length": LENGTH} if hasattr(own, "logit_bias") else {}
    ids = tools.tokenizer(text, return_tensors="pt", **fixed)["input_ids"]
    read = tools.image_processor(images=pixels, return_tensors="pt")["pixel_values"].double()
    with torch.no_grad():
        out = own(input_ids=ids, pixel_values=read)
    scale, bias = scale_and_bias(own)
    return (out.logits_per_image.item() - bias) / scale


def scale_and_bias(own: Any) -> tuple[float, float]:
    return own.logit_scale.exp().item(), own.logit_bias.item() if hasattr(own, "logit_bias") else 0.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["a red circle", "star", "the photo of a blue square and a star"])
def test_similarity_is_the_models_own(loaded: Any, name: str, text: str) -> None:
    own, model = loaded[name]
    x = model.encode({"picture": picture(3), "text": text})
    expected = own_similarity(own, picture(3), text)
    assert model.predict(x)[0][1] == pytest.approx(expected, abs=SAME)
    assert model.trace(x, model.target(x)).output == pytest.approx(expected, abs=SAME)
    logit = model.target(x, "logit")
    keep = np.ones((1, len(x.units())), dtype=bool)
    scale, bias = scale_and_bias(own)
    assert model.values(x, logit, keep)[0] == pytest.approx(expected * scale + bias, abs=50 * SAME)


@pytest.mark.parametrize("name", NAMES)
def test_one_rather_than_another_is_the_difference(loaded: Any, name: str) -> None:
    own, model = loaded[name]
    x = model.encode(RAW)
    target = model.target(x, {"contrast": "a blue star"})
    expected = own_similarity(own, RAW["picture"], "a red circle") - own_similarity(
        own, RAW["picture"], "a blue star"
    )
    assert model.trace(x, target).output == pytest.approx(expected, abs=2 * SAME)
    assert target.name == "a red circle rather than a blue star"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("operator", "text"), [("inpaint", "a circle"), ("noise", None), ("blur", None)])
def test_removing_words(loaded: Any, name: str, operator: str, text: str | None) -> None:
    """Deleting "red" is the caption without it; the picture is not read again."""
    own, model = loaded[name]
    x = model.encode(RAW)
    keep = np.ones((2, len(x.units())), dtype=bool)
    keep[1, x.picture_units() + 1] = False
    model.values(x, model.target(x), keep[:1])
    before = model.meter.read()
    values = model.values(x, model.target(x), keep, operator)
    spent = model.meter.read() - before
    assert values[0] == pytest.approx(own_similarity(own, RAW["picture"], "a red circle"), abs=SAME)
    assert abs(values[1] - values[0]) > 1e-6
    if text is not None:
        assert values[1] == pytest.approx(own_similarity(own, RAW["picture"], text), abs=SAME)
    assert spent.tokens < 4 * LENGTH < SIDE * SIDE


@pytest.mark.parametrize("name", NAMES)
def test_removing_parts_of_the_picture_and_words_together(loaded: Any, name: str) -> None:
    own, model = loaded[name]
    x = model.encode(RAW)
    keep = np.ones((1, len(x.units())), dtype=bool)
    keep[0, [0, x.picture_units()]] = False  # the first patch and "a"
    seen = picture().astype(float)
    seen[:8, :8] = seen.mean((0, 1))
    by_mean = model.values(x, model.target(x), keep, "mean")[0]
    words = model.text.rows(x.text, heedful.Target("class"), keep[:, x.picture_units() :], "mean")
    vectors = torch.from_numpy(model.text_vectors(words))
    pixels = model.picture.reader.normalise(torch.from_numpy((seen / 255).astype(np.float32)).double())
    with torch.no_grad():
        own_vector = own.get_image_features(pixel_values=pixels.permute(2, 0, 1)[None]).pooler_output
    assert by_mean == pytest.approx(float(cosine_similarity(own_vector, vectors)), abs=SAME)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_finite_differences(loaded: Any, name: str) -> None:
    _, model = loaded[name]
    x = model.encode(RAW)
    target = model.target(x, {"contrast": "a blue star"})
    start = model.lookup(x, target)
    value, grad = model.gradients(x, target, start[None])
    assert float(value[0]) == pytest.approx(model.trace(x, target).output, abs=SAME)
    assert torch.allclose(grad[0], model.trace(x, target).grad_embeds, atol=1e-6)
    pixels, tokens = 3 * SIDE * SIDE, len(x.text) * 16
    assert start.shape == (pixels + tokens, 1)
    step = 1e-5  # float64 throughout: the attention of this pass is sdpa
    for at in (5, pixels // 2, pixels + 20, pixels + 40):
        points = torch.stack([start, start])
        points[0, at] += step
        points[1, at] -= step
        up, down = model.gradients(x, target, points)[0].tolist()
        assert (up - down) / (2 * step) == pytest.approx(float(grad[0, at]), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(
    ("baseline", "name"),
    [
        *((baseline, "clip") for baseline in ("mean", "black", "blur", "noise")),
        ("mean", "siglip"),
        *(
            pytest.param(baseline, "siglip", marks=pytest.mark.slow)
            for baseline in ("black", "blur", "noise")
        ),
    ],
)
def test_a_baseline_is_that_of_the_picture_with_blank_words(loaded: Any, name: str, baseline: str) -> None:
    _, model = loaded[name]
    x = model.encode(RAW)
    target, atoms = model.target(x), np.flatnonzero(x.units(x.atom).owner >= 0)
    start = model.lookup(x, target, atoms.tolist(), baseline)
    pixels, tokens = model.embed_parts(x, start)
    own = model.picture.lookup(x.picture, target, range(len(x.picture)), baseline)
    assert torch.equal(pixels, own)
    assert torch.equal(tokens, model.embed_parts(x, model.lookup(x, target, atoms.tolist(), "mean"))[1])
    ends = model.gradients(x, target, torch.stack([start, model.lookup(x, target)]))[0].tolist()
    found = run_explainer("integrated-gradients", model, x, target, baseline=baseline)
    assert [found.base, found.output] == pytest.approx(ends, abs=SAME)
    assert found.total == pytest.approx(ends[1] - ends[0], abs=0.02)  # the default tolerance of the path


def test_the_module_stays_as_it_was(loaded: Any) -> None:
    for name in NAMES:
        own, model = loaded[name]
        own.train()
        weights = copy.deepcopy(own.state_dict())
        hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in own.modules()]
        names = [set(vars(m)) for m in own.modules()]
        heedful.explain(model, RAW, methods="all", evidence=False, params={"rise": {"samples": 8}})
        assert all(m.training for m in own.modules())
        assert all(torch.equal(weights[key], value) for key, value in own.state_dict().items())
        assert hooks == [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in own.modules()]
        assert names == [set(vars(m)) for m in own.modules()]
        assert all(p.grad is None for p in own.parameters())
        assert own.config._attn_implementation == own.config.text_config._attn_implementation == "sdpa"
        own.eval()


@pytest.mark.parametrize("name", NAMES)
def test_captions_as_classes(loaded: Any, name: str) -> None:
    """An ordinary classifier of pictures, whose logits are the model's own."""
    own, _ = loaded[name]
    captions = ["a red circle", "a blue star", "the photo"]
    model = heedful.load((own, processor()), labels=captions)
    assert isinstance(model, ImageModel)
    assert model.labels == tuple(captions)
    x = model.encode(picture(2))
    scale, bias = scale_and_bias(own)
    expected = [own_similarity(own, picture(2), text) * scale + bias for text in captions]
    assert model.scores_of(x) == pytest.approx(expected, abs=50 * SAME)
    assert {"gradients", "attentions", "feature-map"} <= model.capabilities
    found = heedful.explain(
        model, picture(2), methods=["chefer", "gradcam", "grad-eclip", "crop-similarity", "occlusion"]
    )
    assert len(found.skipped) == 0
    assert found["grad-eclip"].scores.min() >= 0


def halves() -> Any:
    pixels = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    pixels[:, : SIDE // 2], pixels[:, SIDE // 2 :] = 204, 51  # left .8, right .2
    return pixels


def linear() -> tuple[Any, Any]:
    tools = processor()
    tools.image_processor = ImageReader((SIDE, SIDE))
    model: Any = heedful.load((LinearPair(), tools))
    return model, model.encode({"picture": halves(), "text": "left right"})


def cosine(picture_vector: Any, text_vector: Any) -> float:
    u, v = np.asarray(picture_vector), np.asarray(text_vector)
    return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))


def test_a_linear_pair_has_known_scores() -> None:
    """u = (left, right, 1), v = (1, 1, 1): every removal and every gradient in closed form."""
    model, x = linear()
    u, v = np.array([0.8, 0.2, 1.0]), np.ones(3)
    assert model.predict(x)[0][1] == pytest.approx(cosine(u, v), abs=SAME)
    target = model.target(x)
    found = run_explainer("occlusion", model, x, target, unit="grid:2", operator="inpaint")
    assert x.units("grid:2").labels[-2:] == ("left", "right")
    assert found.scores[-2:] == pytest.approx(
        [cosine(u, v) - cosine(u, [0, 1, 1]), cosine(u, v) - cosine(u, [1, 0, 1])], abs=SAME
    )
    by_mean = run_explainer("occlusion", model, x, target, unit="grid:2", operator="mean")
    # a quarter of the picture at the mean colour .5 is half of a half: .65 on the left, .35 on the right
    drop = [cosine(u, v) - cosine(w, v) for w in ([0.65, 0.2, 1], [0.8, 0.35, 1])]
    assert by_mean.scores[:4] == pytest.approx([drop[0], drop[1], drop[0], drop[1]], abs=SAME)
    slope = v / np.linalg.norm(u) / np.linalg.norm(v) - cosine(u, v) * u / (u @ u)  # d cos / d u
    product = run_explainer("grad-x-input", model, x, target)
    sides = product.unit_scores("grid:2")[:4].reshape(2, 2).sum(0)
    assert sides == pytest.approx(slope[:2] * u[:2], abs=SAME)
    back = u / np.linalg.norm(u) / np.linalg.norm(v) - cosine(u, v) * v / (v @ v)  # d cos / d v
    assert product.unit_scores("grid:2")[-2:] == pytest.approx(back[:2], abs=SAME)
    path = run_explainer("integrated-gradients", model, x, target, baseline="black")
    blank = model.lookup(
        x, target, [*list(range(len(x.picture))), len(x.picture) + 1, len(x.picture) + 2], "black"
    )
    assert path.total == pytest.approx(
        cosine(u, v) - float(model.gradients(x, target, blank[None])[0][0]), abs=1e-3
    )


def test_shapley_values_of_a_linear_pair_are_those_of_its_table() -> None:
    """Four units: two halves of the picture as regions, two words; all 16 coalitions by hand."""
    from itertools import combinations
    from math import factorial

    tools = processor()
    tools.image_processor = ImageReader((SIDE, SIDE))
    model: Any = heedful.load((LinearPair(), tools))
    boxes = {"west": (0, 0, SIDE // 2, SIDE), "east": (SIDE // 2, 0, SIDE, SIDE)}
    x = model.encode({"picture": halves(), "text": "left right", "regions": boxes})

    def game(kept: tuple[int, ...]) -> float:
        u = [0.8 if 0 in kept else 0.5, 0.2 if 1 in kept else 0.5, 1.0]
        mean = model.text.backend.vocabulary_mean.detach().numpy()
        v = np.array([0.0, 0.0, 1.0]) + np.eye(3)[:2][[i for i in (0, 1) if i + 2 in kept]].sum(0)
        return cosine(u, v + mean * (4 - len(kept) - (0 not in kept) - (1 not in kept)))

    expected = []
    for unit in range(4):
        rest = [other for other in range(4) if other != unit]
        total = 0.0
        for size in range(4):
            weight = factorial(size) * factorial(3 - size) / factorial(4)
            total += weight * sum(game((*s, unit)) - game(s) for s in combinations(rest, size))
        expected.append(total)
    found = run_explainer("kernel-shap", model, x, model.target(x), unit="region+word", operator="mean")
    assert found.unit_scores("region+word") == pytest.approx(expected, abs=1e-6)


def test_a_pair_of_functions() -> None:
    pair = LinearPair()

    def see(pictures: list[Any]) -> Any:
        pixels = torch.from_numpy(np.stack(pictures) / 255.0).permute(0, 3, 1, 2)
        return pair.get_image_features(pixels).numpy()

    def read(texts: list[str]) -> Any:
        return [[float("left" in text), float("right" in text), 1.0] for text in texts]

    model = heedful.load((see, read), modality="image+text")
    raw = {"picture": halves(), "text": "left right"}
    found = heedful.explain(
        model, raw, methods=["occlusion", "crop-similarity", "lime", "rise", "edges"], unit="grid:2"
    )
    u, v = np.array([0.8, 0.2, 1.0]), np.ones(3)
    assert found["occlusion"].output == pytest.approx(cosine(u, v), abs=1e-9)
    assert found["occlusion"].unit_scores("grid:2")[-2:] == pytest.approx(
        [cosine(u, v) - cosine(u, [0, 1, 1]), cosine(u, v) - cosine(u, [1, 0, 1])], abs=1e-9
    )
    with pytest.raises(HeedfulError, match="gradients"):
        heedful.explain(model, raw, methods=["grad-l2"])
    chosen = heedful.load((see, read), modality="image+text", labels=["left", "right"])
    assert chosen.predict(chosen.encode(halves()))[0][0] == "left"


def test_what_is_refused(loaded: Any) -> None:
    own, model = loaded["clip"]
    with pytest.raises(HeedfulError, match="picture with a text"):
        model.encode(picture())
    with pytest.raises(HeedfulError, match="processor that reads both"):
        heedful.load(own)
    with pytest.raises(HeedfulError, match="two captions"):
        heedful.load((own, processor()), labels=["one"])
    with pytest.raises(HeedfulError, match="a caption is given twice: 'a red circle'"):
        heedful.load((own, processor()), labels=["a red circle", "a blue star", "a red circle"])
    with pytest.raises(HeedfulError, match="similarity of the picture"):
        model.target(model.encode(RAW), "a blue star")
    with pytest.raises(HeedfulError, match="contrasted"):
        model.target(model.encode(RAW), {"contrast": "a red circle"})
    with pytest.raises(HeedfulError, match="it needs one encoder"):
        heedful.explain(model, RAW, methods=["attention-optimus"], evidence=False)
    with pytest.raises(HeedfulError, match="two encoders are needed"):
        heedful.load(len, modality="image+text")


def test_a_comparison_is_saved_and_read(loaded: Any, tmp_path: Path) -> None:
    _, model = loaded["clip"]
    found = heedful.explain(model, RAW, methods=["occlusion", "grad-eclip"], unit="grid:2")
    found.save(tmp_path / "run")
    again = heedful.Comparison.load(tmp_path / "run")
    assert again.x == found.x
    assert again.target == found.target
    for method in found:
        assert np.array_equal(again[method].scores, found[method].scores)
    assert again.verdict == found.verdict


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_the_same_as_the_pair(tmp_path: Path, name: str) -> None:
    own, tools = module(name), processor()
    own.save_pretrained(tmp_path)
    tools.tokenizer.save_pretrained(tmp_path)
    tools.image_processor.save_pretrained(tmp_path)
    folder, pair = heedful.load(tmp_path), heedful.load((own, tools))
    assert folder.predict(folder.encode(RAW))[0][1] == pytest.approx(pair.predict(pair.encode(RAW))[0][1])
    chosen = heedful.load(tmp_path, labels=["a red circle", "a blue star"])
    assert chosen.labels == ("a red circle", "a blue star")
    assert chosen.facts()["modality"] == "image"
