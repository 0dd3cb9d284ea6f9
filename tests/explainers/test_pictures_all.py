"""Every registered method on pictures: a linear network, a planted corner, and formulas by hand.

Methods are taken from the registry: one that is new must say here what is true of it.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

import heedful
from heedful.core import defaults, registry
from heedful.engine.question import run_explainer
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader

SIDE, CELLS = 16, 4
READER = ImageReader((SIDE, SIDE), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
UNIT = f"grid:{CELLS}"
CORNER = CELLS * CELLS - 1
CONTROLS = set(defaults.CONTROLS)
TEXT_ONLY = {"one-layer", "joint", "similarity", "text"}
BUDGETED = {"samples": 256}


def picture(seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8)


class LinearPatches(nn.Module):
    """f = sum over cells of w_cell · mean colour of the cell."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weights = nn.Parameter(torch.randn(2, 3, CELLS, CELLS, dtype=torch.float64, generator=generator))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        means = nn.functional.avg_pool2d(pixels, SIDE // CELLS)
        return torch.einsum("bchw,kchw->bk", means, self.weights)


def linear() -> tuple[ImageModel, Any, Any, Any, Any]:
    """model, input, target; the gradient g (places, 3) and the input e (places, 3) as it is read."""
    m = ImageModel(LinearPatches(4), READER)
    x = m.encode(picture(18))
    target = m.target(x)
    trace = m.trace(x, target)
    return m, x, target, trace.grad_embeds.double().numpy(), trace.embeds.double().numpy()


def removal(m: Any, x: Any, target: Any, g: Any, e: Any) -> Any:
    """What a cell adds beside the mean colour: every method that removes must find it."""
    without = m.lookup(x, target, range(len(x)), "mean").double().numpy()
    return x.units(UNIT).sums(((e - without) * g).sum(-1))


# method -> its closed form by cell on the linear network; None: it is of another kind, with the reason
FORMS: dict[str, Any] = {
    "grad-avg": lambda m, x, t, g, e: x.units(UNIT).sums(g.mean(-1)),
    "grad-l1": lambda m, x, t, g, e: x.units(UNIT).sums(np.abs(g).sum(-1)),
    "grad-l2": lambda m, x, t, g, e: x.units(UNIT).sums(np.linalg.norm(g, axis=-1)),
    "grad-x-input": lambda m, x, t, g, e: x.units(UNIT).sums((g * e).sum(-1)),
    "smoothgrad": lambda m, x, t, g, e: x.units(UNIT).sums((g * e).sum(-1)),
    "integrated-gradients": removal,
    "occlusion": removal,
    "lime": removal,
    "kernel-shap": removal,
    "rise": removal,
}
OTHER = {
    "search": "an order of units, not scores in the unit of the output",
    "anchors": "a rule that holds, not scores in the unit of the output",
    "gradcam": "the linear network has no layer with places",
    "crop-similarity": "parts are enlarged: the network is asked about another picture",
}


@pytest.mark.parametrize("name", list(registry.explainers()))
def test_a_linear_network_has_closed_forms(name: str) -> None:
    entry = registry.get(name)
    m, x, target, g, e = linear()
    why = m.lacks(entry.needs)
    assert bool(why) == (name in NOT_OFFERED[LinearPatches])
    if why:
        with pytest.raises(heedful.HeedfulError):
            m.require(entry.needs, name)
        assert why.startswith("it needs ")
        return
    if name in CONTROLS or name in OTHER:
        return
    assert name in FORMS, f"say what {name} gives on a linear network"
    more: dict[str, Any] = {"unit": UNIT} if "unit" in entry.takes else {}
    if name == "rise":
        more["samples"] = 4000
    item = run_explainer(name, m, x, target, **more)
    wanted, scores = FORMS[name](m, x, target, g, e), item.unit_scores(UNIT)
    errors = np.array([unit.stderr or 0.0 for unit in item.units(UNIT)])
    slack = 1e-5 * np.abs(wanted).max()  # colours are composed in single precision
    assert (np.abs(scores - wanted) <= 5 * errors + slack).all()


