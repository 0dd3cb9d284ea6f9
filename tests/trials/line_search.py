"""A crude rival of the adversary's search, which shares nothing with it: random lines, and bisection on each.

    weights(t) = (1 - t) own + t R,   R: own weights in another order, Dirichlet, one-hot; in all rows or some
    the largest t whose answer stays within epsilon, by bisection; the farthest of all lines counts

It gets as many passes as the search took: every forward and every backward of the search is a forward here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import heedful
from heedful.nn.one_layer import OneLayerClassifier, OneLayerConfig
from heedful.trials.adversary_search import Search, SearchProblem
from heedful.trials.attention_scores import shown
from heedful.trials.examples import prepare
from heedful.trials.free_weights import Movable
from heedful.trials.tests.adversary import _layers, searched

BISECTIONS = 12
WORDS = (
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "hello",
    "world",
    "stop",
    "a",
    "dog",
    "ran",
    "to",
    "low",
    "house",
    "not",
    "bad",
    "at",
    "all",
    "you",
    "are",
    "very",
    "good",
)
KINDS = (
    *(
        "one-layer",
        "one-layer",
        "bert",
        "bert-multi",
        "bert-regression",
        "mean-pool",
        "distilbert",
        "roberta",
    ),
    *("gpt2", "gpt2-classifier", "llama", "llama-classifier", "zoo:one-layer", "zoo:sentiment"),
)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A case: one layer of one model and one text, and how far the answer may move."""

    name: str
    problem: SearchProblem
    epsilon: float


def targets(layer: Movable, count: int, rng: np.random.Generator) -> np.ndarray:
    """(n, H, Q, T) float64: where lines lead to, each of one kind, in all rows or in some of them."""
    own, free = layer.own.double().numpy(), layer.free.numpy()
    shape = (count, *own.shape)
    noise = np.where(free, rng.random(shape), np.inf)
    places = np.where(free, np.arange(own.shape[-1]), own.shape[-1]).argsort(-1)  # free ones first
    orders = np.empty(shape)
    shuffled = np.take_along_axis(np.broadcast_to(own, shape), noise.argsort(-1), -1)
    np.put_along_axis(orders, np.broadcast_to(places, shape), shuffled, -1)
    corners = (noise == noise.min(-1, keepdims=True)) & free
    flat, sparse = (rng.gamma(alpha, size=shape) * free + 1e-300 * free for alpha in (1.0, 0.1))
    kinds = np.stack([orders, *(_dealt(some, own, free) for some in (corners, flat, sparse))])
    chosen = kinds[rng.integers(4, size=count), np.arange(count)]
    share = rng.choice([1.0, 0.5, 0.1], (count, 1, 1, 1))
    rows = rng.random((*shape[:3], 1)) < share
    return np.where(free & rows, chosen, own)


def _dealt(some: np.ndarray, own: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Rows that give the words what they had, in these shares."""
    mass = (own * free).sum(-1, keepdims=True)
    return np.asarray(some / np.maximum(some.sum(-1, keepdims=True), 1e-300) * mass)


def distance(layer: Movable, weights: np.ndarray) -> np.ndarray:
    """(n,): JSD in numpy and float64, a mean over heads and over rows by their importance."""
    free, own = layer.free.numpy(), layer.own.double().numpy()
    mass = np.maximum((own * free).sum(-1, keepdims=True), 1e-300)
    p, q = own * free / mass, weights * free / mass
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(some > 0, some * np.log(some / middle), 0.0) for some in (p, q)]
    each = (terms[0] + terms[1]).sum(-1) / 2  # (n, H, Q)
    return np.asarray((each.mean(-2) * layer.importance.double().numpy()).sum(-1))


def line_search(problem: SearchProblem, epsilon: float, passes: int, rng: np.random.Generator) -> float:
    """The largest JSD it finds in one layer with so many passes."""
    (layer,) = problem.layers
    own, best = layer.own.double().numpy(), 0.0
    lines = passes // (BISECTIONS + 1)
    for start in range(0, lines, 64):
        ends = targets(layer, min(64, lines - start), rng)
        low, tried = np.zeros(len(ends)), np.ones(len(ends))
        high = np.ones(len(ends))
        for _ in range(BISECTIONS + 1):
            weights = own + tried[:, None, None, None] * (ends - own)
            with torch.no_grad():
                change = problem.changes([torch.from_numpy(weights)])[0].numpy()
            fits = change <= epsilon
            low, high = np.where(fits, tried, low), np.where(fits, high, tried)
            tried = (low + high) / 2
        best = max(best, float(distance(layer, own + low[:, None, None, None] * (ends - own)).max()))
    return best


def drawn(seed: int, families: Any, tokenizers: Any) -> Drawn:
    """The case of a seed: model, weights, text, layer and epsilon are drawn."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(KINDS))
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 11))) for _ in range(3)]  # a regression needs several
    epsilon = float(10 ** rng.uniform(-4, -1.5))
    cases = prepare(_model(kind, int(rng.integers(2**31)), families, tokenizers), texts)
    case = cases.cases[0]
    about = shown(cases, case)
    layers, answer = _layers(cases, case, about)
    layer = layers[int(rng.integers(len(layers)))]
    name = f"{kind} layer {layer.layer}, {len(case.x)} tokens, epsilon {epsilon:.1e}"
    return Drawn(name, SearchProblem(cases, case, about.stack, [layer], answer), epsilon)


def _model(kind: str, seed: int, families: Any, tokenizers: Any) -> Any:
    if kind.startswith("zoo:"):
        return heedful.load(kind)
    if kind != "one-layer":
        tokenizer, build = families[kind]
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return heedful.load((build().eval(), tokenizers(tokenizer)))
    heads, classes = 1 + seed % 6, 2 + seed % 3
    config = OneLayerConfig(220, heads=heads, width=16, d_att=8, d_out=8, context=32, classes=classes)
    module = OneLayerClassifier(config, seed).eval()
    with torch.no_grad():
        for weights in (module.query, module.key, module.value, module.readout):
            weights.mul_(4 + seed % 7)  # answers that depend on attention
    return heedful.load(
        module,
        tokenizer=tokenizers("wordpiece"),
        forward=lambda e, m: module.attend(inputs_embeds=e, attention_mask=m),
        labels=tuple("abcd"[:classes]),
    )


def compare(case: Drawn, seed: int, **search: Any) -> tuple[float, float, int]:
    """(JSD of the search, JSD of the line search at as many passes, passes)."""
    model = case.problem.cases.model
    before = model.spent
    best, _, _ = searched(case.problem, Search(case.epsilon, **search), torch.Generator().manual_seed(seed))
    cost = model.spent - before
    passes = cost.forwards + cost.backwards
    (layer,) = case.problem.layers
    weights = best.weights[0].double()[None]
    with torch.no_grad():
        assert float(case.problem.changes([weights])[0][0]) <= case.epsilon * (1 + 1e-6)
    ours = float(distance(layer, weights.numpy())[0])
    return ours, line_search(case.problem, case.epsilon, passes, np.random.default_rng(seed)), passes