class Corner(nn.Module):
    """The brightness of the lower right cell decides, nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 1, SIDE // CELLS, stride=SIDE // CELLS, bias=False)
        nn.init.constant_(self.conv.weight, 1 / 48)
        self.read = nn.Linear(CELLS * CELLS, 2, bias=False)
        with torch.no_grad():
            self.read.weight.zero_()
            self.read.weight[1, CORNER], self.read.weight[0, CORNER] = 4.0, -4.0

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.read((self.conv(pixels) + 5.0).relu().flatten(1))


def watching_vit() -> nn.Module:
    """A one-layer transformer whose class token attends to the last patch by its position alone, and reads
    its value. Nothing else reaches the answer."""
    torch.manual_seed(5)
    config = ViTConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        image_size=SIDE,
        patch_size=SIDE // CELLS,
        num_labels=2,
        initializer_range=0.5,
        attn_implementation="eager",
    )
    module = ViTForImageClassification(config).double().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if ".mlp." in name:
                parameter.zero_()  # attention alone
        positions = module.vit.embeddings.position_embeddings
        positions.zero_()
        positions[0, -1, 0] = 4.0  # coordinate 0 marks the last patch, and colours do not reach it
        module.vit.embeddings.patch_embeddings.projection.weight[:2] = 0.0
        module.vit.embeddings.cls_token.zero_()
        module.vit.embeddings.cls_token[0, 0, 1] = 12.0  # coordinate 1 marks the class token
        query, key = (_projection(module, part) for part in ("q", "k"))
        for layer in (query, key):
            layer.weight.zero_()
            layer.bias.zero_()
        query.weight[0, 1] = key.weight[0, 0] = 4.0
    return module


def content_vit() -> nn.Module:
    """A one-layer transformer whose class token attends to bright patches, wherever they are, and reads how
    bright they are: the mechanism runs through the tokens of the last layer."""
    module = watching_vit()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        for name, part in module.named_modules():
            if isinstance(part, nn.LayerNorm):
                part.weight.fill_(1.0)
            elif name.endswith(("value", "v_proj", "attention.output.dense", "o_proj")):
                part.weight.copy_(torch.eye(8))
        module.vit.embeddings.patch_embeddings.projection.weight[0] = 1 / 48  # coordinate 0: brightness
        module.vit.embeddings.position_embeddings[0, 1:, 3] = 1.0  # else a norm would take it away
        module.vit.embeddings.cls_token[0, 0, 1] = 4.0
        query, key = (_projection(module, part) for part in ("q", "k"))
        query.bias[0], key.weight[0, 0] = 2.0, 2.0
        module.classifier.weight[1, 0], module.classifier.weight[0, 0] = 4.0, -4.0
    return module


def _projection(module: nn.Module, letter: str) -> Any:
    """The query, key or value layer, whatever this version of transformers calls it."""
    names = {"q": ("query", "q_proj"), "k": ("key", "k_proj"), "v": ("value", "v_proj")}[letter]
    return next(part for name, part in module.named_modules() if name.endswith(names))


# methods that need not find it, with the reason
EXEMPT = {
    "attention-max": "the largest weight of any position, not of the one that is read",
    "grad-avg": "a mean of signed gradients may cancel",
    "search": "stops when nothing more changes; covered by its own tests",
    "anchors": "covered by its own tests",
}


# on the transformer alone, where attention finds the patch by its position
BY_POSITION = {
    "gradcam": "one weight per channel for all places: it cannot see that attention reads one place alone",
    "grad-eclip": "it replaces the attention weights by the likeness of queries and keys, looser by design",
    "crop-similarity": "a part that is cut out and enlarged is at another position",
}


# methods that a model does not offer, by what they need
ONE_LAYER = {"gradient-exact", "lime-exact", "shapley-exact"}  # of a transformer of the text zoo
ATTENTION = {name for name in registry.explainers() if name.startswith(("attention-", "chefer"))}
NOT_OFFERED: dict[Any, set[str]] = {
    LinearPatches: ONE_LAYER | ATTENTION | {"value-zeroing", "grad-eclip", "gradcam", "guided-backprop"},
    Corner: ONE_LAYER | ATTENTION | {"value-zeroing", "grad-eclip"},
    watching_vit: ONE_LAYER | {"guided-backprop"},
    content_vit: ONE_LAYER | {"guided-backprop"},
}
MODELS = {"convolution": Corner, "transformer": watching_vit, "by content": content_vit}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_what_is_not_offered_is_listed(make: Any) -> None:
    m = ImageModel(make().eval(), READER)
    lacking = {name: m.lacks(entry.needs) for name, entry in registry.explainers().items()}
    assert {name for name, why in lacking.items() if why} == NOT_OFFERED[make]
    assert all(why.startswith("it needs ") for why in lacking.values() if why)


FINDING = [
    pytest.param(name, make, id=f"{name}-{called}")
    for called, make in MODELS.items()
    for name in registry.explainers()
    if name not in CONTROLS | set(EXEMPT) | NOT_OFFERED[make]
    and not (make is watching_vit and name in BY_POSITION)
]


def test_every_method_of_a_last_layer_is_held_to_a_transformer() -> None:
    held = {param.values for param in FINDING}
    assert {(name, content_vit) for name in BY_POSITION} <= held


@pytest.mark.parametrize(("name", "make"), FINDING)
def test_a_planted_corner_is_found(name: str, make: Any) -> None:
    entry = registry.get(name)
    m = ImageModel(make().eval(), READER)
    pixels = picture(21)
    pixels[-SIDE // CELLS :, -SIDE // CELLS :] = 250
    x = m.encode(pixels)
    item = run_explainer(name, m, x, spoken_for(m, x), **({"unit": UNIT} if "unit" in entry.takes else {}))
    assert int(np.abs(item.unit_scores(UNIT)).argmax()) == CORNER


def spoken_for(m: ImageModel, x: Any) -> Any:
    """The class that the corner speaks for: some methods leave out what speaks against a class."""
    keep = np.ones((2, CELLS * CELLS), dtype=bool)
    keep[1, CORNER] = False
    targets = [m.target(x, index) for index in (0, 1)]
    falls = [float(np.subtract(*m.values(x, target, keep, "mean", UNIT))) for target in targets]
    assert max(falls) > 1e-3
    return targets[int(np.argmax(falls))]


def test_controls_do_not_find_it() -> None:
    m = ImageModel(Corner().eval(), READER)
    x = m.encode(picture(23))
    target = m.target(x, 1)
    # the corner is one of 16 cells: more hits than this come in one of 1,000 tests
    limit = stats.binom.isf(1e-3, 40, 1 / CELLS**2)
    for name in ("random", "smooth-random"):
        tops = [
            int(np.abs(run_explainer(name, m, x, target, seed=seed).unit_scores(UNIT)).argmax())
            for seed in range(40)
        ]
        assert tops.count(CORNER) <= limit
    for name in ("edges", "centre"):
        assert int(run_explainer(name, m, x, target).unit_scores(UNIT).argmax()) != CORNER


# --- formulas by hand --------------------------------------------------------------------------------------


class Quadratic(nn.Module):
    """f = e'Ae / 2 + b'e over all colours e."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        half = torch.randn(12, 12, dtype=torch.float64, generator=generator)
        self.a = nn.Parameter((half + half.T) / 2)
        self.b = nn.Parameter(torch.randn(12, dtype=torch.float64, generator=generator))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        e = pixels.permute(0, 2, 3, 1).flatten(1)  # place by place, as heedful keeps them
        value = torch.einsum("bi,ij,bj->b", e, self.a, e) / 2 + e @ self.b
        return torch.stack([value, -value], 1)


def test_smoothgrad_variants_on_a_quadratic() -> None:
    module = Quadratic()
    m = ImageModel(module, ImageReader((2, 2)))
    x = m.encode(np.random.default_rng(2).integers(0, 256, (2, 2, 3)).astype(np.uint8))
    target = m.target(x, 0)
    e = m.lookup(x, target).double().numpy().ravel()
    a, b = module.a.detach().numpy(), module.b.detach().numpy()
    gradient, s = a @ e + b, 0.15 * np.ptp(e)
    rows = s**2 * np.square(a).sum(1)
    forms = {"mean": gradient * e, "gradient": gradient, "squared": gradient**2 + rows, "variance": rows}
    for variant, wanted in forms.items():
        item = run_explainer("smoothgrad", m, x, target, samples=4000, noise=0.15, variant=variant, seed=3)
        each = wanted.reshape(4, 3).sum(1)
        # a mean is exact: pairs cancel; of squares, the relative error of 2,000 pairs is about 3 %
        signed = variant in ("mean", "gradient")
        np.testing.assert_allclose(item.scores, each, rtol=1e-9 if signed else 0.15)
        assert item.signed == signed
    with pytest.raises(heedful.HeedfulError, match="no variant 'cubed'"):
        run_explainer("smoothgrad", m, x, target, variant="cubed")


def tiny_vit(layers: int = 2) -> nn.Module:
    torch.manual_seed(9)
    config = ViTConfig(
        hidden_size=12,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=SIDE,
        patch_size=SIDE // 2,
        num_labels=3,
        initializer_range=0.4,
        attn_implementation="eager",
    )
    return ViTForImageClassification(config).eval().double()


def test_attention_flow_by_hand() -> None:
    """Maximum flow from the class token of the last layer to each patch of the input, edges (A + I) / 2."""
    m = ImageModel(tiny_vit(), READER)
    x = m.encode(picture(31))
    target = m.target(x)
    trace = m.trace(x, target)
    layers = [(a.double().mean(0).numpy() + np.eye(5)) / 2 for a in trace.attentions]
    graph = nx.DiGraph()
    for depth, layer in enumerate(layers):
        for row in range(5):
            for column in range(5):
                graph.add_edge((depth + 1, row), (depth, column), capacity=float(layer[row, column]))
    wanted = [nx.maximum_flow_value(graph, (len(layers), 0), (0, patch)) for patch in range(1, 5)]
    item = run_explainer("attention-flow", m, x, target)
    np.testing.assert_allclose(item.scores / item.scores.sum(), np.array(wanted) / sum(wanted), rtol=1e-6)


def test_relevance_is_conserved_from_layer_to_layer() -> None:
    """Without biases every rule keeps the sum: relevance of the attention weights and of the values is half
    of what reaches their product, so no layer has more than the start of 1, and what the skip connection
    and the attention share sums to it."""
    m = ImageModel(tiny_vit(1), READER)
    x = m.encode(picture(32))
    target = m.target(x)
    (layer,) = m.relevances(x, target)
    assert layer.shape == (2, 5, 5)
    assert 0 < abs(float(layer.sum())) <= 0.5 + 1e-6  # half of the attention's share
    # only the class token is read: other rows of the last layer have no relevance
    assert float(layer[:, 1:].abs().max()) == pytest.approx(0, abs=1e-12)
    # weight and value share what reaches the output of a head: A * dR/dA sums like the head's own part
    trace = m.trace(x, target)
    cam = (trace.grad_attentions[0].double() * layer.double()).clamp_min(0).mean(0)
    item = run_explainer("chefer-lrp", m, x, target)
    np.testing.assert_allclose(item.scores, cam[0, 1:].numpy(), rtol=1e-9, atol=1e-15)


def test_lime_on_superpixels_is_its_weighted_least_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("skimage")
    monkeypatch.setattr("heedful.modalities.image.SUPERPIXELS", 6)  # so few that all masks can be run
    pixels = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    for k, colour in enumerate([(250, 0, 0), (0, 250, 0), (0, 0, 250), (250, 250, 0)]):
        pixels[8 * (k // 2) : 8 * (k // 2) + 8, 8 * (k % 2) : 8 * (k % 2) + 8] = colour
    m = ImageModel(tiny_vit(), READER)
    x = m.encode(pixels)
    target, d = m.target(x), len(x.units("superpixel"))
    assert 2 <= d <= 12
    item = run_explainer("lime", m, x, target, unit="superpixel", samples=4096, precision=0.0)
    assert item.over == "superpixel"
    masks = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)
    values = m.values(x, target, masks, item.params["operator"], "superpixel")
    weights = lime_weights(masks, float(item.params["bandwidth"]))
    full = np.column_stack([np.ones(len(masks)), masks])
    root = np.sqrt(weights)[:, None]
    line = np.linalg.lstsq(full * root, values * root[:, 0], rcond=None)[0]
    np.testing.assert_allclose(item.scores, line[1:], rtol=0, atol=1e-6 * np.abs(line).max())


def lime_weights(masks: Any, bandwidth: float) -> Any:
    """LIME for text and pictures: a number of units removed, uniform in 1 .. d, then which; and the kernel
    exp(-(1 - cos)^2 / 2 bandwidth^2) of the share that is kept."""
    from math import comb

    d = masks.shape[1]
    kept = masks.sum(1)
    chance = np.array([1 / (d * comb(d, k)) if k < d else 0.0 for k in kept])
    kernel = np.exp(-np.square(1 - np.sqrt(kept / d)) / (2 * bandwidth**2))
    return chance * kernel


def dark_and_bright() -> nn.Module:
    """Class 1 likes every place of the feature map, class 0 none."""
    read = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        read.weight.copy_(torch.tensor([[-1.0, -2.0], [1.0, 2.0]]))
    layers = [nn.Conv2d(3, 2, 4, stride=4), nn.Sigmoid(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), read]
    return nn.Sequential(*layers).eval()


def like_values_vit() -> nn.Module:
    """All patches have one value, and the two classes are opposites: all patches speak for one of them."""
    module: Any = tiny_vit(1)
    with torch.no_grad():
        _projection(module, "v").weight.zero_()
        _projection(module, "v").bias.normal_()
        module.classifier.weight[1] = -module.classifier.weight[0]
    return module


@pytest.mark.parametrize(("name", "make"), [("gradcam", dark_and_bright), ("grad-eclip", like_values_vit)])
def test_a_map_of_which_nothing_is_left_says_so(name: str, make: Any) -> None:
    torch.manual_seed(0)
    m = ImageModel(make(), READER)
    x = m.encode(picture(33))
    pair = [run_explainer(name, m, x, m.target(x, label)) for label in (0, 1)]
    empty, full = sorted(pair, key=lambda item: item.scores.max())
    note = "no part speaks for the target: the map is empty"
    assert not empty.scores.any()
    assert full.scores.max() > 0
    assert note in empty.notes
    assert note not in full.notes
    comparison = heedful.explain(m, x, [name, "occlusion"], empty.target)
    assert f"{name}: {note}." in " ".join(str(comparison).split())
    assert {evidence.method for evidence in comparison.evidence} == {"occlusion"}, "it has no order to test"
    assert note in str(heedful.explain(m, x, [name], empty.target)).replace("\n", " ")
